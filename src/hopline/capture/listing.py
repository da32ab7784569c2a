"""What is in a capture directory, told without reading the frames."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.journal import is_left
from hopline.capture.naming import ROWS, journals_in, segments_in


class SegmentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a capture."""

    path: Path
    size: int  # bytes
    node: str = ""
    records: int = 0
    first: datetime | None = None
    last: datetime | None = None
    problem: str = ""  # why it cannot be read
    is_open: bool = False  # its node writes it, or crashed while it did
    is_left: bool = False  # by a node that crashed

    @property
    def state(self) -> str:
        """Say what it is, if it is not closed."""
        return "left by a crash: hopline capture recover" if self.is_left else "open" if self.is_open else ""


def segments_at(path: Path) -> list[Path]:
    """Give the segments that a path means: one file, those of a capture directory, or whatever Parquet is below it."""
    if path.is_file():
        return [path]
    found = segments_in(path)
    hidden = (".", "_")
    return found or sorted(one for one in path.rglob("*.parquet") if not one.name.startswith(hidden))


def summaries(path: Path) -> Iterator[SegmentSummary]:
    """Describe the segments at a path, and the open ones."""
    for segment in segments_at(path):
        yield _summary(segment)
    for journal in journals_in(path) if path.is_dir() else ():
        try:
            yield SegmentSummary(path=journal, size=_open_size(journal), is_open=True, is_left=is_left(journal))
        except FileNotFoundError:  # it was just closed
            continue
        except OSError as error:
            yield SegmentSummary(path=journal, size=0, is_open=True, problem=str(error))


def _open_size(journal: Path) -> int:
    rows = journal.with_suffix(ROWS)
    return journal.stat().st_size + (rows.stat().st_size if rows.exists() else 0)


def _summary(path: Path) -> SegmentSummary:
    size = 0
    try:
        size = path.stat().st_size
        metadata = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        return SegmentSummary(path=path, size=size, problem=str(error).partition("\n")[0])
    columns = {name: index for index, name in enumerate(metadata.schema.names)}
    times = [bound for bound in _bounds(metadata, columns.get("ts")) if isinstance(bound, datetime)]
    nodes = {bound for bound in _bounds(metadata, columns.get("node")) if isinstance(bound, str)}
    return SegmentSummary(
        path=path,
        size=size,
        node=", ".join(sorted(nodes)),
        records=metadata.num_rows,
        first=min(times, default=None),
        last=max(times, default=None),
    )


def _bounds(metadata: pq.FileMetaData, column: int | None) -> Iterator[object]:
    for group in range(metadata.num_row_groups if column is not None else 0):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is not None and statistics.has_min_max:
            yield statistics.min
            yield statistics.max
