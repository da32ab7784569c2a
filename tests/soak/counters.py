"""What a node writes down while it runs: a line of counters every `PERIOD`, and one more when it has stopped.

Each life of a node has a file of its own. A line is written by one call, so that a kill leaves whole lines behind, and
a cut one at the very end at the most, which is left out when the file is read.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from hopline.node.stats import Stats
from hopline.observers.recorder import CaptureReport

PERIOD = 1.0  # seconds


class Phase(StrEnum):
    """What a node is doing."""

    WAITING = "waiting"  # for the others, before the load begins
    LOADED = "loaded"
    DRAINING = "draining"  # the load is over, and answers are outstanding
    DRAINED = "drained"  # nothing waits any more
    STOPPED = "stopped"


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """A message of the load that its sender knows to have failed."""

    began: float  # seconds since 1970
    ended: float
    reason: str


class LoadCounts(msgspec.Struct, frozen=True):
    """What the senders of a node have seen since it started."""

    asked: int = 0
    answered: int = 0
    failed: dict[str, int] = {}  # questions without an answer, by reason
    noted: int = 0  # notes that the node has taken
    not_noted: dict[str, int] = {}  # notes that it has not, by reason
    skipped: int = 0  # messages that were not sent, because the node was paused when they were due

    @property
    def pending(self) -> int:
        """Number of questions that wait for an answer."""
        return self.asked - self.answered - sum(self.failed.values())


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """One line."""

    time: float  # seconds since 1970
    phase: Phase
    stats: Stats
    load: LoadCounts
    questions: int  # that its worker has handled
    notes: int
    failures: list[Failure] = []  # since the line before
    capture: CaptureReport | None = None  # None once the node has stopped
    unacknowledged: int = 0
    peers: int = 0
    is_joined: bool = False


def read_counters(path: Path) -> list[Counters]:
    """Return the lines of a file, without one that a kill has cut; nothing if there is no file."""
    if not path.exists():
        return []
    decoder = msgspec.json.Decoder(Counters)
    *lines, rest = path.read_bytes().split(b"\n")
    del rest  # empty, or cut
    return [decoder.decode(line) for line in lines]


class LastCounters:
    """Follows a file that grows, and keeps its last line.

    Args:
        path: The file, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.last: Counters | None = None
        self._path = path
        self._offset = 0
        self._decoder = msgspec.json.Decoder(Counters)

    def refresh(self) -> Counters | None:
        """Read what was added, and return the last line."""
        if not self._path.exists():
            return None
        with self._path.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        whole = added.rpartition(b"\n")[0]
        if whole:
            self._offset += len(whole) + 1
            self.last = self._decoder.decode(whole.rpartition(b"\n")[2])
        return self.last
