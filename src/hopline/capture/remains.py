"""What can be read of a segment that a crash left open.

Its records are in two files. The growing Parquet file has groups of rows; the journal has blocks of records, some of
which became groups later, and marks, which say where the groups are. A mark also stands at the end of the Parquet file.

Any byte of either may be damaged, and costs the group or block that it belongs to, nothing else:

* The groups are found by the mark that knows most of them, in whichever file it is. Each has a checksum there, so that
  a group is read as it was written or not at all.
* Records that are in no readable group are taken from the blocks of the journal, wherever these have them.
* The numbers of the records say what is missing between them; the next record's `dropped` counts it, as it counts
  records that the node itself dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopline.capture.blocks import Block, Opening, block_bytes, frame_at, is_torn_opening, next_frame, stretches_in
from hopline.capture.columns import WRITTEN, rows_of
from hopline.capture.journal import mapped
from hopline.capture.row_groups import BEGIN, group_bounds

_UNREADABLE = (ValueError, IndexError, OSError, pa.ArrowException)  # of what is in memory
_NO_SEQ = (1 << 63) - 1  # above all numbers
_DROPPED = WRITTEN.get_field_index("dropped")


class Piece(msgspec.Struct, frozen=True):
    """Records that follow each other: a group of rows, or what the journal has between two of them."""

    first_seq: int
    last_seq: int
    records: int
    dropped: int  # before the first of them, as the node counted it
    missing: int  # between them
    read: Callable[[], pa.Table]


class Remains(msgspec.Struct, frozen=True):
    """All that can be read, and how much cannot."""

    pieces: list[Piece]  # in the order of their numbers
    first_seq: int  # of the segment, whether that record can be read or not
    missing: int  # records between and behind those that can be read
    unread_journal: int  # bytes
    unread_rows: int
    is_segment: bool  # at least one frame, or the beginning of the first one, is there

    @property
    def is_damaged(self) -> bool:
        """Whether something was there that cannot be read."""
        return self.missing + self.unread_journal + self.unread_rows > 0

    @property
    def records(self) -> int:
        """How many records can be read."""
        return sum(piece.records for piece in self.pieces)

    def tables(self) -> Iterator[pa.Table]:
        """Return the records in their order, each with the number of those that are missing before it."""
        before = self.first_seq - 1
        for piece in self.pieces:
            yield _with_dropped(piece.read(), before)
            before = piece.last_seq


def remains_of(journal: Path, rows: Path, first_seq: int) -> Remains:
    """Return what can be read of a journal and of the groups of rows beside it, either of which may not be there.

    Raises:
        FileNotFoundError: One of them was taken away meanwhile.
    """
    journaled, written = _content(journal), _content(rows)
    stretches = list(stretches_in(journaled))
    blocks = [one.content for one in stretches if isinstance(one.content, Block)]
    marks = [*filter(_is_mark, blocks), *_seal(written)]
    groups, unread_rows, is_whole = _groups(written, marks)
    openings = [one.content for one in stretches if isinstance(one.content, Opening)]
    tables, unusable = _tables(openings, [block for block in blocks if not block.is_mark])
    unread_journal = unusable + sum(one.end - one.begin for one in stretches if one.content is None)
    if is_torn_opening(journaled):
        unread_journal = 0
    pieces = list(_merged(groups, tables))
    is_damaged = unread_journal + unread_rows > 0 or not is_whole
    last_seq = max((block.last_seq for block in (*blocks, *marks)), default=0) if is_damaged else 0
    return Remains(
        pieces,
        first_seq,
        _missing(pieces, first_seq, last_seq),
        unread_journal,
        unread_rows,
        bool(marks) or is_torn_opening(journaled) or any(one.content is not None for one in stretches),
    )


def _content(path: Path) -> pa.Buffer:
    return mapped(path) if path.exists() else pa.py_buffer(b"")


def _is_mark(block: Block) -> bool:
    return block.is_mark


# -- groups of rows ----------------------------------------------------------------------------------------------------


def _seal(written: pa.Buffer) -> list[Block]:
    """Return the mark at the end of the groups of rows, if it is there: nothing may follow it."""
    at = next_frame(written, BEGIN)
    while at < written.size:
        frame = frame_at(written, at)
        if frame is not None and frame.end == written.size and isinstance(frame.content, Block):
            return [frame.content] if frame.content.head.rows_end == at else []
        at = next_frame(written, at + 1)
    return []


def _groups(written: pa.Buffer, marks: list[Block]) -> tuple[list[Piece], int, bool]:
    """Return the groups of rows that can be read, how many bytes of their file cannot, and whether these are all."""
    if not marks:
        return [], max(0, written.size - BEGIN), True
    mark = max(marks, key=lambda one: one.head.rows_end)
    end, footer = mark.head.rows_end, mark.columns[-1]
    try:
        metadata = pq.read_metadata(pa.BufferReader(footer))
        file = pq.ParquetFile(pa.BufferReader(written), metadata=metadata, page_checksum_verification=True)
    except _UNREADABLE:
        return [], max(0, written.size - BEGIN), False
    pieces: list[Piece] = []
    tail = written[end:]
    unread = 0 if tail.equals(footer) or tail.equals(_joined(block_bytes(mark))) else len(tail)
    for group, (begin, group_end) in enumerate(group_bounds(metadata, end)):
        read = partial(_read_group, file, group)
        content = written[begin:group_end]
        if len(content) == group_end - begin and crc32(content) == mark.head.checksums[group]:
            pieces.append(_piece(read))
        else:
            unread += len(content)
    return pieces, unread, len(pieces) == metadata.num_row_groups


def _joined(pieces: Iterable[bytes | pa.Buffer]) -> pa.Buffer:
    return pa.py_buffer(b"".join(pieces))


def _read_group(file: pq.ParquetFile, group: int) -> pa.Table:
    return file.read_row_group(group, use_threads=False).cast(WRITTEN)


def _piece(read: Callable[[], pa.Table]) -> Piece:
    rows = read()
    rows.validate(full=True)
    first_seq, last_seq, dropped = rows["seq"][0].as_py(), rows["seq"][-1].as_py(), rows["dropped"][0].as_py()
    counted = _with_dropped(rows, first_seq - dropped - 1)
    missing = pc.sum(pc.subtract(counted["dropped"], rows["dropped"])).as_py()
    return Piece(first_seq, last_seq, len(rows), dropped, missing, read)


# -- the journal -------------------------------------------------------------------------------------------------------


def _tables(openings: list[Opening], blocks: list[Block]) -> tuple[list[pa.Table], int]:
    """Return the records of blocks, and how many bytes of these are of no use."""
    tables: list[pa.Table] = []
    unusable = 0
    for block in blocks:
        try:
            rows = rows_of(openings[0], [block])
            rows.validate(full=True)
            tables.append(rows)
        except _UNREADABLE:
            unusable += block.size
    return [rows for rows in tables if len(rows)], unusable


def _merged(groups: list[Piece], tables: list[pa.Table]) -> Iterator[Piece]:
    """Return the groups, and between them what the journal has that is in none of them."""
    before = -1
    for group in groups:
        yield from _between(tables, before, group.first_seq)
        yield group
        before = group.last_seq
    yield from _between(tables, before, _NO_SEQ)


def _between(tables: list[pa.Table], before: int, behind: int) -> Iterator[Piece]:
    chosen = []
    for rows in tables:
        seqs = rows["seq"]
        if seqs[-1].as_py() > before and seqs[0].as_py() < behind:
            chosen.append(rows.filter(pc.and_(pc.greater(seqs, before), pc.less(seqs, behind))))
    if sum(map(len, chosen)):
        together = pa.concat_tables(chosen).unify_dictionaries()
        yield _piece(lambda: together)


# -- what is missing ---------------------------------------------------------------------------------------------------


def _missing(pieces: list[Piece], first_seq: int, last_seq: int) -> int:
    """Count the records whose numbers are neither there nor among those that the node dropped."""
    missing, before = 0, first_seq - 1
    for piece in pieces:
        missing += piece.missing + max(0, piece.first_seq - before - 1 - piece.dropped)
        before = piece.last_seq
    return missing + max(0, last_seq - before)


def _with_dropped(rows: pa.Table, before: int) -> pa.Table:
    """Let each record count those that are missing before it; `before` is the number before the first one."""
    seqs = rows["seq"].combine_chunks()
    behind = pa.concat_arrays([pa.array([before], seqs.type), seqs])
    gaps = pc.subtract(pc.subtract(seqs, behind[:-1]), 1).cast(rows["dropped"].type)
    return rows.set_column(_DROPPED, WRITTEN.field(_DROPPED), pc.max_element_wise(rows["dropped"], gaps))
