"""The names of a capture's files.

A segment is ``date=<day>/<node>-<start>-<seq>.parquet``. Its journal, while it is open, is a hidden file beside it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec

DAY = "date="
SEGMENT = ".parquet"
JOURNAL = ".open"
UNFINISHED = ".tmp"  # behind SEGMENT
DAMAGED = ".damaged"  # behind the ending of any of these
PRIVATE = 0o600
"""The mode of every file of a capture, because it contains the bodies of messages."""
_START = "%Y%m%dT%H%M%S.%fZ"
_NAME = re.compile(r"(?P<node>.+)-(?P<start>\d{8}T\d{6}\.\d{6}Z)-(?P<seq>\d+)")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NODE = 100  # characters
_MICROSECONDS = 1_000_000  # per second


class SegmentName(msgspec.Struct, frozen=True):
    """The node that wrote a segment, and the time and number of its first record."""

    node: str  # with only those characters that are safe in a file name
    start: datetime
    seq: int

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return f"{self.node}-{self.start.strftime(_START)}-{self.seq}"

    def segment(self, directory: Path) -> Path:
        """Return the path of the closed segment."""
        return self._day(directory) / f"{self.stem}{SEGMENT}"

    def journal(self, directory: Path) -> Path:
        """Return the path of the journal of the open segment. It is hidden, so that Spark and others ignore it."""
        return self._day(directory) / f".{self.stem}{JOURNAL}"

    def _day(self, directory: Path) -> Path:
        return directory / f"{DAY}{self.start:%Y-%m-%d}"


def name_of(node: str, time: float, seq: int) -> SegmentName:
    """Return the name of a segment whose first record has this time, in seconds since 1970, and this number."""
    seconds, microseconds = divmod(int(time * _MICROSECONDS), _MICROSECONDS)
    start = datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds)
    safe = _UNSAFE.sub("_", node)[:_LONGEST_NODE]
    if not safe[:1].isalnum():
        safe = f"node{safe}"  # a leading dot or underscore would hide the file from Spark
    return SegmentName(safe, start, seq)


def read_name(path: Path) -> SegmentName | None:
    """Return the parsed name of a segment or a journal, or None if the file is neither."""
    stem, dot, kind = path.name.removeprefix(".").rpartition(".")
    if not dot or f".{kind}" not in (SEGMENT, JOURNAL):
        return None
    parts = _NAME.fullmatch(stem)
    if parts is None:
        return None
    start = datetime.strptime(parts["start"], _START).replace(tzinfo=UTC)
    return SegmentName(parts["node"], start, int(parts["seq"]))
