"""A segment while it is open: an Arrow stream that outlives a crash, turned into Parquet when it is closed.

A Parquet file without its end cannot be read at all; of a stream everything can be read that was wholly written. It is
written with a file descriptor's own calls, so that after a write that failed it can be cut back to what is whole.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.naming import UNFINISHED, SegmentName, read_name
from hopline.capture.records import SCHEMA

ROW_GROUP = 128 * 1024  # rows
# Frames hardly ever repeat as a whole, so a dictionary of them is work for nothing. The rest is the same few words.
_WORDS = ["node", "node_uri", "event", "peer", "receiver", "reason"]
_STATISTICS = ["ts", "seq", "node", "event", "peer"]
_COMPRESSION, _COMPRESSION_LEVEL = "zstd", 1


class Journal:
    """The open segment. Nobody else may write or recover it: it is locked."""

    def __init__(self, directory: Path, name: SegmentName) -> None:
        self.name = name
        self.directory = directory
        self.path = name.journal(directory)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self.rows = 0
        self.size = 0
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._append(SCHEMA.serialize())
        except OSError:
            self.discard()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch, wholly or not at all."""
        self._append(batch.serialize())
        self.rows += batch.num_rows

    def _append(self, data: pa.Buffer) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, self.size)
            os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += len(data)

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
    """Write the segment of a journal, or of its first so many bytes, which appears whole or not at all."""
    name = read_name(journal)
    if name is None:
        raise ValueError(f"{journal} is no journal")
    path = name.segment(directory)
    unfinished = path.with_name(f".{path.name}{UNFINISHED}")
    try:
        with pq.ParquetWriter(
            unfinished,
            SCHEMA,
            compression=_COMPRESSION,
            compression_level=_COMPRESSION_LEVEL,
            use_dictionary=_WORDS,
            write_statistics=_STATISTICS,
        ) as writer:
            for group in _groups(batches_of(journal, limit=limit)):
                writer.write_table(pa.Table.from_batches(group, SCHEMA), row_group_size=ROW_GROUP)
        _sync(unfinished)
        unfinished.rename(path)
        _sync(path.parent)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return path


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if rows and rows + batch.num_rows > ROW_GROUP:
            yield group
            group, rows = [], 0
        group.append(batch)
        rows += batch.num_rows
    if group:
        yield group


def batches_of(journal: Path, *, limit: int | None = None) -> Iterator[pa.RecordBatch]:
    """Read the batches of a journal; raises `pyarrow.ArrowInvalid` or `OSError` where it is not whole."""
    with pa.memory_map(str(journal)) as file:
        data = file.read_buffer(limit)
        with pa.ipc.open_stream(data) as reader:
            yield from reader


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
