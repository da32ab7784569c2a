"""Segments in Spark: the whole files come in as bytes, and their records go out decoded.

Only the compressed bytes of a segment cross from Java to Python (`binaryFile`), and what was decoded crosses back. A
segment is read twice in a run: once to inspect it, which finds whatever is wrong with the file and the records that are
no valid messages, and once for the messages.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from hopline.capture.naming import DAY
from hopline.pipeline.days import Day
from hopline.pipeline.decoding.arrow import MESSAGES, RECORD_COLUMNS, RECORDS, REJECTS
from hopline.pipeline.decoding.batches import Read, read_batch
from hopline.pipeline.errors import CaptureError
from hopline.pipeline.keys import Keyring
from hopline.pipeline.segments import first_line, foreign_column, in_schema

BATCH = 16_384  # records that are decoded at once, more or less: what they need stays in the processor's cache
Span = tuple[datetime | None, datetime | None]
"""From when, and until before when, records are read; None is no limit."""

_FILE = pa.schema(
    [
        ("path", pa.string()),
        ("file_bytes", pa.int64()),
        ("problem", pa.string()),
        ("records", pa.list_(pa.struct([("date", pa.date32()), ("count", pa.int64())]))),  # by day
    ]
)
INSPECTED = pa.schema([*_FILE, *(field for field in REJECTS)])
"""One row a file, in which the columns of rejects are null; and one row a reject, in which `path` is null."""


def inspected(files: DataFrame, span: Span) -> DataFrame:
    """Return of each file whether it is an undamaged capture, how many records it has, and which are rejects.

    Args:
        files: Rows of `binaryFile`.
        span: The time to which records are limited.

    Returns:
        The rows that `INSPECTED` describes.
    """

    def inspect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path, content in _files(batches):
            records: Counter[Day] = Counter()
            problem = None
            try:
                for read in _read(path, content, Keyring(), span):
                    for rows in read:
                        records.update(_records_by_day(rows))
                    yield from _widened(read.rejects, INSPECTED).to_batches()
            except CaptureError as error:
                problem = error.problem
            yield from _file_row(path, content.size, problem, records).to_batches()

    return files.select("path", "content").mapInArrow(inspect, from_arrow_schema(INSPECTED))


def decoded(files: DataFrame, keyring: Keyring, span: Span, *, with_bodies: bool = False) -> DataFrame:
    """Return the messages in files that have been inspected, those of one row group sorted by flow."""

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path, content in _files(batches):
            for read in _read(path, content, keyring, span, with_bodies=with_bodies):
                yield from read.messages.to_batches()

    return files.select("path", "content").mapInArrow(decode, from_arrow_schema(MESSAGES))


def _records_by_day(rows: pa.Table) -> dict[Day, int]:
    counts = rows["date"].value_counts()
    days = counts.field("values").to_pylist()
    numbers = counts.field("counts").to_pylist()
    return dict(zip(days, numbers, strict=True))


def _file_row(path: str, size: int, problem: str | None, records: Mapping[Day, int]) -> pa.Table:
    counts = [{"date": day, "count": count} for day, count in records.items()]
    row = {"path": path, "file_bytes": size, "problem": problem, "records": counts}
    return _widened(pa.Table.from_pylist([row], _FILE), INSPECTED)


def _widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in a schema with more columns, which are null."""
    columns = []
    for field in schema:
        is_there = field.name in rows.column_names
        column = rows[field.name] if is_there else pa.nulls(len(rows), field.type)
        columns.append(column)
    return pa.table(columns, schema=schema)


def _files(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.Buffer]]:
    """Yield the path and the bytes of each file, without a copy of them."""
    for batch in batches:
        paths = batch.column("path").to_pylist()
        for path, content in zip(paths, batch.column("content"), strict=True):
            yield path, content.as_buffer() or pa.py_buffer(b"")


def _read(path: str, content: pa.Buffer, keyring: Keyring, span: Span, *, with_bodies: bool = False) -> Iterator[Read]:
    """Read and decode a file, some thousand records at a time."""
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
