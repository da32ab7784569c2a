"""The settings of a capture and their defaults."""

from __future__ import annotations

import msgspec

from hopline.capture.events import Level
from hopline.checks import Range, require, require_numbers

MEBIBYTE = 1 << 20
LARGEST_BUFFER = 1 << 30  # all that waits may be in one batch, and its offsets have 32 bits


class CaptureSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node records its traffic, how much of it, and within which limits. Times are in seconds."""

    directory: str  # for the segments, each below date=<day>
    level: Level = Level.WIRE  # from the start: off, wire or full
    segment_bytes: int = 64 * MEBIBYTE  # a segment is closed when its journal has this size
    segment_time: float = 60.0  # a segment is closed at this age
    flush_time: float = 0.5  # records of this age are on the disk and survive a crash
    buffer_bytes: int = 128 * MEBIBYTE  # may wait in memory for the disk; records beyond that are dropped
    keep_time: float = 0.0  # older segments are deleted, whichever node wrote them; 0: never
    keep_bytes: int = 0  # the oldest segments are deleted when all together take more; 0: never
    retry_time: float = 2.0  # between attempts to write after the disk refused

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
