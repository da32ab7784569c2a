"""Other ways to decode the same records: rows that Spark has read, in batches or one by one, and DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.decoding.batches import read_batch
from hopline.decoding.keys import Keyring
from hopline.decoding.schemas import RECORD_COLUMNS
from hopline.pipeline.tables.messages import MESSAGES
from hopline.wire import RemoteError, decode

_FIELDS = "identity binary, version string, correlation_id binary, hops int, ttl long, domain string, callbacks int"


def _row(frames: list[bytes]) -> tuple[object, ...] | None:
    try:
        message = decode(frames)
    except RemoteError:
        return None
    return (
        message.identity,
        str(message.version),
        message.correlation_id,
        message.hops,
        message.ttl_ticks,
        message.domain,
        len(message.callback_point),
    )


def rows_in_arrow(records: DataFrame) -> DataFrame:
    """Decode with the pipeline's own decoder, but records that Spark has read and sent to Python as rows."""

    def messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from read_batch(batch, Keyring()).messages.to_batches()

    named = records.withColumnRenamed("receiver", "local_receiver").select(*RECORD_COLUMNS, "frames")
    return named.mapInArrow(messages, MESSAGES)


def pickled_udf(records: DataFrame) -> DataFrame:
    """Decode in a Python function that gets one row at a time; seven fields come back."""
    return records.withColumn("message", sf.udf(_row, _FIELDS, useArrow=False)("frames")).drop("frames")


def duckdb_scan_and_decode(captures: Path, cores: int, memory: str) -> object:
    """Read the scalar fields of V5, and only these, in DuckDB from the same files."""
    import duckdb

    with duckdb.connect(config={"threads": cores, "memory_limit": memory.upper() + "B"}) as database:
        return database.execute(
            """
            select count(*), max(identity), max(correlation_id), max(version), max(ttl), max(words) from (
                select frames[-6] identity, frames[-4] correlation_id, hex(frames[-7]) "version", hex(frames[-3]) ttl,
                       hex(frames[-13]) words, frames[-8] "partition", frames[-9] receiver_node, frames[-15] "domain"
                from read_parquet(?) where octet_length(frames[-1]) = 2
            )
            """,
            [f"{captures}/*/*.parquet"],
        ).fetchall()
