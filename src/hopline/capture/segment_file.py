"""Write a segment: a Parquet file that appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.naming import PRIVATE, UNFINISHED
from hopline.capture.records import CAPTURE_SCHEMA
from hopline.capture.settings import MEBIBYTE

# A row group is closed at either limit. Larger ones hardly compress better.
_GROUP_ROWS = 128 * 1024
_GROUP_BYTES = 16 * MEBIBYTE
# Frames hardly ever repeat as a whole, so a dictionary of them would be wasted work. Names repeat, and numbers grow.
_OPTIONS = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["node", "node_uri", "event", "peer", "receiver", "receiver_name", "handler", "reason"],
    "column_encoding": dict.fromkeys(("ts", "seq", "cause", "duration_us", "dropped"), "DELTA_BINARY_PACKED"),
    "write_statistics": ["ts", "seq", "node", "event", "peer"],
    # Small pages, and few values at a time: the writer's memory is reused instead of requested page by page.
    "write_batch_size": 4 * 1024,
    "data_page_size": 128 * 1024,
    "write_page_checksum": True,
    "store_schema": False,
}


def write_segment(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a segment under a temporary name, force it to the disk, and rename it.

    Raises:
        OSError: The disk refused. Nothing is left behind.
    """
    unfinished = path.with_name(f".{path.name}{UNFINISHED}")
    try:
        _create_private(unfinished)
        with pa.OSFile(str(unfinished), "wb") as file:
            with pq.ParquetWriter(file, CAPTURE_SCHEMA, **_OPTIONS) as writer:
                for group in _row_groups(batches):
                    writer.write_table(group, row_group_size=_GROUP_ROWS)
            os.fsync(file.fileno())
        unfinished.rename(path)
        sync_folder(path.parent)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Combine batches until they are large enough for a row group."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        batch_size = batch.nbytes
        if group and (rows + batch.num_rows > _GROUP_ROWS or size + batch_size > _GROUP_BYTES):
            yield pa.Table.from_batches(group)
            group = []
            rows = size = 0
        group.append(batch)
        rows += batch.num_rows
        size += batch_size
    if group:
        yield pa.Table.from_batches(group)


def _create_private(path: Path) -> None:
    """Create an empty file that only its owner may read; pyarrow would leave that to the umask."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
    try:
        os.fchmod(file, PRIVATE)  # the file may have existed
    finally:
        os.close(file)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
