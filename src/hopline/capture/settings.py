"""Every limit of a capture: its name, its default, what it is for."""

from __future__ import annotations

import msgspec

from hopline.capture.events import Level
from hopline.message import LocalError

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
        if not self.directory:
            raise LocalError("directory", "the path of a directory", self.directory)
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, (int, float)) and not (value > 0 or (value == 0 and name.startswith("keep_"))):
                raise LocalError(name, "a number above zero", value)
        if self.buffer_bytes > LARGEST_BUFFER:
            raise LocalError("buffer_bytes", f"at most {LARGEST_BUFFER}", self.buffer_bytes)
