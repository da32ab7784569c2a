"""How far a run is: its steps, and for each what Spark says of the tasks and rows of its stages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pyspark.sql import SparkSession

from hopline.message import get_logger
from hopline.pipeline.spark_work import is_classic

LOOK_EVERY_S = 0.5

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """What Spark has done of a step so far. Tasks grow as new stages begin."""

    tasks: int = 0
    tasks_done: int = 0
    rows_read: int = 0
    rows_written: int = 0
    bytes_read: int = 0


class Progress(Protocol):
    """Whoever wants to know how far a run is. Called from the run's thread and, for `moved`, from another."""

    def planned(self, steps: list[str]) -> None:
        """Hear of the steps to come."""

    def began(self, step: str) -> None:
        """Hear that a step begins."""

    def moved(self, step: str, work: Work) -> None:
        """Hear what of it is done."""

    def ended(self, step: str, result: str, rows: int | None, seconds: float) -> None:
        """Hear that it ended, and how many rows it made."""

    def note(self, text: str) -> None:
        """Hear something worth knowing."""


class Silent:
    """Nobody wants to know."""

    def planned(self, steps: list[str]) -> None:
        """Do nothing."""

    def began(self, step: str) -> None:
        """Do nothing."""

    def moved(self, step: str, work: Work) -> None:
        """Do nothing."""

    def ended(self, step: str, result: str, rows: int | None, seconds: float) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""


@dataclass(slots=True)
class StepResult:
    """What a step has to say at its end."""

    rows: int | None = None
    text: str = ""


class Steps:
    """The steps of a run, each told to a `Progress` and timed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.seconds: dict[str, float] = {}

    def note(self, text: str) -> None:
        """Pass on something worth knowing."""
        self._progress.note(text)

    def planned(self, steps: list[str]) -> None:
        """Announce the steps."""
        self._progress.planned(steps)

    @contextmanager
    def step(self, name: str, spark: SparkSession | None = None, rows: int | None = None) -> Iterator[StepResult]:
        """Do one step; with a session, what Spark does meanwhile is watched.

        `rows` are those to be read where Spark does not see them itself: tasks that are done tell how many were.
        """
        self._progress.began(name)
        began = time.monotonic()
        result = StepResult()

        def tell(work: Work) -> None:
            if rows is not None and work.tasks:
                work = replace(work, rows_read=rows * work.tasks_done // work.tasks)
            self._progress.moved(name, work)

        watch: AbstractContextManager[None] = _watched(spark, tell)
        with watch:
            yield result
        self.seconds[name] = seconds = time.monotonic() - began
        self._progress.ended(name, result.text, result.rows, seconds)


@contextmanager
def _watched(spark: SparkSession | None, tell: Callable[[Work], None]) -> Iterator[None]:
    if spark is None:
        yield
    else:
        watch = _asked_again_and_again if is_classic(spark) else _told_by_server
        with watch(spark, tell):
            yield


@contextmanager
def _told_by_server(spark: SparkSession, tell: Callable[[Work], None]) -> Iterator[None]:
    """Listen to Connect's server, which says itself how far it is: tasks and bytes, but no rows."""
    seen: dict[int, Work] = {}

    def handler(stages: Any, **_: Any) -> None:
        for stage in stages or ():
            work = Work(stage.num_tasks, stage.num_completed_tasks, bytes_read=stage.num_bytes_read)
            seen[stage.stage_id] = work
        tell(_sum(seen))

    listening: Any = spark  # its stub asks for a class where any function does
    listening.registerProgressHandler(handler)
    try:
        yield
    finally:
        listening.removeProgressHandler(handler)


@contextmanager
def _asked_again_and_again(spark: SparkSession, tell: Callable[[Work], None]) -> Iterator[None]:
    """Look into the driver's own books, which it keeps with and without its web page."""
    store = spark.sparkContext._jsc.sc().statusStore()
    stop = threading.Event()
    seen: dict[int, Work] = {}
    before = {stage.stageId() for stage in _stages(store)}

    def look() -> None:
        for stage in _stages(store):
            if stage.stageId() not in before:
                seen[stage.stageId()] = Work(
                    stage.numTasks(),
                    stage.numCompleteTasks(),
                    stage.inputRecords() + stage.shuffleReadRecords(),
                    stage.outputRecords(),
                    stage.inputBytes() + stage.shuffleReadBytes(),
                )
        tell(_sum(seen))

    def keep_looking() -> None:
        while not stop.wait(LOOK_EVERY_S):
            try:
                look()
            except Exception as problem:
                _log.debug("Spark does not say how far it is: %s", problem)
                return

    thread = threading.Thread(target=keep_looking, name="hopline-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _stages(store: Any) -> Iterator[Any]:
    active = store.activeStages()
    for index in range(active.size()):
        yield active.apply(index)


def _sum(seen: dict[int, Work]) -> Work:
    total = Work()
    for work in seen.values():
        total = replace(
            total,
            tasks=total.tasks + work.tasks,
            tasks_done=total.tasks_done + work.tasks_done,
            rows_read=total.rows_read + work.rows_read,
            rows_written=total.rows_written + work.rows_written,
            bytes_read=total.bytes_read + work.bytes_read,
        )
    return total
