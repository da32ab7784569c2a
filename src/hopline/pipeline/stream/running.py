"""Running a stream: Spark lists the new segments and starts the batches, and remembers which batch had which segments.

Only the names of segments go through the streaming query; a batch opens them as the batch job does. Beside them the
query reads a row that is new with every trigger, so that there is a batch although no segment is new: nodes fall
silent, and what waited for them goes on.
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from hopline.capture.segment_files import is_segment_name
from hopline.decoding.keys import Keyring
from hopline.pipeline.failures import BadCapturesError, BadFile, spark_failure
from hopline.pipeline.progress import Progress, Silent, Steps
from hopline.pipeline.spark_work import translated
from hopline.pipeline.starting import own_session, started
from hopline.pipeline.storage import DYNAMIC_OVERWRITE
from hopline.pipeline.stream.batch import Batches
from hopline.pipeline.stream.options import StreamOptions
from hopline.pipeline.stream.state import STREAM, State

_FILES = "path string, modificationTime timestamp, length long, content binary"
_LISTED_FOR_EVER = "36500d"  # Spark ignores files that are older than the newest by more than a week, otherwise
_SETTINGS = {
    # What batches keep on the disk goes when Java collects its handles: half an hour later at worst, otherwise.
    "spark.cleaner.periodicGC.interval": "2min",
    # Every batch has the same queries: what was compiled for them is found again.
    "spark.sql.codegen.cache.maxEntries": "2000",
}
_LOOK_EVERY_S = 0.2
_STOPPING_S = 60.0


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a batch has done."""

    number: int
    segments: int
    seconds: float
    state: State


class Listener(Protocol):
    """Whoever wants to know what a stream does. Called from the thread of the batches."""

    def batch_began(self, number: int, segments: int) -> None:
        """Hear that a batch begins."""

    def batch_ended(self, report: BatchReport) -> None:
        """Hear that a batch ended."""


class Unheard:
    """Nobody wants to know."""

    def batch_began(self, number: int, segments: int) -> None:
        """Do nothing."""

    def batch_ended(self, report: BatchReport) -> None:
        """Do nothing."""


def run_stream(
    options: StreamOptions,
    listener: Listener | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> State:
    """Start Spark as the options say, and make tables of what is captured, until it is stopped.

    Args:
        options: What to do.
        listener: Told of every batch.
        progress: Told how Spark starts.
        stop: Set to stop when the batch under way is done; with `is_final`, when all flows are closed.

    Returns:
        The state that the last batch has left.

    Raises:
        HoplineError: Whatever went wrong, in one line.
    """
    settings = {**_SETTINGS, **options.conf}
    return _run(
        options,
        own_session(replace(options, conf=settings)),
        listener or Unheard(),
        progress or Silent(),
        stop,
    )


def stream(options: StreamOptions, spark: SparkSession, listener: Listener | None = None) -> State:
    """Make tables in a session that is there, which is left running and as it was."""
    return _run(options, nullcontext(spark), listener or Unheard(), Silent(), None)


def _run(
    options: StreamOptions,
    opening: AbstractContextManager[SparkSession],
    listener: Listener,
    progress: Progress,
    stop: threading.Event | None,
) -> State:
    keyring = Keyring() if options.keys is None else Keyring.load(options.keys)
    steps = Steps(progress)
    steps.planned(["Spark"])
    with started(opening, steps, DYNAMIC_OVERWRITE) as spark:
        batches = Batches(options, keyring, spark)
        streaming = _Streaming(spark, options, batches, listener)
        stop = stop or threading.Event()
        with translated("following the captures"):
            streaming.run(stop, available_now=options.available_now)
            if options.is_final:
                batches.is_final = True
                # A stream that follows comes to its end when it is stopped; one that catches up has to stop.
                streaming.run(stop if options.available_now else threading.Event(), available_now=True)
            return batches.states.before()


class _Streaming:
    """The streaming query."""

    def __init__(self, spark: SparkSession, options: StreamOptions, batches: Batches, listener: Listener) -> None:
        self._spark = spark
        self._options = options
        self._batches = batches
        self._listener = listener
        self._problem: Exception | None = None

    def run(self, stop: threading.Event, *, available_now: bool) -> None:
        """Run until it is stopped, or nothing more is there (`available_now`). A batch under way is done first."""
        self._problem = None
        query = self._start(available_now=available_now)
        try:
            while query.isActive and not stop.is_set():
                with suppress(StreamingQueryException):  # what is behind it is told below
                    query.awaitTermination(_LOOK_EVERY_S)  # type: ignore[arg-type]  # its stub says int
            if query.isActive:
                self._let_batch_end(query)
        finally:
            query.stop()
        if self._problem is not None and not stop.is_set():
            raise self._problem
        failure = query.exception()
        if failure is not None and not stop.is_set():
            raise spark_failure("following the captures", failure)

    def _start(self, *, available_now: bool) -> StreamingQuery:
        segments = reduce(DataFrame.union, (self._segments(place) for place in self._options.captures))
        ticks = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        paths = segments.union(ticks.select(sf.lit(None).cast("string")))
        trigger: dict[str, Any] = {"processingTime": f"{round(self._options.trigger_s * 1000)} milliseconds"}
        if available_now:
            trigger = {"availableNow": True}
        return (
            paths.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", f"{str(self._options.out).rstrip('/')}/{STREAM}/checkpoint")
            .trigger(**trigger)
            .start()
        )

    def _segments(self, place: str) -> DataFrame:
        reader = self._spark.readStream.format("binaryFile").schema(_FILES)
        reader = reader.option("recursiveFileLookup", "true").option("maxFileAge", _LISTED_FOR_EVER)
        # Retention may delete a segment before a batch that was killed is repeated.
        reader = reader.option("ignoreMissingFiles", "true")
        if self._options.max_files is not None:
            reader = reader.option("maxFilesPerTrigger", self._options.max_files)
        try:
            return reader.load(place).select("path")
        except PySparkException as problem:
            if problem.getCondition() == "PATH_NOT_FOUND":
                raise BadCapturesError([BadFile(place, "no such folder, and no pattern that matches one")]) from None
            raise

    def _batch(self, rows: DataFrame, number: int) -> None:
        try:
            found = [row.path for row in rows.where(sf.col("path").isNotNull()).collect()]
            paths = sorted(path for path in found if is_segment_name(path.rpartition("/")[2]))
            began = time.monotonic()
            self._listener.batch_began(number, len(paths))
            state = self._batches.run(paths, number)
            self._listener.batch_ended(BatchReport(number, len(paths), time.monotonic() - began, state))
        except Exception as problem:
            self._problem = problem
            # Spark searches the text of what is raised here by patterns, and may not come to an end with a long one.
            raise RuntimeError(f"batch {number} failed") from None

    def _let_batch_end(self, query: StreamingQuery) -> None:
        deadline = time.monotonic() + _STOPPING_S
        is_patient = self._options.is_final  # a batch that is cut off would still be ending when the last ones begin
        while query.isActive and query.status["isTriggerActive"] and (is_patient or time.monotonic() < deadline):
            time.sleep(_LOOK_EVERY_S)
