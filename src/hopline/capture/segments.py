"""Segments: the Parquet files of a capture, which appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.blocks import Block, Opening
from hopline.capture.columns import MEMORY, WORDS, WRITTEN, rows_of, runs_of
from hopline.capture.naming import UNFINISHED

ROW_GROUP = 128 * 1024  # rows
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
    "store_schema": False,  # so that words are read as texts
    "memory_pool": MEMORY,
}


def write_segment(path: Path, opening: Opening, blocks: Iterable[Block]) -> None:
    """Write a segment, on the disk before it appears."""
    unfinished = path.with_name(f".{path.name}{UNFINISHED}")
    try:
        with pq.ParquetWriter(unfinished, WRITTEN, **_OPTIONS) as writer:
            for group in _groups(rows_of(opening, run) for run in runs_of(blocks, ROW_GROUP)):
                writer.write_table(pa.concat_tables(group).unify_dictionaries(), ROW_GROUP)
        _sync(unfinished)
        unfinished.rename(path)
        _sync(path.parent)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _groups(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    group: list[pa.Table] = []
    rows = 0
    for table in tables:
        if rows and rows + table.num_rows > ROW_GROUP:
            yield group
            group, rows = [], 0
        group.append(table)
        rows += table.num_rows
    if group:
        yield group


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
