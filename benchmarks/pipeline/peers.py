"""Other ways to decode the same records: row by row in Python, and in DuckDB."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

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
