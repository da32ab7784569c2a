"""Rows that have to come together, whoever made them: Spark carries them in parcels, and need not look inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from hopline.pipeline.decoding.digests import of_texts
from hopline.pipeline.traces.columns import Longs, mixed, plain_field

PARCELS = pa.schema([("shelf", pa.int32()), ("rows", pa.binary())])
_SHELVES = 64  # to which parcels go: what has the same keys goes to the same one


def packed(keys: Sequence[str], rows: pa.Table) -> pa.Table:
    """Put rows into parcels, by their keys: numbers, or texts in a dictionary."""
    shelf = (mixed([_digests(rows[name].combine_chunks()) for name in keys]) % np.uint64(_SHELVES)).astype(np.int32)
    order = np.argsort(shelf, kind="stable")
    ordered = rows.take(pa.array(order)).combine_chunks()
    shelves, begins, counts = np.unique(shelf[order], return_index=True, return_counts=True)
    parcels = [_wrapped(ordered.slice(begin, count)) for begin, count in zip(begins, counts, strict=True)]
    return pa.table([pa.array(shelves), pa.array(parcels, pa.binary())], schema=PARCELS)


def rows_in(parcel: pa.BinaryScalar | bytes) -> pa.Table:
    """Open a parcel."""
    content = parcel.as_buffer() if isinstance(parcel, pa.BinaryScalar) else parcel
    return pa.ipc.open_stream(content).read_all()


def packed_up(rows: DataFrame, keys: Sequence[str], schema: pa.Schema) -> DataFrame:
    """Put rows that Spark has into parcels."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch]).select(schema.names)
            yield from packed(keys, table.cast(schema)).to_batches()

    return rows.mapInArrow(work, from_arrow_schema(PARCELS))


def unpacked(parcels: DataFrame, schema: pa.Schema) -> DataFrame:
    """Give the rows of parcels, which have such columns, to Spark."""
    plain = pa.schema([plain_field(field) for field in schema])

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows in batch.column("rows"):
                yield from rows_in(rows).cast(plain).to_batches()

    return parcels.mapInArrow(work, from_arrow_schema(plain))


def brought_together(parcels: DataFrame, work: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> DataFrame:
    """Give what a function makes of all rows with the same keys, and of others with them; they fit into memory."""
    return (
        parcels.repartition("shelf")
        .sortWithinPartitions("shelf")
        .mapInArrow(partial(_made_of, work, schema), from_arrow_schema(schema))
    )


def _made_of(
    work: Callable[[pa.Table], pa.Table], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    parcels = (parcel for batch in batches for parcel in zip(*map(pa.Array.to_pylist, batch.columns), strict=True))
    for _, together in groupby(parcels, key=lambda parcel: parcel[0]):
        rows = pa.concat_tables([rows_in(rows) for _, rows in together]).unify_dictionaries().combine_chunks()
        yield from work(rows).select(schema.names).cast(schema).to_batches()


def _digests(column: pa.Array) -> NDArray[np.uint64]:
    """Give equal values equal numbers, whatever the dictionary."""
    if pa.types.is_dictionary(column.type):
        known = np.append(of_texts(column.dictionary), np.uint64(0))
        digests: NDArray[np.uint64] = known[column.indices.fill_null(len(known) - 1).to_numpy()]
        return digests
    numbers: Longs = column.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers.view(np.uint64)


def _wrapped(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content
