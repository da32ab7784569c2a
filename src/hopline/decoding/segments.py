"""Segments as bytes in, their records out, decoded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopline.capture.naming import DAY
from hopline.capture.reading import CaptureError, first_line, foreign_column, in_schema
from hopline.decoding.batches import Read, read_batch
from hopline.decoding.keys import Keyring
from hopline.decoding.schemas import RECORD_COLUMNS, RECORDS

BATCH = 16_384  # records that are decoded at once, more or less: what they need stays in the processor's cache
Span = tuple[datetime | None, datetime | None]
"""From when, and until before when, records are read; None is no limit."""
ALL_TIMES: Span = (None, None)


def read_segment(
    path: str, content: pa.Buffer, keyring: Keyring, span: Span = ALL_TIMES, *, with_bodies: bool = False
) -> Iterator[Read]:
    """Read and decode a segment, some thousand records at a time; messages are sorted by flow within each of these.

    Args:
        path: Where it lies, which the rows name.
        content: The bytes of the file.
        keyring: The keys by which messages that came from outside are verified.
        span: The time to which records are limited.
        with_bodies: Whether to keep the bodies of messages, up to `BODY_LIMIT` bytes of each.

    Raises:
        CaptureError: It is no whole capture, or damaged inside.
    """
    segment = _name_of(path)
    for rows in _row_groups(path, content):
        for part in _split(rows):
            records = _within(part, span).rename_columns([*RECORD_COLUMNS, "frames"])
            read = read_batch(records, keyring, with_bodies=with_bodies)
            messages = _named(read.messages, segment)
            rejects = _named(read.rejects, segment)
            yield Read(_sorted_by_flow(messages), rejects)


def _split(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield parts of about `BATCH` rows, all of them of one size: a small part would cost as much as a large one."""
    parts = max(1, round(len(rows) / BATCH))
    size = math.ceil(len(rows) / parts)
    for begin in range(0, len(rows), size):
        yield rows.slice(begin, size)


def _row_groups(path: str, content: pa.Buffer) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file, one row group after the other. Raise `CaptureError` if it is no whole capture."""
    if not content.size:
        raise CaptureError(path, "is empty: 0 bytes")
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        schema = file.schema_arrow
    except (OSError, pa.ArrowException) as problem:
        raise CaptureError(path, f"is no whole Parquet file (truncated?): {first_line(problem)}") from problem
    foreign = foreign_column(schema)
    if foreign is not None:
        raise CaptureError(path, f"is no capture: {foreign}")
    columns = [name for name in RECORDS.names if name in schema.names]
    try:
        for number in range(file.num_row_groups):
            rows = file.read_row_group(number, columns, use_threads=False).combine_chunks()
            for batch in rows.to_batches():
                yield in_schema(batch, RECORDS)
    except (OSError, pa.ArrowException) as problem:
        raise CaptureError(path, f"is damaged inside: {first_line(problem)}") from problem


def _within(records: pa.RecordBatch, span: Span) -> pa.RecordBatch:
    """Return the records within a time."""
    begin, end = span
    ts_type = records.schema.field("ts").type
    if begin is not None:
        is_late_enough = pc.greater_equal(records.column("ts"), pa.scalar(begin, ts_type))
        records = records.filter(is_late_enough)
    if end is not None:
        is_early_enough = pc.less(records.column("ts"), pa.scalar(end, ts_type))
        records = records.filter(is_early_enough)
    return records


def _name_of(path: str) -> str:
    """Return the part of a path that names a segment wherever the captures are: its day, if any, and its file."""
    folders, _, name = path.rpartition("/")
    folder = folders.rpartition("/")[2]
    if folder.startswith(DAY):
        return f"{folder}/{name}"
    return name


def _named(rows: pa.Table, segment: str) -> pa.Table:
    """Return rows with the name of their segment."""
    place = rows.column_names.index("segment")
    return rows.set_column(place, "segment", pa.repeat(segment, len(rows)))


def _sorted_by_flow(messages: pa.Table) -> pa.Table:
    """Return rows sorted by flow, so that those of one flow lie together in the files of the table."""
    flow = messages["flow_id"].combine_chunks().dictionary_encode()
    if not len(flow.dictionary):
        return messages
    rank = pc.rank(flow.dictionary, sort_keys="ascending").to_numpy()
    has_flow = flow.is_valid().to_numpy(zero_copy_only=False)
    position = np.full(len(flow), -1)
    position[has_flow] = rank[flow.indices.drop_null().to_numpy()]
    order = np.argsort(position, kind="stable")
    return messages.take(pa.array(order))
