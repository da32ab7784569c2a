"""The books of a node: what came in, what became of it, and who wants to know."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hopline.actors import flow_log
from hopline.message import Message
from hopline.node.tap import Tap
from hopline.routing import Delivery, Outcome, Settled
from hopline.transport import Frames

log = flow_log("hopline.router")

# A node that drowns in messages must not drown in log records too.
RECORDS_A_SECOND = 10


class Ledger:
    """Counts every message once when it comes in and once when it ends."""

    def __init__(self, clock: Callable[[], float], on_outcome: Callable[[Settled], None] | None) -> None:
        self.submitted = self.received = self.copied = self.returned = 0
        self.delivered_count = self.sent_count = 0
        self.handled_count = self.handler_errors = 0
        self._clock = clock
        self._on_outcome = on_outcome
        self._tap: Tap | None = None
        self._full_tap: Tap | None = None
        self.is_watched = on_outcome is not None  # somebody wants to see every message
        self._others: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self._second = 0
        self._logged = self._unlogged = 0

    def watch(self, tap: Tap | None, *, everything: bool) -> None:
        """Tell a tap of the endings, or of everything."""
        self._tap = tap
        self._full_tap = tap if everything else None
        self.is_watched = self._on_outcome is not None or everything

    def outcomes(self, unsent: int) -> dict[Outcome, int]:
        """Return how many messages ended in which way, when so many of those given to links have not left yet."""
        sent = self.sent_count - self.returned - unsent
        return self._others | {Outcome.DELIVERED: self.delivered_count, Outcome.SENT: sent}

    def delivered(self, delivery: Delivery, receiver: bytes) -> None:
        """Note that a delivery was put before its receiver."""
        self.delivered_count += 1
        if self.is_watched:
            if self._full_tap is not None:
                self._full_tap.delivered(delivery, receiver)
            if self._on_outcome is not None:
                self._tell_hook(self._on_outcome, delivery, Outcome.DELIVERED, receiver=receiver)

    def resolved(self, delivery: Delivery, receiver: bytes) -> None:
        """Note that a promise took what was just delivered."""
        if self._full_tap is not None:
            self._full_tap.resolved(delivery.message, receiver)

    def handled(self, error: BaseException | None) -> None:
        """Note that a handler is done, and how it went."""
        self.handled_count += 1
        if error is not None:
            self.handler_errors += 1

    def sent(self, delivery: Delivery, leaving: Message, peer: bytes) -> None:
        """Note that a delivery left for another node, with the message as it left."""
        self.sent_count += 1
        if self._on_outcome is not None:
            left = Delivery(leaving, delivery.identifier, delivery.since, delivery.deadline)
            self._tell_hook(self._on_outcome, left, Outcome.SENT, peer=peer)

    def ended(
        self, delivery: Delivery, outcome: Outcome, reason: str, *, quietly: bool, frames: Frames | None = None
    ) -> int | None:
        """Note how a delivery ended that reached nobody, and give the number of its record, if it has one."""
        self._others[outcome] += 1
        seq = None if self._tap is None else self._tap.ended(delivery.message, outcome, reason, frames)
        if self._on_outcome is not None:
            self._tell_hook(self._on_outcome, delivery, outcome, reason=reason)
        message = delivery.message
        if quietly:
            log.debug("%s ended as %s: %s", message.identifier, outcome, reason, flow=message)
        elif log.isEnabledFor(logging.WARNING) and self._may_log():
            log.warning("%s ended as %s: %s", message.identifier, outcome, reason, flow=message)
        return seq

    def _may_log(self) -> bool:
        second = int(self._clock())
        if second != self._second:
            if self._unlogged:
                log.warning("and %d more messages ended badly that were not logged", self._unlogged)
            self._second, self._logged, self._unlogged = second, 0, 0
        if self._logged >= RECORDS_A_SECOND:
            self._unlogged += 1
            return False
        self._logged += 1
        return True

    def _tell_hook(
        self,
        hook: Callable[[Settled], None],
        delivery: Delivery,
        outcome: Outcome,
        *,
        receiver: bytes = b"",
        peer: bytes = b"",
        reason: str = "",
    ) -> None:
        settled = Settled(outcome, delivery.message, receiver, peer, reason, self._clock() - delivery.since)
        try:
            hook(settled)
        except Exception:
            log.exception("on_outcome failed", flow=delivery.message)
