"""The settings of a capture and their defaults."""

from __future__ import annotations

import msgspec

from hopline.capture.events import Level
from hopline.message import LocalError

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
        if not self.directory:
            raise LocalError("directory", "the path of a directory", self.directory)
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, (int, float)) and not (value > 0 or (value == 0 and name.startswith("keep_"))):
                raise LocalError(name, "a number above zero", value)
        if self.buffer_bytes > LARGEST_BUFFER:
            raise LocalError("buffer_bytes", f"at most {LARGEST_BUFFER}", self.buffer_bytes)
