"""The journal: an open segment on the disk, from which the segment is made when it is closed or recovered.

Theory of operation
-------------------
A journal is an Arrow IPC stream of `CAPTURE_SCHEMA`: the schema, then one record batch for each batch of records that
the event loop handed over. `pyarrow.ipc.open_stream` reads it. No batch depends on another: there are no dictionaries,
and every row has all its columns, its number included.

Arrow's messages have no checksums, and a reader cannot find the next message behind a damaged one. So each message ends
its metadata with a *seal*, where Arrow allows padding of any length and readers ignore it:

======================  =======  ========================================================================
continuation            4 bytes  ``ff ff ff ff``
metadata size           4        includes padding and seal
metadata                         a flatbuffer, padded to 8 bytes
seal: magic             8        for finding messages
seal: metadata size     4        so that the message's beginning is known from its seal
seal: body size         4
seal: body checksum     4        CRC-32
seal: header checksum   4        CRC-32 of everything above
body                             the columns
======================  =======  ========================================================================

A header that matches its checksum says reliably where its message ends. If the body does not match, exactly this
message is skipped. If the header does not match, reading goes on at the next seal whose header does.

Writes append one message with one system call. After a write that failed the file is cut back to its last whole
message. The writer holds a lock on the file, which the system releases when the process dies: a journal that can be
locked was left by a crash.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

import pyarrow as pa

from hopline.capture.naming import PRIVATE, SegmentName
from hopline.capture.records import CAPTURE_SCHEMA
from hopline.capture.rows import last_seq

MAGIC = b"HOPLINE\x03"  # the last byte changes with the schema and with this format
_CONTINUATION = b"\xff\xff\xff\xff"
_PREFIX = Struct("<4sI")
_SEAL = Struct("<8sIII")  # without the header's checksum
_CHECKSUM = Struct("<I")
_SEAL_BYTES = _SEAL.size + _CHECKSUM.size
_LARGEST_METADATA = 1 << 16  # bytes; a schema or batch of ours has about one thousand


class Journal:
    """The journal of one open segment, locked against other writers and against recovery.

    Args:
        directory: The capture directory.
        name: The name of the segment.
        previous_seq: The number of the last record that was written before this segment.

    Raises:
        OSError: The file cannot be created, or exists.
    """

    def __init__(self, directory: Path, name: SegmentName, previous_seq: int) -> None:
        self.path = name.journal(directory)
        self.previous_seq = previous_seq
        self.last_seq = previous_seq
        self.records = 0
        self.size = 0  # bytes
        self._is_synced = True
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._create()
        try:
            self._write([OPENING])
        except OSError:
            self.path.unlink(missing_ok=True)
            self.close()
            raise

    def _create(self) -> None:
        """Create and lock the file; again, if a recovery came in between and removed it as empty."""
        while True:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            if not self.is_deleted:
                return
            os.close(self._file)

    def append(self, rows: pa.RecordBatch) -> None:
        """Append rows, wholly or not at all.

        Raises:
            OSError: The disk refused. The journal is as it was before.
        """
        self._write(_sealed(rows.serialize()))
        self.records += rows.num_rows
        self.last_seq = last_seq(rows)

    def _write(self, pieces: list[bytes | pa.Buffer]) -> None:
        size = sum(map(len, pieces))
        try:
            written = os.writev(self._file, pieces)
            if written < size:
                rest = memoryview(b"".join(pieces))[written:]
                while rest:
                    rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, self.size)
            os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += size
        self._is_synced = False

    def sync(self) -> bool:
        """Force what was written to the disk, and return whether there was anything to force."""
        if self._is_synced:
            return False
        os.fdatasync(self._file)
        self._is_synced = True
        return True

    @property
    def is_deleted(self) -> bool:
        """Whether the file has been deleted, so that what is written to it is lost."""
        return os.fstat(self._file).st_nlink == 0

    def close(self) -> None:
        """Close and unlock the file. If it still exists, recovery makes a segment of it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


# -- the format of a message -------------------------------------------------------------------------------------------


class Header(NamedTuple):
    """Where a message's body is, and what it must be."""

    body_begin: int
    end: int
    body_checksum: int


def _sealed(message: pa.Buffer) -> list[bytes | pa.Buffer]:
    """Return an Arrow message with a seal behind its metadata, in pieces that follow each other."""
    _, metadata_size = _PREFIX.unpack_from(message)
    metadata_end = _PREFIX.size + metadata_size
    metadata = message[_PREFIX.size : metadata_end].to_pybytes()
    body = message[metadata_end:]
    sealed_size = metadata_size + _SEAL_BYTES
    prefix = _PREFIX.pack(_CONTINUATION, sealed_size)
    seal = _SEAL.pack(MAGIC, sealed_size, body.size, crc32(body))
    header = prefix + metadata + seal
    return [header + _CHECKSUM.pack(crc32(header)), body]


OPENING = b"".join(_sealed(CAPTURE_SCHEMA.serialize()))  # the first message of every journal


def header_at(journal: pa.Buffer, begin: int) -> Header | None:
    """Return the header of the message that begins at an offset, or None if there is no intact one."""
    metadata_begin = begin + _PREFIX.size
    if begin < 0 or metadata_begin > journal.size:
        return None
    continuation, metadata_size = _PREFIX.unpack_from(journal, begin)
    body_begin = metadata_begin + metadata_size
    is_plausible = continuation == _CONTINUATION and _SEAL_BYTES < metadata_size <= _LARGEST_METADATA
    if not is_plausible or body_begin > journal.size:
        return None
    checksum_begin = body_begin - _CHECKSUM.size
    (checksum,) = _CHECKSUM.unpack_from(journal, checksum_begin)
    if crc32(journal[begin:checksum_begin]) != checksum:
        return None
    _, _, body_size, body_checksum = _SEAL.unpack_from(journal, body_begin - _SEAL_BYTES)
    return Header(body_begin, body_begin + body_size, body_checksum)


def message_before_seal(journal: pa.Buffer, seal_begin: int) -> int:
    """Return where the message whose seal begins at an offset would begin; it need not be an intact one."""
    if seal_begin + _SEAL.size > journal.size:
        return -1
    _, metadata_size, _, _ = _SEAL.unpack_from(journal, seal_begin)
    return int(seal_begin + _SEAL_BYTES - metadata_size - _PREFIX.size)


# -- journals of others ------------------------------------------------------------------------------------------------


@contextmanager
def locked(journal: Path) -> Iterator[bool]:
    """Lock a journal, and yield whether that succeeded: if not, its node still writes it or has just closed it."""
    try:
        file = os.open(journal, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _try_lock(file)
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(file).st_nlink > 0


def is_abandoned(journal: Path) -> bool:
    """Return whether no node writes a journal any more. An empty one was just created and is about to be locked."""
    with locked(journal) as is_locked:
        return is_locked and journal.stat().st_size > 0


def content_of(journal: Path) -> pa.Buffer:
    """Return the content of a journal. It is not mapped: a disk that fails then would kill the process."""
    with pa.OSFile(str(journal)) as file:
        return file.read_buffer()
