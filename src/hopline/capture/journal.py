"""What outlives a crash of an open segment: blocks of records that were wholly written, one after the other.

It is written with a file descriptor's own calls, so that after a write that failed it can be cut back to what is whole.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path

import pyarrow as pa

from hopline.capture.blocks import Block, Opening, block_bytes, blocks_in, opening_bytes
from hopline.capture.naming import PRIVATE

_MOST_PIECES = os.sysconf("SC_IOV_MAX")  # in one call


class Journal:
    """The journal of an open segment. Nobody else may write or recover it: it is locked."""

    def __init__(self, path: Path, opening: Opening) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._create()
        self.size = 0
        self._opening = opening_bytes(opening)
        try:
            self._append([self._opening])
        except OSError:
            self.discard()
            raise

    def _create(self) -> None:
        """Create and lock it; somebody may look at it in between, lock it, and even take it for left over."""
        while True:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            if not self.is_lost:
                return
            os.close(self._file)

    def write(self, block: Block) -> None:
        """Append a block, wholly or not at all, behind another copy of the opening."""
        self._append([self._opening, *block_bytes(block)])

    def _append(self, pieces: Sequence[bytes | pa.Buffer]) -> None:
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

    def sync(self) -> None:
        """See to it that what was written is on the disk."""
        os.fdatasync(self._file)

    @property
    def is_lost(self) -> bool:
        """Tell whether somebody deleted the file: what is written to it goes nowhere."""
        return os.fstat(self._file).st_nlink == 0

    def discard(self) -> None:
        """Delete it."""
        self.path.unlink(missing_ok=True)
        self.abandon()

    def abandon(self) -> None:
        """Leave it as it is, for whoever recovers it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@contextmanager
def locked(journal: Path) -> Iterator[bool]:
    """Lock a journal that its node left behind, and tell whether that was so: else the node runs, or just closed it."""
    try:
        file = os.open(journal, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _is_lockable(file)
    finally:
        os.close(file)


def _is_lockable(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(file).st_nlink > 0


def is_left(journal: Path) -> bool:
    """Tell whether nobody writes a journal any more. An empty one was just created, and is about to be locked."""
    with locked(journal) as is_ours:
        return is_ours and journal.stat().st_size > 0


def mapped(file: Path) -> pa.Buffer:
    """Return what is in a journal, or in another file beside it, without reading all of it."""
    with file.open("rb") as opened:
        is_empty = os.fstat(opened.fileno()).st_size == 0
        return pa.py_buffer(b"" if is_empty else mmap(opened.fileno(), 0, access=ACCESS_READ))


def blocks_of(journal: Path) -> Iterator[Block]:
    """Return the blocks of a journal that can be read."""
    return blocks_in(mapped(journal))
