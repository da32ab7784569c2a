"""The batch job: captures in, all tables out. Decodes once, makes the other tables of that, publishes them together."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from platform import python_version

from pyspark.sql import SparkSession

from hopline.pipeline.inputs import Captures, find_captures
from hopline.pipeline.keys import Keyring
from hopline.pipeline.making import TablesInTheMaking
from hopline.pipeline.options import PipelineOptions
from hopline.pipeline.progress import Progress, Silent, Steps
from hopline.pipeline.recipes import to_make
from hopline.pipeline.session import spark_session
from hopline.pipeline.spark_work import check_reachable, in_utc, place_of, tagged, translated
from hopline.pipeline.writing import building, write_run


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run read and made. `rows` are of the tables that it published, of the days that it was about."""

    options: PipelineOptions
    captures: Captures
    records: int
    messages: int
    rejects: int
    rows: Mapping[str, int]
    began: datetime
    seconds: float
    seconds_of: Mapping[str, float]
    spark_version: str

    def document(self) -> dict[str, object]:
        """Give what is written beside the tables; no secret is in it."""
        read = self.captures
        return {
            "began": self.began,
            "seconds": round(self.seconds, 3),
            "versions": {"hopline": _version(), "spark": self.spark_version, "python": python_version()},
            "captures": {
                "segments": [segment.path for segment in read.segments],
                "bytes": read.bytes,
                "left_out": [{"path": bad.path, "problem": bad.problem} for bad in read.bad],
                "still_open": read.unfinished,
                "of_other_days": read.outside,
            },
            "records": self.records,
            "messages": self.messages,
            "rejects": self.rejects,
            "rows": dict(self.rows),
            "seconds_of": {step: round(seconds, 3) for step, seconds in self.seconds_of.items()},
            "options": self.options.without_secrets(),
        }


def run_pipeline(options: PipelineOptions, progress: Progress | None = None) -> RunReport:
    """Start Spark as the options say, and make the tables. What goes wrong is a `HoplineError`; the old tables stay."""
    return _run(options, _own_session(options), progress or Silent())


def run(options: PipelineOptions, spark: SparkSession, progress: Progress | None = None) -> RunReport:
    """Make the tables in a session that is there, which is left running and as it was."""
    return _run(options, nullcontext(spark), progress or Silent())


@contextmanager
def _own_session(options: PipelineOptions) -> Iterator[SparkSession]:
    check_reachable(options.remote or options.master or "")
    on_interrupt = signal.getsignal(signal.SIGINT)
    with spark_session(
        options.master, remote=options.remote, memory=options.memory, config=options.conf, verbose=options.verbose
    ) as spark:
        if threading.current_thread() is threading.main_thread():
            # Spark's own handler talks to Java in the middle of another talk, which fails. We stop the jobs ourselves.
            signal.signal(signal.SIGINT, on_interrupt)
        yield spark


def _run(options: PipelineOptions, opening: AbstractContextManager[SparkSession], progress: Progress) -> RunReport:
    began, clock = datetime.now(UTC), time.monotonic()
    names = to_make(options.tables)
    steps = Steps(progress)
    steps.planned(["captures", "Spark", "decode", "messages", *names, "publish"])
    keyring = Keyring() if options.keys is None else Keyring.load(options.keys)
    with steps.step("captures") as step:
        captures = find_captures(options.captures, options.days, skip_bad_files=options.skip_bad_files)
        step.text = f"{len(captures.segments):,} segment{'' if len(captures.segments) == 1 else 's'}"
    if captures.bad:
        steps.note(f"{len(captures.bad)} of the captures cannot be read and are left out")
    if captures.unfinished:
        steps.note(f"{captures.unfinished} of the segments are still open and left out")
    # The session ends before the place is tidied up: nothing may write there any more.
    with (
        building(options.out) as place,
        _started(opening, steps) as spark,
        tagged(spark, f"hopline-{uuid.uuid4()}"),
    ):
        making = TablesInTheMaking(spark, place, options, steps)
        captures = making.decode(captures, keyring)
        for name in names:
            making.make(name)
        with steps.step("publish"), translated("publishing"):
            rows = making.publish()
            report = RunReport(
                options=options,
                captures=captures,
                records=making.records,
                messages=making.messages,
                rejects=making.rejects,
                rows=rows,
                began=began,
                seconds=time.monotonic() - clock,
                seconds_of=steps.seconds,
                spark_version=spark.version,
            )
            write_run(options.out, report.document())
    return report


@contextmanager
def _started(opening: AbstractContextManager[SparkSession], steps: Steps) -> Iterator[SparkSession]:
    with ExitStack() as stack:
        with steps.step("Spark") as step, translated("starting Spark"):
            spark = stack.enter_context(opening)
            stack.enter_context(in_utc(spark))
            step.text = place_of(spark)
        yield spark


def _version() -> str:
    try:
        return metadata.version("hopline")
    except metadata.PackageNotFoundError:  # shipped without being installed
        return "unknown"
