"""What can be read of a segment that a crash left open: its groups of rows, and what its journal has beyond them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.blocks import Block, blocks_in, read_opening, was_begun
from hopline.capture.columns import WRITTEN, rows_of
from hopline.capture.journal import mapped

_UNREADABLE = (ValueError, IndexError, OSError, pa.ArrowException)  # of what is in memory


class Remains(msgspec.Struct, frozen=True):
    """All that is whole."""

    groups: Groups
    beyond: list[pa.Table]  # what only the journal has
    lost_bytes: int  # of what is not whole

    @property
    def records(self) -> int:
        """How many records these are."""
        return self.groups.records + sum(map(len, self.beyond))

    def tables(self) -> Iterator[pa.Table]:
        """Give them, in their order."""
        yield from self.groups.tables()
        if self.beyond:
            yield pa.concat_tables(self.beyond).unify_dictionaries()


class Groups(msgspec.Struct, frozen=True):
    """The groups of rows that can be read."""

    file: pq.ParquetFile | None = None
    count: int = 0
    records: int = 0
    last_seq: int = 0
    end: int = 0  # of these groups, in bytes

    def tables(self) -> Iterator[pa.Table]:
        """Give their rows."""
        for group in range(self.count):
            yield _rows(self.file, group)


def remains_of(journal: Path, rows: Path) -> Remains | None:
    """Look what is whole of a journal, and of the groups of rows beside it; None if it is no journal."""
    content = mapped(journal)
    opened = read_opening(content)
    if opened is None:
        return Remains(Groups(), [], int(content.size)) if was_begun(content) else None
    opening, whole = opened
    marks: list[Block] = []
    damaged: list[Block] = []
    tables: list[pa.Table] = []
    for block, end in blocks_in(content, whole):
        whole = end
        if block.is_mark:
            marks.append(block)
            continue
        try:
            tables.append(_checked(rows_of(opening, [block])))
        except _UNREADABLE:
            damaged.append(block)
    written = rows.read_bytes() if marks and rows.exists() else b""
    groups = next((groups for mark in reversed(marks) if (groups := _groups(written, mark)) is not None), Groups())
    # Whatever else is in the journal was written before the groups were, and is among their rows.
    beyond = [table for table in tables if len(table) and table["seq"][0].as_py() > groups.last_seq]
    lost_rows = max(len(written), marks[-1].head.rows_end if marks else 0) - groups.end
    lost_blocks = sum(block.size for block in damaged if block.head.first_seq > groups.last_seq)
    return Remains(groups, beyond, int(content.size) - whole + lost_rows + lost_blocks)


def _groups(written: bytes, mark: Block) -> Groups | None:
    """Look which groups of rows can be read with the footer of a mark; None if none can."""
    try:
        file = pa.BufferReader(b"".join((written[: mark.head.rows_end], mark.columns[-1])))
        groups = pq.ParquetFile(file, page_checksum_verification=True)
    except _UNREADABLE:
        return None
    count = records = last_seq = end = 0
    try:
        for group in range(groups.num_row_groups):
            end = groups.metadata.row_group(group).column(0).data_page_offset
            rows = _checked(_rows(groups, group))
            count, records, last_seq = count + 1, records + len(rows), rows["seq"][-1].as_py()
        end = min(mark.head.rows_end, len(written))
    except _UNREADABLE:
        pass  # and whatever follows it cannot be trusted either
    return Groups(groups, count, records, last_seq, end) if count else None


def _rows(groups: pq.ParquetFile, group: int) -> pa.Table:
    return groups.read_row_group(group, use_threads=False).cast(WRITTEN)


def _checked(rows: pa.Table) -> pa.Table:
    rows.validate(full=True)
    return rows
