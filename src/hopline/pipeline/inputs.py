"""Which segments a run reads: found by path, folder or pattern, and looked at before Spark is asked to read them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.naming import DAY, JOURNAL, SEGMENT
from hopline.pipeline.days import Days
from hopline.pipeline.decoding.files import RowGroup
from hopline.pipeline.failures import BadCapturesError, BadFile
from hopline.pipeline.segments import first_line, foreign_column

# Looking at a footer is waiting for the disk, or for a server far away.
LOOKING_THREADS = 16
_HIDDEN = (".", "_")


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of records that can be read."""

    path: str
    row_groups: tuple[int, ...]  # how many records each has
    bytes: int

    @property
    def rows(self) -> int:
        """Count its records."""
        return sum(self.row_groups)


@dataclass(frozen=True, slots=True)
class Captures:
    """What was found: what is read, and what is not, and why."""

    segments: tuple[Segment, ...]
    bad: tuple[BadFile, ...] = ()
    unfinished: int = 0  # still written by a node, or left by one that crashed
    outside: int = 0  # of other days

    @property
    def rows(self) -> int:
        """Count the records."""
        return sum(segment.rows for segment in self.segments)

    @property
    def row_groups(self) -> list[RowGroup]:
        """List the parts of all segments."""
        return [
            RowGroup(segment.path, number, rows)
            for segment in self.segments
            for number, rows in enumerate(segment.row_groups)
        ]

    @property
    def bytes(self) -> int:
        """Count the bytes of the files."""
        return sum(segment.bytes for segment in self.segments)

    def without(self, bad: Sequence[BadFile], *, may_go_on: bool) -> Captures:
        """Leave out what turned out to be bad, if that may be and something else is left; else `BadCapturesError`."""
        paths = {one.path for one in bad}
        left = tuple(segment for segment in self.segments if segment.path not in paths)
        if not left or len(left) == len(self.segments) or not may_go_on:
            raise BadCapturesError(bad, others=0 if may_go_on else len(left))
        return replace(self, segments=left, bad=(*self.bad, *bad))


def find_captures(places: Sequence[str], days: Days, *, skip_bad_files: bool = False) -> Captures:
    """Find the segments at some places that may have records of some days, and look at each.

    A file, folder or pattern that is no capture raises `BadCapturesError`, which names all of them; with
    `skip_bad_files` they are left out and listed, and it is an error only if nothing is left.
    """
    unfinished = outside = 0
    bad: list[BadFile] = []
    found: dict[Path, None] = {}  # in order, each once: places may overlap
    for place in places:
        try:
            listing = _listing(place)
        except (OSError, ValueError) as problem:
            bad.append(BadFile(place, getattr(problem, "strerror", None) or str(problem)))
            continue
        closed = [path for path in listing if not _is_unfinished(path.name)]
        unfinished += len(listing) - len(closed)
        if not closed:
            still_open = f"; {len(listing)} are not closed yet" if listing else ""
            bad.append(BadFile(place, f"no segments in it, expected files *{SEGMENT}{still_open}"))
        for path in closed:
            day = _partition_day(path)
            if day is None or days.may_lie_under(day):
                found.setdefault(path.resolve())
            else:
                outside += 1
    segments: list[Segment] = []
    with ThreadPoolExecutor(LOOKING_THREADS, thread_name_prefix="hopline-look") as threads:
        for looked in threads.map(partial(_look_at, days=days), found):
            if isinstance(looked, Segment):
                segments.append(looked)
            elif looked is None:
                outside += 1
            else:
                bad.append(looked)
    if bad and not (skip_bad_files and segments):
        raise BadCapturesError(bad, others=len(segments))
    if not segments:
        raise BadCapturesError([BadFile(", ".join(places), f"none of its {outside} segments has records of {days}")])
    # The order in which they were named must not matter.
    return Captures(tuple(sorted(segments, key=lambda one: one.path)), tuple(bad), unfinished, outside)


def _listing(place: str) -> list[Path]:
    """List the segments at a place, those that are still open included. A file that is named is taken as one."""
    if "://" in place and not place.startswith("file://"):
        raise ValueError("only files that this machine can open are read: mount the storage, or copy the captures")
    place = place.removeprefix("file://")
    if Path(place).exists():
        matches = [place]
    elif not (matches := sorted(glob.glob(place, recursive=True))):  # noqa: PTH207 - may be absolute
        raise FileNotFoundError("nothing matches" if glob.has_magic(place) else "no such file or folder")
    return [file for match in matches for file in ([Path(match)] if Path(match).is_file() else _segments_below(match))]


def _segments_below(folder: str) -> Iterator[Path]:
    for here, folders, files in os.walk(folder, onerror=_fail):
        folders[:] = sorted(name for name in folders if not name.startswith(_HIDDEN))
        yield from (
            Path(here, name)
            for name in sorted(files)
            if _is_unfinished(name) or (name.endswith(SEGMENT) and not name.startswith(_HIDDEN))
        )


def _fail(problem: OSError) -> None:
    raise problem


def _is_unfinished(name: str) -> bool:
    return name.endswith(JOURNAL)


def _partition_day(path: Path) -> date | None:
    for part in reversed(path.parent.parts):
        if part.startswith(DAY):
            try:
                return date.fromisoformat(part.removeprefix(DAY))
            except ValueError:
                return None
    return None


def _look_at(path: Path, days: Days) -> Segment | BadFile | None:
    """Look at a file's footer: give the segment, what is wrong with it, or None when it has no record of these days."""
    try:
        if (size := path.stat().st_size) == 0:
            return BadFile(str(path), "is empty: 0 bytes")
        with pq.ParquetFile(path) as file:
            footer, schema = file.metadata, file.schema_arrow
    except pa.ArrowInvalid as problem:
        return BadFile(str(path), f"is no whole Parquet file (truncated?): {first_line(problem)}")
    except (OSError, pa.ArrowException) as problem:
        return BadFile(str(path), f"cannot be read: {first_line(problem)}")
    if (foreign := foreign_column(schema)) is not None:
        return BadFile(str(path), f"is no capture: {foreign}")
    times = _times(footer)
    if not days.is_all and times is not None and not days.may_hold(*times):
        return None
    row_groups = tuple(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
    return Segment(str(path.absolute()), row_groups, size)


def _times(footer: pq.FileMetaData) -> tuple[datetime, datetime] | None:
    """Tell the first and the last time in a file, or None where its footer does not say."""
    columns = [footer.schema.column(index).path for index in range(footer.num_columns)]
    at = columns.index("ts")
    statistics = [footer.row_group(group).column(at).statistics for group in range(footer.num_row_groups)]
    if not statistics or not all(one is not None and one.has_min_max and one.null_count == 0 for one in statistics):
        return None
    earliest, latest = min(one.min for one in statistics), max(one.max for one in statistics)
    return tuple(one if one.tzinfo else one.replace(tzinfo=UTC) for one in (earliest, latest))
