"""Decoding whole segments: the bytes of a file in, messages and rejects out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopline.capture.naming import DAY
from hopline.capture.segment_files import CaptureError, check_columns, conform, open_errors, read_errors
from hopline.decoding.batches import Decoded, read_batch
from hopline.decoding.keys import Keyring
from hopline.decoding.schemas import RECORD_COLUMNS, RECORDS

BATCH = 16_384  # records to decode at once, about as many as fit into the processor's cache
Span = tuple[datetime | None, datetime | None]
"""The first time, and the time before which records are read; None for no limit."""
ALL_TIMES: Span = (None, None)


def read_segment(
    path: str,
    content: pa.Buffer,
    keyring: Keyring,
    span: Span = ALL_TIMES,
    *,
    with_bodies: bool = False,
) -> Iterator[Decoded]:
    """Read and decode a segment, some thousand records at a time.

    Args:
        path: The path of the file, from which the rows get the name of their segment.
        content: The bytes of the file.
        keyring: The keys that verify the signatures of messages from other nodes.
        span: The time to which records are limited.
        with_bodies: Keep the body frames, up to `BODY_LIMIT` bytes of each message.

    Yields:
        Messages, sorted by flow, and rejects.

    Raises:
        CaptureError: The file is not a capture, incomplete or damaged.
    """
    for rows in _row_groups(path, content):
        for part in split(rows):
            records = _within(part, span)
            yield decode_records(path, records, keyring, with_bodies=with_bodies)


def decode_records(
    path: str,
    records: pa.RecordBatch,
    keyring: Keyring,
    *,
    with_bodies: bool = False,
) -> Decoded:
    """Decode records of a segment, which have the columns of `RECORDS`.

    Returns:
        Messages, sorted by flow, and rejects.
    """
    renamed = records.rename_columns([*RECORD_COLUMNS, "frames"])
    decoded = read_batch(renamed, keyring, with_bodies=with_bodies)
    segment = _name_of(path)
    messages = _named(decoded.messages, segment)
    rejects = _named(decoded.rejects, segment)
    return Decoded(_sorted_by_flow(messages), rejects)


def split(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield parts of about `BATCH` rows, all of the same size, because a small part costs as much as a large one."""
    parts = max(1, round(len(rows) / BATCH))
    size = math.ceil(len(rows) / parts)
    for begin in range(0, len(rows), size):
        yield rows.slice(begin, size)


def _row_groups(path: str, content: pa.Buffer) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file, one row group after the other."""
    if not content.size:
        raise CaptureError(path, "is empty: 0 bytes")
    with open_errors(path):
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        schema = file.schema_arrow
    check_columns(path, schema)
    columns = [name for name in RECORDS.names if name in schema.names]
    with read_errors(path):
        for number in range(file.num_row_groups):
            rows = file.read_row_group(number, columns, use_threads=False)
            for batch in rows.combine_chunks().to_batches():
                yield conform(batch, RECORDS)


def _within(records: pa.RecordBatch, span: Span) -> pa.RecordBatch:
    """Return the records within a time."""
    begin, end = span
    ts_type = records.schema.field("ts").type
    if begin is not None:
        first_ts = pa.scalar(begin, ts_type)
        is_late_enough = pc.greater_equal(records.column("ts"), first_ts)
        records = records.filter(is_late_enough)
    if end is not None:
        end_ts = pa.scalar(end, ts_type)
        is_early_enough = pc.less(records.column("ts"), end_ts)
        records = records.filter(is_early_enough)
    return records


def _name_of(path: str) -> str:
    """Return the part of a path that does not depend on where the captures are: its day, if any, and its file."""
    folders, _, name = path.rpartition("/")
    folder = folders.rpartition("/")[2]
    if folder.startswith(DAY):
        return f"{folder}/{name}"
    return name


def _named(rows: pa.Table, segment: str) -> pa.Table:
    """Return rows with the name of their segment."""
    place = rows.column_names.index("segment")
    names = pa.repeat(segment, len(rows))
    return rows.set_column(place, "segment", names)


def _sorted_by_flow(messages: pa.Table) -> pa.Table:
    """Return rows sorted by flow, so that those of one flow are adjacent in the files of the table."""
    flow_ids = messages["flow_id"].combine_chunks()
    flow = flow_ids.dictionary_encode()
    if not len(flow.dictionary):
        return messages
    ranks = pc.rank(flow.dictionary, sort_keys="ascending")
    rank = ranks.to_numpy()
    has_flow = flow.is_valid().to_numpy(zero_copy_only=False)
    indices = flow.indices.drop_null().to_numpy()
    position = np.full(len(flow), -1)
    position[has_flow] = rank[indices]
    order = np.argsort(position, kind="stable")
    return messages.take(pa.array(order))
