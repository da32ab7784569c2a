"""A Parquet file that grows by groups of rows, and can be made whole at any time: what it lacks is its footer.

Until it has one, what the groups need to be read stands twice: in the journal, and in the same frame (`seal`) at the
end of this file, where the next group takes its place. Damage to one of them costs nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.blocks import Block, block_bytes, mark_of
from hopline.capture.columns import MEMORY, WORDS, WRITTEN
from hopline.capture.naming import PRIVATE

# Frames hardly ever repeat as a whole, so a dictionary of them is work for nothing. The rest is the same few words, and
# numbers that grow.
_OPTIONS = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": [*WORDS, "reason"],
    "column_encoding": dict.fromkeys(("ts", "seq", "cause", "duration_us", "dropped"), "DELTA_BINARY_PACKED"),
    "write_statistics": ["ts", "seq", "node", "event", "peer"],
    # Values at a time, and bytes of a page: both small enough that memory is used again, instead of asked for.
    "write_batch_size": 4 * 1024,
    "data_page_size": 128 * 1024,
    "write_page_checksum": True,  # so that whoever recovers it can tell what really reached the disk
    "store_schema": False,  # so that words are read as texts
    "memory_pool": MEMORY,
}
_MOST_ROWS = 128 * 1024  # of a group
BEGIN = len(b"PAR1")  # where the first group does
_PIECE = 1 << 20  # bytes that are read at once


class RowGroups:
    """The file of a segment while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end = 0  # of the groups
        self._file = _private_file(path)
        self._reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # now: somebody may take the name away
        self._metadata: pq.FileMetaData | None = None
        self._checksums: list[int] = []  # of the groups, as far as they were asked for

    def add(self, rows: pa.Table) -> None:
        """Add a group, wholly or not at all; several if the rows are too many."""
        written: list[pq.FileMetaData] = []
        self._seek(0)  # a writer insists on that, and writes there what is there already
        writer = pq.ParquetWriter(self._file, WRITTEN, metadata_collector=written, **_OPTIONS)
        try:
            self._seek(self.end or BEGIN)
            writer.write_table(rows, _MOST_ROWS)
            end = self._file.tell()
            writer.close()  # with a footer of its own, which the next group or the footer of all takes the place of
        except BaseException:
            with suppress(Exception):
                writer.close()  # now, and not when it is forgotten: it would write to wherever the file is then
            writer.is_open = False
            raise
        if self._metadata is None:
            self._metadata = written[0]
        else:
            self._metadata.append_row_groups(written[0])
        self.end = end

    def footer(self) -> pa.Buffer:
        """Give what makes a whole file of the groups that were added, behind their end."""
        sink = pa.BufferOutputStream()
        if self._metadata is not None:
            self._metadata.write_metadata_file(sink)
        return sink.getvalue()

    def mark(self, next_seq: int) -> Block:
        """Return what is needed to read the groups that were added; `next_seq` is the number after their last one."""
        if self._metadata is not None and len(self._checksums) < self._metadata.num_row_groups:
            for begin, end in group_bounds(self._metadata, self.end)[len(self._checksums) :]:
                self._checksums.append(_checksum(self._reader, begin, end))
        return mark_of(next_seq, self.end, self.footer(), self._checksums)

    def seal(self, mark: Block) -> None:
        """Write a mark behind the groups, so that they can be read even if the journal cannot."""
        self._seek(self.end)
        for piece in block_bytes(mark):
            self._file.write(piece)
        os.ftruncate(self._file.fileno(), self._file.tell())

    def finish(self) -> int:
        """Make the file whole, see to it that it is on the disk, and give its size."""
        self._seek(self.end)
        self._file.write(self.footer())
        size = self._file.tell()
        os.ftruncate(self._file.fileno(), size)
        os.fsync(self._file.fileno())
        return int(size)

    def sync(self) -> None:
        """See to it that what was added is on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Leave it as it is."""
        self._file.close()
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1

    def _seek(self, place: int) -> None:
        os.lseek(self._file.fileno(), place, os.SEEK_SET)


def group_bounds(metadata: pq.FileMetaData, end: int) -> list[tuple[int, int]]:
    """Return where each group of rows begins and ends, in bytes; the last one ends at `end`."""
    begins = [_begin(metadata.row_group(group)) for group in range(metadata.num_row_groups)]
    return list(zip(begins, [*begins[1:], end], strict=True))


def _begin(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    return int(first.dictionary_page_offset or first.data_page_offset)


def _checksum(file: int, begin: int, end: int) -> int:
    checksum = 0
    for at in range(begin, end, _PIECE):
        checksum = crc32(os.pread(file, min(_PIECE, end - at), at), checksum)
    return checksum


def _private_file(path: Path) -> pa.OSFile:
    """Open a file that only its owner may read, from its first byte on: pyarrow would leave that to the umask."""
    created = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
    try:
        os.fchmod(created, PRIVATE)  # also of one that was there
        return pa.OSFile(str(path), "wb")
    finally:
        os.close(created)
