"""The frames of a journal: who wrote it, batches of records, and where the groups of rows are.

A frame is a magic number, two sizes and two checksums, a head in MessagePack, and the columns of a batch, each in one
piece, so that it can be read where it lies. The first checksum is that of the content, the second that of the sizes and
of the first.

Any part of a file may be damaged, so no frame depends on another one:

* The opening, without which no block can be read, is repeated before every block.
* Where the sizes can be trusted and the content cannot, exactly that frame is skipped.
* Where the sizes cannot be trusted either, reading goes on at the next magic number that stands before sizes that can.

What could not be read is reported as a stretch without content, never passed over in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from struct import Struct
from typing import Annotated, NamedTuple, TypeAlias
from zlib import crc32

import msgspec
import pyarrow as pa

from hopline.capture.packing import HOLE, Batch, Extra, Packed

_MAGIC = b"HOPLINE\x02"
_SIZES = Struct("=III")  # of the head, and of everything else; and the checksum of the content
_CHECK = Struct("=I")  # of these
_ALIGNMENT = 8  # bytes, as Arrow wants it
_HEAD = len(_MAGIC) + _SIZES.size + _CHECK.size  # where it begins
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Opening(msgspec.Struct, frozen=True, array_like=True, tag="opening"):
    """What a journal begins with: what all of its records have in common."""

    node: str
    node_uri: str


class Head(msgspec.Struct, frozen=True, array_like=True, tag="block"):
    """What a block says of its records beside its columns."""

    first_seq: int
    lost: int  # records before the first of them, beside what its gaps say
    has_holes: bool
    names: list[bytes | None]
    extras: dict[int, Extra]
    gaps: dict[int, int]
    sizes: tuple[_Size, ...]  # of the columns, in bytes
    epoch: float  # to be added to its times, to have seconds since 1970
    rows_end: _Size = 0  # of a mark: where the groups of rows end, which have all that was journaled before it; else 0
    checksums: tuple[int, ...] = ()  # of a mark: of the bytes of each group of rows


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


def mark_of(next_seq: int, rows_end: int, footer: pa.Buffer, checksums: Sequence[int]) -> Block:
    """Return a mark: where the groups of rows end, their footer and checksums.

    Args:
        next_seq: The number after the last one that is among these rows.
        rows_end: Where the last group ends, in bytes from the beginning of its file.
        footer: What makes a Parquet file of these groups.
        checksums: One for each group.
    """
    nothing = pa.py_buffer(b"")
    columns = (*[nothing] * (len(Packed._fields) - 1), footer)
    sizes = tuple(column.size for column in columns)
    head = Head(next_seq, 0, False, [], {}, {}, sizes, 0.0, rows_end, tuple(checksums))
    return Block(head, columns)


def block_bytes(block: Block) -> list[bytes | pa.Buffer]:
    """Write a block, in pieces that follow each other."""
    parts = [part for column in block.columns for part in (column, _padding(column.size))]
    return _framed(msgspec.msgpack.encode(block.head), parts)


def _framed(head: bytes, parts: list[bytes | pa.Buffer]) -> list[bytes | pa.Buffer]:
    content = [head, _padding(len(head)), *parts]
    checksum = 0
    for piece in content:
        checksum = crc32(piece, checksum)
    sizes = _SIZES.pack(len(head), sum(map(len, parts)), checksum)
    return [_MAGIC, sizes, _CHECK.pack(crc32(sizes)), *content]


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNMENT)


# -- reading -----------------------------------------------------------------------------------------------------------

_FRAME = re.compile(re.escape(_MAGIC))


class Stretch(NamedTuple):
    """Some bytes of a file: one frame, or what could not be read."""

    begin: int
    end: int
    content: Opening | Block | None


class _Header(NamedTuple):
    head_size: int
    checksum: int
    end: int  # of the frame


def stretches_in(journal: pa.Buffer) -> Iterator[Stretch]:
    """Return all that is in a journal, frame by frame, and between them whatever cannot be read."""
    at, size = 0, int(journal.size)
    while at < size:
        header = _header_at(journal, at)
        if header is None:
            end = next_frame(journal, at + 1)
            yield Stretch(at, end, None)
        else:
            end = min(header.end, size)
            yield Stretch(at, end, _content_at(journal, at, header))
        at = end


def blocks_in(journal: pa.Buffer) -> Iterator[Block]:
    """Return the blocks of a journal that can be read."""
    for stretch in stretches_in(journal):
        if isinstance(stretch.content, Block):
            yield stretch.content


def frame_at(file: pa.Buffer, at: int) -> Stretch | None:
    """Return the frame that begins at some place, or None if none does, or if it cannot be read."""
    header = _header_at(file, at)
    content = None if header is None else _content_at(file, at, header)
    return None if header is None or content is None else Stretch(at, header.end, content)


def next_frame(file: pa.Buffer, at: int) -> int:
    """Return where the next frame begins, from some place on; the end of the file if there is none."""
    for found in _FRAME.finditer(file, at):
        if _header_at(file, found.start()) is not None:
            return int(found.start())
    return int(file.size)


def is_torn_opening(journal: pa.Buffer) -> bool:
    """Return whether a file is a journal that was cut off within its opening, so that it never had a record."""
    size = int(journal.size)
    if not _MAGIC.startswith(bytes(journal[: len(_MAGIC)])):
        return False
    if size < _HEAD:
        return True
    header = _header_at(journal, 0)
    return header is not None and size < header.end


def _header_at(file: pa.Buffer, at: int) -> _Header | None:
    begin = at + _HEAD
    if begin > file.size or bytes(file[at : at + len(_MAGIC)]) != _MAGIC:
        return None
    sizes = bytes(file[at + len(_MAGIC) : begin - _CHECK.size])
    if _CHECK.unpack(file[begin - _CHECK.size : begin]) != (crc32(sizes),):
        return None
    head_size, rest, checksum = _SIZES.unpack(sizes)
    return _Header(head_size, checksum, begin + head_size + len(_padding(head_size)) + rest)


def _content_at(file: pa.Buffer, at: int, header: _Header) -> Opening | Block | None:
    begin = at + _HEAD
    if header.end > file.size or crc32(file[begin : header.end]) != header.checksum:
        return None
    try:
        head = msgspec.msgpack.decode(file[begin : begin + header.head_size], type=Opening | Head)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if isinstance(head, Opening):
        return head
    places = list(accumulate((size + len(_padding(size)) for size in head.sizes), initial=0))
    begin = header.end - places.pop()
    if len(places) != len(Packed._fields) or begin <= at:
        return None
    columns = [file.slice(begin + place, size) for place, size in zip(places, head.sizes, strict=True)]
    return Block(head, tuple(columns))
