"""The names of a capture's files: ``date=<day>/<node>-<start>-<seq>.parquet``, and hidden ones while they are made."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec

DAY = "date="
SEGMENT, JOURNAL, ROWS, UNFINISHED, DAMAGED = ".parquet", ".open", ".rows", ".tmp", ".damaged"
PRIVATE = 0o600
"""The mode of every file of a capture: it has the bodies of messages, which are nobody else's business."""
_START = "%Y%m%dT%H%M%S.%fZ"
_NAME = re.compile(r"(?P<node>.+)-(?P<start>\d{8}T\d{6}\.\d{6}Z)-(?P<seq>\d+)")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NODE = 100
_MICROSECONDS = 1_000_000  # a second


class SegmentName(msgspec.Struct, frozen=True):
    """Who wrote a segment, when it began, and with which number."""

    node: str  # as it may stand in the name of a file
    start: datetime
    seq: int

    @property
    def stem(self) -> str:
        """The name without what says which kind of file it is."""
        return f"{self.node}-{self.start.strftime(_START)}-{self.seq}"

    def segment(self, directory: Path) -> Path:
        """Give the path of the segment once it is closed."""
        return self._day(directory) / f"{self.stem}{SEGMENT}"

    def journal(self, directory: Path) -> Path:
        """Give the path of its journal while it is open; hidden, as Spark and others leave such files alone."""
        return self._day(directory) / f".{self.stem}{JOURNAL}"

    def rows(self, directory: Path) -> Path:
        """Give the path of its groups of rows while it is open, beside the journal."""
        return self._day(directory) / f".{self.stem}{ROWS}"

    def _day(self, directory: Path) -> Path:
        return directory / f"{DAY}{self.start:%Y-%m-%d}"


def name_of(node: str, now: float, seq: int) -> SegmentName:
    """Name a segment that begins now, in seconds since 1970."""
    seconds, microseconds = divmod(int(now * _MICROSECONDS), _MICROSECONDS)
    start = datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds)
    safe = _UNSAFE.sub("_", node)[:_LONGEST_NODE]
    return SegmentName(safe if safe[:1].isalnum() else f"node{safe}", start, seq)  # what is hidden is not read


def read_name(path: Path) -> SegmentName | None:
    """Read the name of a segment or a journal; None for a file that is neither."""
    stem, dot, kind = path.name.removeprefix(".").rpartition(".")
    found = _NAME.fullmatch(stem) if dot and f".{kind}" in (SEGMENT, JOURNAL) else None
    if found is None:
        return None
    start = datetime.strptime(found["start"], _START).replace(tzinfo=UTC)
    return SegmentName(found["node"], start, int(found["seq"]))


def segments_in(directory: Path) -> list[Path]:
    """Give the closed segments below a directory, those that began first first."""
    return _in(directory, f"*{SEGMENT}")


def journals_in(directory: Path) -> list[Path]:
    """Give the segments that are open, or were when their node crashed."""
    return _in(directory, f".*{JOURNAL}")


def _in(directory: Path, pattern: str) -> list[Path]:
    named = [(name, path) for path in directory.glob(f"{DAY}*/{pattern}") if (name := read_name(path)) is not None]
    return [path for _, path in sorted(named, key=lambda one: (one[0].start, one[0].seq, one[1]))]
