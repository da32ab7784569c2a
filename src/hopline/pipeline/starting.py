"""Starting Spark for a command, as the options that all of them share say, and telling how that goes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from pyspark.sql import SparkSession

from hopline.pipeline.progress import Steps
from hopline.pipeline.session import spark_session
from hopline.pipeline.spark_work import check_reachable, place_of, translated, with_settings

_UTC = {"spark.sql.session.timeZone": "UTC"}


class SparkOptions(Protocol):
    """Where Spark runs, and how."""

    @property
    def master(self) -> str | None:
        """Return the master, None for this machine."""

    @property
    def remote(self) -> str | None:
        """Return the address of a Spark Connect server."""

    @property
    def memory(self) -> str:
        """Return the memory of the driver."""

    @property
    def conf(self) -> Mapping[str, str]:
        """Return settings of Spark's own."""

    @property
    def verbose(self) -> bool:
        """Return whether Spark's own log is shown."""


@contextmanager
def own_session(options: SparkOptions) -> Iterator[SparkSession]:
    """Open a session for as long as the block runs. Ctrl-C interrupts the caller, who stops the jobs."""
    check_reachable(options.remote or options.master or "")
    on_interrupt = signal.getsignal(signal.SIGINT)
    with spark_session(
        options.master, remote=options.remote, memory=options.memory, config=options.conf, verbose=options.verbose
    ) as spark:
        if threading.current_thread() is threading.main_thread():
            # Spark's own handler talks to Java in the middle of another talk, which fails. We stop the jobs ourselves.
            signal.signal(signal.SIGINT, on_interrupt)
        yield spark


@contextmanager
def started(
    opening: AbstractContextManager[SparkSession], steps: Steps, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Open a session as the step "Spark", with UTC and further settings for as long as the block runs."""
    with ExitStack() as stack:
        with steps.step("Spark") as step, translated("starting Spark"):
            spark = stack.enter_context(opening)
            stack.enter_context(with_settings(spark, _UTC | dict(settings or {})))
            step.text = place_of(spark)
        yield spark
