"""What a capture directory contains: summaries of its segments and journals, and the numbers that are in use."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopline.capture.crash_scan import scan
from hopline.capture.journal import content_of, is_abandoned
from hopline.capture.naming import JOURNAL, SegmentName, name_of, read_name
from hopline.capture.rows import last_seq
from hopline.capture.segment_files import journals_in, segments_at, segments_in

_LISTINGS = 5  # attempts to find the latest file while recoveries make segments of journals


class SegmentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a capture, described without reading its frames."""

    path: Path
    size: int  # bytes
    node: str = ""
    records: int = 0
    first: datetime | None = None
    last: datetime | None = None
    problem: str = ""  # why it cannot be read
    is_open: bool = False  # a journal
    is_left: bool = False  # a journal of a node that crashed

    @property
    def state(self) -> str:
        """What kind of file it is; empty for a closed segment."""
        if self.is_left:
            return "left by a crash: hopline capture recover"
        return "open" if self.is_open else ""


def summaries(path: Path) -> Iterator[SegmentSummary]:
    """Yield the summaries of the segments at a path, then those of its journals."""
    for segment in segments_at(path):
        yield _segment_summary(segment)
    journals = journals_in(path) if path.is_dir() else []
    for journal in journals:
        try:
            yield _journal_summary(journal)
        except FileNotFoundError:  # it was just closed
            continue


def _journal_summary(journal: Path) -> SegmentSummary:
    try:
        size = journal.stat().st_size
        is_left = is_abandoned(journal)
    except FileNotFoundError:
        raise
    except OSError as error:
        return SegmentSummary(path=journal, size=0, is_open=True, problem=str(error))
    return SegmentSummary(path=journal, size=size, is_open=True, is_left=is_left)


def _segment_summary(path: Path) -> SegmentSummary:
    size = 0
    try:
        size = path.stat().st_size
        metadata = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        problem, _, _ = str(error).partition("\n")
        return SegmentSummary(path=path, size=size, problem=problem)
    times = [time for time in _bounds(metadata, "ts") if isinstance(time, datetime)]
    nodes = {node for node in _bounds(metadata, "node") if isinstance(node, str)}
    return SegmentSummary(
        path=path,
        size=size,
        node=", ".join(sorted(nodes)),
        records=metadata.num_rows,
        first=min(times, default=None),
        last=max(times, default=None),
    )


def _bounds(metadata: pq.FileMetaData, name: str) -> Iterator[object]:
    """Yield the least and the greatest value of a column in each row group, as far as they are known."""
    names = metadata.schema.names
    if name not in names:
        return
    column = names.index(name)
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is not None and statistics.has_min_max:
            yield statistics.min
            yield statistics.max


# -- the sequence of numbers -------------------------------------------------------------------------------------------


def next_seq_of(directory: Path, node: str) -> int:
    """Return the number after the last one that a node has used in a directory; 1 if it has used none.

    A node that starts again under its old identity goes on with this number. Of a file that cannot be read only the
    name counts. A recovery may make a segment of the journal that was found: then the files are listed again.
    """
    for _ in range(_LISTINGS):
        latest = _latest_file(directory, node)
        if latest is None:
            return 1
        name, path = latest
        next_seq = name.seq + 1
        try:
            return max(next_seq, _last_seq_in(path, name) + 1)
        except FileNotFoundError:
            continue
        except (OSError, pa.ArrowException):
            break
    return next_seq


def _latest_file(directory: Path, node: str) -> tuple[SegmentName, Path] | None:
    """Return the segment or journal of a node whose first record has the highest number."""
    safe_node = name_of(node, 0, 0).node
    latest: tuple[SegmentName, Path] | None = None
    # Journals first: one that becomes a segment meanwhile is found twice rather than never.
    for path in (*journals_in(directory), *segments_in(directory)):
        name = read_name(path)
        if name is None or name.node != safe_node:
            continue
        if latest is None or name.seq > latest[0].seq:
            latest = name, path
    return latest


def _last_seq_in(path: Path, name: SegmentName) -> int:
    if path.suffix == JOURNAL:
        batches = scan(content_of(path), name.seq).batches
        return last_seq(batches[-1]) if batches else 0
    seqs = pq.read_table(path, columns=["seq"])["seq"]
    return int(pc.max(seqs).as_py() or 0)
