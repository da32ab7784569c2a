"""The batch job: captures in, all tables out. Decodes once, makes the other tables of that, publishes them together."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from platform import python_version

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hopline.pipeline.failures import UnbalancedError
from hopline.pipeline.folders import row_count
from hopline.pipeline.inputs import Captures, find_captures
from hopline.pipeline.keys import Keyring
from hopline.pipeline.options import PipelineOptions
from hopline.pipeline.progress import Progress, Silent, Steps
from hopline.pipeline.recipes import RECIPES, with_needed
from hopline.pipeline.schemas import RECORDS
from hopline.pipeline.session import spark_session
from hopline.pipeline.spark_work import (
    check_reachable,
    tagged,
    translated,
    within,
    write_as_it_falls,
    write_by_day,
)
from hopline.pipeline.writing import Building, building, write_run


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run read and made. `rows` are of the tables that it published, of the days that it was about."""

    options: PipelineOptions
    captures: Captures
    records: int
    rows: Mapping[str, int]
    messages: int
    rejects: int
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
                "unfinished": read.unfinished,
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
    with spark_session(
        options.master,
        remote=options.remote,
        memory=options.memory,
        config=options.conf,
        verbose=options.verbose,
    ) as spark:
        yield spark


def _run(options: PipelineOptions, opening: AbstractContextManager[SparkSession], progress: Progress) -> RunReport:
    began, clock = datetime.now(UTC), time.monotonic()
    names = with_needed(options.tables)
    steps = Steps(progress)
    steps.planned(["captures", "Spark", "decode", *names, "publish"])
    keyring = Keyring() if options.keys is None else Keyring.load(options.keys)
    with steps.step("captures") as step:
        captures = find_captures(options.captures, options.days, skip_bad_files=options.skip_bad_files)
        step.text = f"{len(captures.segments):,} segments"
    _note(captures, steps)
    # The session ends before the place is tidied up: nothing may write there any more.
    with building(options.out) as place, _started(opening, steps) as spark, tagged(spark, f"hopline-{uuid.uuid4()}"):
        work = _Work(spark, place, options, keyring, steps)
        records = work.decode(captures)
        for name in names:
            work.make(name)
        messages, rejects = (row_count(place.place(name), options.days) for name in ("messages", "rejects"))
        if records != messages + rejects:
            raise UnbalancedError(records, messages, rejects)
        version = spark.version
        with steps.step("publish"):
            rows = {name: work.publish(name) for name in options.tables}
            report = RunReport(
                options=options,
                captures=captures,
                records=records,
                rows=rows,
                messages=messages,
                rejects=rejects,
                began=began,
                seconds=time.monotonic() - clock,
                seconds_of=steps.seconds,
                spark_version=version,
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


class _Work:
    """The tables of a run in the making: each is written aside, and read back by those that are made of it."""

    def __init__(self, spark: SparkSession, place: Building, options: PipelineOptions, steps: Steps) -> None:
        self._spark = spark
        self._place = place
        self._options = options
        self._steps = steps
        self._schemas: dict[str, StructType] = {}

    def __getitem__(self, name: str) -> DataFrame:
        return self._spark.read.schema(self._schemas[name]).parquet(str(self._place.place(name)))

    @property
    def window_s(self) -> int:
        """Tell the length of a window."""
        return self._options.window_s

    @contextmanager
    def _step(self, name: str) -> Iterator[StepResult]:
        with self._steps.step(name, self._spark) as step, translated(name):
            yield step

    def decode(self, captures: Captures, keyring: Keyring) -> int:
        """Make messages and rejects of the captures. Give the number of records, which they must add up to."""
        days = self._options.days
        with self._step("decode") as step:
            paths = [segment.path for segment in captures.segments]
            read = within(self._spark.read.schema(RECORDS).parquet(*paths), days.read_from, days.read_until)
            write_as_it_falls(decoded(records(read), keyring), self._place.place("decoded"), "odd", "date")
            in_days = within(read, days.begin, days.end)
            step.rows = records_read = captures.rows if days.is_all else in_days.count()
        return records_read

    def make(self, name: str) -> None:
        """Make a table of those that are there."""
        with self._step(name) as step:
            table = RECIPES[name].make(self)
            self._schemas[name] = table.schema
            write_by_day(table, self._place.place(name))
            step.rows = row_count(self._place.place(name))

    def publish(self, name: str) -> int:
        """Put a table in its place; give the number of its rows."""
        folder = self._place.place(name)
        rows = row_count(folder, self._options.days)
        self._place.publish(name, self._options.days)
        return rows


def _note(captures: Captures, steps: Steps) -> None:
    if captures.bad:
        steps.note(f"{len(captures.bad)} captures cannot be read and are left out")
    if captures.unfinished:
        steps.note(f"{captures.unfinished} segments are still open and left out")


def _version() -> str:
    try:
        return metadata.version("hopline")
    except metadata.PackageNotFoundError:  # shipped without being installed
        return "unknown"
