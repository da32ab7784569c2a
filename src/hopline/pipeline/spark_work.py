"""What a run asks of Spark, with its errors translated: tables written and read back, work stopped."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime
from pathlib import Path

import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from hopline.message import get_logger
from hopline.pipeline.arrow_schemas import file_schema
from hopline.pipeline.failures import SparkFailedError, spark_failure
from hopline.pipeline.folders import DAY

STOPPING_S = 20.0
REACHING_S = 10.0
_PORTS = {"spark": 7077, "sc": 15002}
_TIME_ZONE = "spark.sql.session.timeZone"

_log = get_logger(__name__)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Say in one line what Spark threw."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as problem:
        _log.debug("Spark failed while %s", doing, exc_info=problem)
        raise spark_failure(doing, problem) from problem


def is_classic(spark: SparkSession) -> bool:
    """Tell whether the driver is in this process, rather than behind Spark Connect."""
    return hasattr(spark, "_jsparkSession")


@contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """Mark the jobs that are started here, and stop them if this does not come to its end."""
    spark.addTag(tag)
    try:
        yield
    except BaseException:
        # Spark may be gone already; what matters is the error that brought us here.
        with suppress(Exception):
            spark.interruptTag(tag)
            wait_until_idle(spark)
        raise
    finally:
        with suppress(Exception):
            spark.removeTag(tag)


def wait_until_idle(spark: SparkSession) -> None:
    """Wait for the end of tasks that were stopped: they still write where we want to tidy up."""
    if not is_classic(spark):
        return
    store = spark.sparkContext._jsc.sc().statusStore()
    deadline = time.monotonic() + STOPPING_S
    while store.activeStages().size() and time.monotonic() < deadline:
        time.sleep(0.05)


def documented(table: DataFrame, schema: StructType, name: str) -> DataFrame:
    """Give a table exactly the columns of its schema, with their types and comments, which go into the files."""
    # Where a comment is there already, Spark takes ours for a repetition, and may lose both: the name tells them apart.
    return table.select(
        *(
            sf.col(one.name).cast(one.dataType).alias(one.name, metadata=one.metadata | {"table": name})
            for one in schema
        )
    )


def balanced(table: DataFrame) -> DataFrame:
    """Bring the rows of each day together, or divide them where they are many."""
    return table.hint("rebalance", "date")


def write_by_day(table: DataFrame, place: Path, schema: StructType) -> None:
    """Write a table with a folder for each day, and in each a file of every task that has rows of it."""
    said = documented(table, schema, place.name)
    said.write.partitionBy("date").option("compression", "zstd").parquet(str(place))


def write_empty(schema: StructType, place: Path, day: date) -> None:
    """Write a table without rows, but with columns: whoever opens it finds these. Spark would need a job for it."""
    folder = place / f"{DAY}{day}"
    folder.mkdir(parents=True)
    pq.write_table(file_schema(schema).empty_table(), folder / "empty.parquet", compression="zstd")


def within(records: DataFrame, start: datetime | None, end: datetime | None) -> DataFrame:
    """Keep the records from one time to before another; None is no limit."""
    if start is not None:
        records = records.filter(sf.col("ts") >= sf.lit(start))
    if end is not None:
        records = records.filter(sf.col("ts") < sf.lit(end))
    return records


@contextmanager
def in_utc(spark: SparkSession) -> Iterator[None]:
    """Let a session that somebody else set up take times for UTC's, as all tables do."""
    before = spark.conf.get(_TIME_ZONE)
    spark.conf.set(_TIME_ZONE, "UTC")
    try:
        yield
    finally:
        with suppress(Exception):  # it may have been stopped
            spark.conf.set(_TIME_ZONE, str(before))


def place_of(spark: SparkSession) -> str:
    """Say which Spark this is, and where."""
    return f"{spark.version} on {spark.sparkContext.master}" if is_classic(spark) else f"{spark.version} by Connect"


def check_reachable(address: str) -> None:
    """Find out quickly that nobody listens at a master or a server: Spark itself would try for minutes."""
    found = re.match(r"(spark|sc)://([^:/;,]+)(?::(\d+))?", address)
    if found is None:
        return
    host, port = found[2], int(found[3] or _PORTS[found[1]])
    try:
        socket.create_connection((host, port), REACHING_S).close()
    except OSError as problem:
        option = "--remote" if found[1] == "sc" else "--master"
        raise SparkFailedError(
            "starting Spark", f"nobody listens at {found[1]}://{host}:{port}: is {option} right?", str(problem)
        ) from None
