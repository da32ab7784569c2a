"""Every limit of a capture: its name, its default, what it is for."""

from __future__ import annotations

import msgspec

from hopline.capture.events import Level
from hopline.checks import Range, require, require_numbers

MEBIBYTE = 1 << 20
LARGEST_BUFFER = 1 << 30  # all that waits may come in one batch, whose offsets are 32 bits


class CaptureSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node records its traffic, how much of it, and how much room that may take. Times are in seconds."""

    directory: str  # where the segments go, below date=<day>
    level: Level = Level.WIRE  # how much is recorded from the start: off, wire or full
    segment_bytes: int = 64 * MEBIBYTE  # a segment is closed when it has so much, before compression
    segment_time: float = 60.0  # and when it is so old
    flush_time: float = 0.5  # what is older is on the disk, and outlives a crash of the process
    buffer_bytes: int = 128 * MEBIBYTE  # what may wait in memory for the disk; records beyond it are dropped
    keep_time: float = 0.0  # older segments are deleted, whichever node wrote them; 0: none
    keep_bytes: int = 0  # the oldest segments are deleted when all of them take more; 0: none
    retry_time: float = 2.0  # between tries to write again, after the disk refused

    def __post_init__(self) -> None:
        require(bool(self.directory), "directory", "the path of a directory", self.directory)
        require_numbers(self, _ACCEPTED)


_ABOVE_ZERO = Range(0, excludes_least=True, allows_infinity=True)
_OR_NONE = Range(0, allows_infinity=True)
_ACCEPTED = {
    "segment_bytes": _ABOVE_ZERO,
    "segment_time": _ABOVE_ZERO,
    "flush_time": _ABOVE_ZERO,
    "buffer_bytes": Range(0, LARGEST_BUFFER, excludes_least=True),
    "keep_time": _OR_NONE,
    "keep_bytes": _OR_NONE,
    "retry_time": _ABOVE_ZERO,
}
