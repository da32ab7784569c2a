"""A batch in a journal: a head, and each column in one piece, so that it can be read where it is.

Whatever is in a file is whole if both of its marks are there; what a crash cut off, or filled with zeros, has not both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from struct import Struct
from typing import Annotated, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from hopline.capture.packing import HOLE, Batch, Extra, Packed

_MARK = b"HOPLINE\x01"
_SIZES = Struct("=II")  # of the head, and of everything else
_ALIGNMENT = 8  # bytes, as Arrow wants it
_HEAD = len(_MARK) + _SIZES.size  # where it begins
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Opening(msgspec.Struct, frozen=True, array_like=True):
    """What a journal begins with: what all of its records have in common."""

    node: str
    node_uri: str


class Head(msgspec.Struct, frozen=True, array_like=True):
    """What a block says of its records beside its columns."""

    first_seq: int
    lost: int  # records before the first of them, beside what its gaps say
    has_holes: bool
    names: list[bytes | None]
    extras: dict[int, Extra]
    gaps: dict[int, int]
    sizes: tuple[_Size, ...]  # of the columns, in bytes
    epoch: float = 0.0  # to be added to its times, to have seconds since 1970
    rows_end: _Size = 0  # of a mark: where the groups of rows end, which have all that was journaled before it; else 0


class Block(msgspec.Struct, frozen=True):
    """Some records, in memory or where they are in a journal; or a mark, which has none, and a footer as its data."""

    head: Head
    columns: tuple[pa.Buffer, ...]  # those of `Packed`

    @property
    def is_mark(self) -> bool:
        """Tell whether it says that all records before it are elsewhere."""
        return self.head.rows_end > 0

    @property
    def size(self) -> int:
        """How many bytes its columns have."""
        return sum(self.head.sizes)

    @property
    def count(self) -> int:
        """How many places there are, with the holes."""
        return self.head.sizes[1]

    @property
    def records(self) -> int:
        """How many of them have a record."""
        return self.count - (bytes(self.columns[1]).count(HOLE) if self.head.has_holes else 0)

    @property
    def last_seq(self) -> int:
        """The number of the last place."""
        return self.head.first_seq + self.count - 1 + sum(self.head.gaps.values())


def opening_bytes(opening: Opening) -> bytes:
    """Write what a journal begins with."""
    return b"".join(_framed(msgspec.msgpack.encode(opening), []))


def block_of(batch: Batch, lost: int, keep: Callable[[Sequence[bytes]], pa.Buffer] | None = None) -> Block:
    """Bring a batch together; so many records were lost before it. The frames are kept where the caller wants them."""
    *small, data = zip(*batch.pieces, strict=True)
    columns = (*map(_joined, small), (keep or _joined)(data))
    sizes = tuple(column.size for column in columns)
    head = Head(batch.first_seq, lost, batch.has_holes, batch.names, batch.extras, batch.gaps, sizes, batch.epoch)
    return Block(head, columns)


def _joined(pieces: Sequence[bytes]) -> pa.Buffer:
    return pa.py_buffer(b"".join(pieces))


def mark_of(next_seq: int, rows_end: int, footer: pa.Buffer) -> Block:
    """Say up to where there are groups of rows, and give their footer; no number from `next_seq` on was used yet."""
    nothing = pa.py_buffer(b"")
    columns = (*[nothing] * (len(Packed._fields) - 1), footer)
    sizes = tuple(column.size for column in columns)
    return Block(Head(next_seq, 0, False, [], {}, {}, sizes, rows_end=rows_end), columns)


def block_bytes(block: Block) -> list[bytes | pa.Buffer]:
    """Write a block, in pieces that follow each other."""
    parts = [part for column in block.columns for part in (column, _padding(column.size))]
    return _framed(msgspec.msgpack.encode(block.head), parts)


def _framed(head: bytes, parts: list[bytes | pa.Buffer]) -> list[bytes | pa.Buffer]:
    return [_MARK, _SIZES.pack(len(head), sum(map(len, parts))), head, _padding(len(head)), *parts, _MARK]


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNMENT)


# -- reading -----------------------------------------------------------------------------------------------------------

_Said = TypeVar("_Said", Opening, Head)


def read_opening(journal: pa.Buffer) -> tuple[Opening, int] | None:
    """Read what a journal begins with, and where its blocks begin; None if that is not there."""
    return _read(journal, 0, Opening)


def was_begun(journal: pa.Buffer) -> bool:
    """Tell whether it is a journal of which not even the opening was wholly written."""
    if not _MARK.startswith(bytes(journal[: len(_MARK)])):
        return False
    size = int(journal.size)
    return size < _HEAD or size < _end(journal, 0)


def blocks_in(journal: pa.Buffer, at: int) -> Iterator[tuple[Block, int]]:
    """Read the blocks from some place on, as long as they are whole; each with where it ends."""
    while (read := _read(journal, at, Head)) is not None:
        head, end = read
        places = list(accumulate((size + len(_padding(size)) for size in head.sizes), initial=0))
        begin = end - len(_MARK) - places.pop()
        if len(places) != len(Packed._fields) or begin <= at:
            return
        columns = [journal.slice(begin + place, size) for place, size in zip(places, head.sizes, strict=True)]
        yield Block(head, tuple(columns)), end
        at = end


def _read(journal: pa.Buffer, at: int, kind: type[_Said]) -> tuple[_Said, int] | None:
    """Read a head, if all that belongs to it is there, and give it with its end."""
    if journal.size - at < _HEAD or bytes(journal[at : at + len(_MARK)]) != _MARK:
        return None
    end = _end(journal, at)
    if bytes(journal[end - len(_MARK) : end]) != _MARK:
        return None
    begin = at + _HEAD
    head_size, _ = _SIZES.unpack(journal[begin - _SIZES.size : begin])
    try:
        return msgspec.msgpack.decode(journal[begin : begin + head_size], type=kind), end
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _end(journal: pa.Buffer, at: int) -> int:
    """Tell where what begins at some place says that it ends."""
    head_size, size = _SIZES.unpack(journal[at + len(_MARK) : at + _HEAD])
    return int(at + _HEAD + head_size + len(_padding(head_size)) + size + len(_MARK))
