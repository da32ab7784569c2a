"""How much of a table is read to find one flow in it: by Spark and by DuckDB, beside reading everything.

The files of `messages` and `flows` have bloom filters on `flow_id`, by which both leave out row groups that cannot have
the flow. That a condition is computed of the column (`concat`) keeps them from it, which is the other side.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from hopline.query.files import SCHEME
from hopline.query.tables import Tables, open_tables


@dataclass(frozen=True)
class Lookup:
    """What a query for the rows of one flow took and read; `unit` is what `read` and `total` count."""

    table: str
    engine: str
    rows: int
    seconds: float
    seconds_reading_all: float
    unit: str
    read: int
    total: int


def look_up(spark: SparkSession, out: Path) -> list[Lookup]:
    """Look up a flow in each table that is laid out for it, once with a warm engine."""
    with open_tables(out) as tables:
        # Any flow will do; this one is in the middle, whatever the order of the files.
        flow_id = tables.ask("select quantile_disc(flow_id, 0.5) from flows").fetch()[0][0]
        found = []
        for table in ("flows", "messages"):
            found.append(_by_spark(spark, out, table, flow_id))
            found.append(_by_duckdb(tables, table, flow_id))
    return found


def _by_spark(spark: SparkSession, out: Path, table: str, flow_id: str) -> Lookup:
    def rows_where(condition: Column) -> DataFrame:
        return spark.read.parquet(str(out / table)).where(condition)

    everything = rows_where(sf.concat("flow_id", sf.lit("")) == flow_id)
    seconds_reading_all, _ = _timed(everything.collect)
    lookup = rows_where(sf.col("flow_id") == flow_id)
    seconds, rows = _timed(lookup.collect)
    read, total = _rows_scanned(lookup), _rows_scanned(everything)
    return Lookup(table, "Spark", len(rows), seconds, seconds_reading_all, "rows", read, total)


def _rows_scanned(query: DataFrame) -> int:
    """Return how many rows the scan of a query that was run has handed out."""
    plan: Any = query._jdf.queryExecution().executedPlan()
    scan = plan.collectLeaves().head()
    return int(scan.metrics().apply("numOutputRows").value())


def _by_duckdb(tables: Tables, table: str, flow_id: str) -> Lookup:
    def rows_where(condition: str) -> Callable[[], list[tuple[Any, ...]]]:
        return lambda: tables.ask(f"from {table} where {condition} = $1", [flow_id]).fetch()

    seconds_reading_all, _ = _timed(rows_where("concat(flow_id, '')"))
    seconds, rows = _timed(rows_where("flow_id"))
    footers = f"parquet_bloom_probe('{SCHEME}://{table}/*', 'flow_id', $1)"
    question = f"select count(*) filter (not bloom_filter_excludes), count(*) from {footers}"  # noqa: S608 - our names
    read, total = tables.ask(question, [flow_id]).fetch()[0]
    return Lookup(table, "DuckDB", len(rows), seconds, seconds_reading_all, "row groups", read, total)


def _timed(call: Callable[[], list[Any]]) -> tuple[float, list[Any]]:
    began = time.perf_counter()
    rows = call()
    return time.perf_counter() - began, rows
