"""A segment while it is open: blocks of records that outlive a crash, turned into Parquet when it is closed.

A Parquet file without its end cannot be read at all; of a journal everything can be read that was wholly written. It is
written with a file descriptor's own calls, so that after a write that failed it can be cut back to what is whole.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

import pyarrow as pa

from hopline.capture.blocks import Block, Opening, block_bytes, blocks_in, opening_bytes, read_opening
from hopline.capture.naming import SegmentName, read_name
from hopline.capture.packing import Batch
from hopline.capture.segments import write_segment

_MOST_PIECES = os.sysconf("SC_IOV_MAX")  # in one call


class Journal:
    """The open segment. Nobody else may write or recover it: it is locked."""

    def __init__(self, directory: Path, name: SegmentName, opening: Opening) -> None:
        self.directory = directory
        self.path = name.journal(directory)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self.records = 0
        self.size = 0
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._append([opening_bytes(opening)])
        except OSError:
            self.discard()
            raise

    def write(self, batch: Batch, lost: int) -> None:
        """Append a batch, wholly or not at all; so many records were lost before it."""
        self._append(block_bytes(batch, lost))
        self.records += batch.records

    def _append(self, pieces: list[bytes]) -> None:
        size = sum(map(len, pieces))
        try:
            written = os.writev(self._file, pieces[:_MOST_PIECES])
            if written < size:
                rest = memoryview(b"".join(pieces))[written:]
                while rest:
                    rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, self.size)
            os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += size

    def flush(self) -> None:
        """See to it that what was written is on the disk."""
        os.fdatasync(self._file)

    @property
    def is_lost(self) -> bool:
        """Tell whether somebody deleted the file: what is written to it goes nowhere."""
        return os.fstat(self._file).st_nlink == 0

    def close(self) -> Path:
        """Turn it into a segment, and give its path. If that fails, the journal stays as it is."""
        path = convert(self.path, self.directory)
        self.discard()
        return path

    def discard(self) -> None:
        """Delete it."""
        self.path.unlink(missing_ok=True)
        self.abandon()

    def abandon(self) -> None:
        """Leave it as it is, for whoever recovers it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def convert(journal: Path, directory: Path, *, limit: int | None = None) -> Path:
    """Write the segment of a journal, or of its first so many bytes."""
    name, content = read_name(journal), mapped(journal)
    opened = read_opening(content)
    if name is None or opened is None:
        raise ValueError(f"{journal} is no journal")
    opening, begin = opened
    blocks = (block for block, end in blocks_in(content, begin) if limit is None or end <= limit)
    path = name.segment(directory)
    write_segment(path, opening, blocks)
    return path


def mapped(journal: Path) -> pa.Buffer:
    """Give what is in a journal, without reading all of it."""
    with journal.open("rb") as file:
        is_empty = os.fstat(file.fileno()).st_size == 0
        return pa.py_buffer(b"" if is_empty else mmap(file.fileno(), 0, access=ACCESS_READ))


def blocks_of(journal: Path) -> Iterator[Block]:
    """Read the blocks of a journal that are whole."""
    content = mapped(journal)
    opened = read_opening(content)
    if opened is not None:
        for block, _ in blocks_in(content, opened[1]):
            yield block
