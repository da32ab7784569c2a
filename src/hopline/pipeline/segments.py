"""Segments in Spark: the whole files come in as bytes, and their records go out decoded.

Only the compressed bytes of a segment cross from Java to Python (`binaryFile`), and what was decoded crosses back. A
segment is read twice in a run: once to inspect it, which finds whatever is wrong with the file and the records that are
no valid messages, and once for the messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from hopline.capture.segment_files import CaptureError
from hopline.decoding.keys import Keyring
from hopline.decoding.schemas import REJECTS
from hopline.decoding.segments import Span, read_segment
from hopline.pipeline.days import Day
from hopline.pipeline.tables import messages, rejects

_RECORDS_OF_DAY = pa.struct({"date": pa.date32(), "count": pa.int64()})
_FILE = pa.schema(
    {
        "path": pa.string(),
        "file_bytes": pa.int64(),
        "problem": pa.string(),
        "records": pa.list_(_RECORDS_OF_DAY),
    }
)
_INSPECTED = pa.schema([*_FILE, *REJECTS])
INSPECTED = StructType([*from_arrow_schema(_FILE), *rejects.REJECTS])
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
                for read in read_segment(path, content, Keyring(), span):
                    for rows in read:
                        records.update(_records_by_day(rows))
                    yield from _inspected_rows(read.rejects)
            except CaptureError as error:
                problem = error.problem
            yield from _inspected_rows(_file_row(path, content.size, problem, records))

    contents = files.select("path", "content")
    return contents.mapInArrow(inspect, INSPECTED)


def decoded(files: DataFrame, keyring: Keyring, span: Span, *, with_bodies: bool = False) -> DataFrame:
    """Return the messages in files that have been inspected, those of one row group sorted by flow."""

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path, content in _files(batches):
            for read in read_segment(path, content, keyring, span, with_bodies=with_bodies):
                yield from read.messages.to_batches()

    contents = files.select("path", "content")
    return contents.mapInArrow(decode, messages.MESSAGES)


def _records_by_day(rows: pa.Table) -> dict[Day, int]:
    counts = rows["date"].value_counts()
    days = counts.field("values").to_pylist()
    numbers = counts.field("counts").to_pylist()
    return dict(zip(days, numbers, strict=True))


def _file_row(path: str, size: int, problem: str | None, records: Mapping[Day, int]) -> pa.Table:
    counts = [{"date": day, "count": count} for day, count in records.items()]
    row = {"path": path, "file_bytes": size, "problem": problem, "records": counts}
    return pa.Table.from_pylist([row], _FILE)


def _inspected_rows(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield rows that have some of the columns of `INSPECTED`, with the others null."""
    widened = pa.concat_tables([_INSPECTED.empty_table(), rows], promote_options="default")
    yield from widened.combine_chunks().to_batches()


def _files(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.Buffer]]:
    """Yield the path and the bytes of each file, without a copy of them."""
    for batch in batches:
        paths = batch.column("path").to_pylist()
        contents = batch.column("content")
        for path, content in zip(paths, contents, strict=True):
            yield path, content.as_buffer() or pa.py_buffer(b"")
