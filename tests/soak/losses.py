"""Whether a fault explains that a message was lost between two nodes, or that its sending was not recorded.

Theory of operation
-------------------
A message that node A recorded as sent, and node B not as received, may have been lost for one of these reasons:

* **B ended.** What B had in its sockets when it was killed or stopped is lost, and so are the records of what it had
  received within the last `flush_time`. TCP keeps the order, so the lost messages of one connection are the last ones
  of it: whatever B received from the same life of A before them, it received before its end, and whatever it received
  after them, it received in a later life. A node is stopped in order when nothing of the load is under way, so then
  only the protocol's own messages may be lost.
* **A ended.** The same holds at the end of A's life, for what its system had not handed over when it was killed.
* **A connection broke** while both were alive, because one of them was paused for so long that the other gave it up.
  A node counts these messages as `unacknowledged`, and nothing else may be lost without the end of a life.

A message that B recorded as received, and A not as sent, was sent within the last `flush_time` before A was killed:
what is older is on the disk. That is what the documentation promises, and `UNWRITTEN` adds a little for the time that
writing takes.

Everything else has no explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from hopline.capture.settings import CaptureSettings
from tests.soak.load import IDENTITIES
from tests.soak.processes import End, Life
from tests.soak.records import Lost, Unrecorded

FLUSH_TIME = CaptureSettings(directory="-").flush_time
UNWRITTEN = FLUSH_TIME + 0.25  # seconds before a kill from which records may be missing
NOTICE = 1.0  # seconds for which messages may leave to, or arrive from, a process that has ended
BEHIND = 5.0  # seconds that a node may be behind with reading
_CLOCK = 0.01  # seconds by which the times of two processes of one machine may differ


class Cause(StrEnum):
    """Why a message was lost."""

    RECEIVER_ENDED = "receiver ended"
    SENDER_ENDED = "sender ended"
    CONNECTION_BROKE = "connection broke"  # or nothing at all: the count of unacknowledged messages tells


class Losses(msgspec.Struct, frozen=True):
    """The lost messages of a run by cause, and those that were sent without a record."""

    by_cause: dict[Cause, int]
    broken_by_life: dict[tuple[str, int], int]  # of `CONNECTION_BROKE`, by the life of the sender
    unrecorded: int
    unexplained_unrecorded: list[Unrecorded]
    oldest_unrecorded: float  # seconds before the kill


def cause_of(lost: Lost, lives: Iterable[Life]) -> Cause:
    """Return why a message was lost."""
    for life in lives:
        if life.ended is None:
            continue
        if life.end is End.STOPPED and lost.identity in IDENTITIES:  # nothing of the load was under way then
            continue
        if life.role == lost.receiver and _ended_between(lost, life.ended):
            return Cause.RECEIVER_ENDED
        is_sender = (life.role, life.number) == (lost.sender, lost.life)
        is_last = lost.received_after is None and lost.sent >= life.ended - NOTICE
        if is_sender and is_last:
            return Cause.SENDER_ENDED
    return Cause.CONNECTION_BROKE


def _ended_between(lost: Lost, ended: float) -> bool:
    """Return whether the receiver ended after the message before was received, and before the one after it was."""
    is_near = ended - BEHIND <= lost.sent <= ended + NOTICE
    is_after = lost.received_before is None or lost.received_before <= ended + _CLOCK
    is_before = lost.received_after is None or lost.received_after >= ended - _CLOCK
    return is_near and is_after and is_before


def time_before_kill(unrecorded: Unrecorded, lives: Iterable[Life]) -> float | None:
    """Return how long before the kill of its sender a message was received; None if none was killed near it."""
    times = [
        life.ended - unrecorded.received
        for life in lives
        if life.role == unrecorded.sender and life.ended is not None and life.end is not End.STOPPED
    ]
    near = [time for time in times if -BEHIND <= time <= UNWRITTEN]
    return min(near, default=None, key=abs)


def explain(lost: Sequence[Lost], unrecorded: Sequence[Unrecorded], lives: Sequence[Life]) -> Losses:
    """Return the losses of a run with their causes."""
    by_cause = dict.fromkeys(Cause, 0)
    broken: dict[tuple[str, int], int] = {}
    for message in lost:
        cause = cause_of(message, lives)
        by_cause[cause] += 1
        if cause is Cause.CONNECTION_BROKE:
            life = message.sender, message.life
            broken[life] = broken.get(life, 0) + 1
    times = [time_before_kill(message, lives) for message in unrecorded]
    return Losses(
        by_cause=by_cause,
        broken_by_life=broken,
        unrecorded=len(unrecorded),
        unexplained_unrecorded=[message for message, time in zip(unrecorded, times, strict=True) if time is None],
        oldest_unrecorded=max((time for time in times if time is not None), default=0.0),
    )
