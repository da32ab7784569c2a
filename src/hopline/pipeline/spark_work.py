"""What a run asks of Spark, with its errors translated: work that can be stopped, settings for a while."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from hopline.message import get_logger
from hopline.pipeline.failures import SparkFailedError, spark_failure

Result = TypeVar("Result")

STOPPING_S = 20.0
AT_ONCE = 4
REACHING_S = 10.0
ONE_FILE_A_BATCH = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}
"""For rows that hold whole files: Python gets one at a time."""
_SPECIAL = re.compile(r"[\\{}\[\]*?]")
_PORTS = {"spark": 7077, "sc": 15002}

_log = get_logger(__name__)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Translate what Spark throws into an error of one line."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as problem:
        _log.debug("Spark failed while %s", doing, exc_info=problem)
        raise spark_failure(doing, problem) from problem


def is_classic(spark: SparkSession) -> bool:
    """Return whether the driver is in this process, rather than behind Spark Connect."""
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


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session for a while, which somebody else may have set up."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        with suppress(Exception):  # the session may have been stopped
            for name, old in before.items():
                if old is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, old)


def at_once(calls: Iterable[Callable[[], Result]]) -> list[Result]:
    """Do several things at the same time, and return their results in order.

    Most of the time that a query over few rows takes is that of planning it, which one core does.
    """
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="hopline-query") as pool:
        waiting = [pool.submit(call) for call in calls]
        return [one.result() for one in waiting]


def checkpointed(rows: DataFrame) -> DataFrame:
    """Compute rows, and forget how: what is made of them has a plan that is quick to analyse."""
    return rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)


def exactly(path: str) -> str:
    """Return the pattern that stands for one path alone: Spark takes every path that it reads for a pattern."""
    return _SPECIAL.sub(r"\\\g<0>", path)


def place_of(spark: SparkSession) -> str:
    """Return the version of Spark, and where it runs."""
    return f"{spark.version} on {spark.sparkContext.master}" if is_classic(spark) else f"{spark.version} by Connect"


def check_reachable(address: str) -> None:
    """Raise SparkFailedError unless a master or server accepts connections: Spark itself would retry for minutes."""
    found = re.match(r"(spark|sc)://([^:/;,]+)(?::(\d+))?", address)
    if found is None:
        return
    host, port = found[2], int(found[3] or _PORTS[found[1]])
    try:
        socket.create_connection((host, port), REACHING_S).close()
    except OSError as problem:
        option = "--remote" if found[1] == "sc" else "--master"
        raise SparkFailedError(
            "starting Spark", f"no server at {found[1]}://{host}:{port}: check {option}", str(problem)
        ) from None
