"""The batch job: captures in, all tables out.

Captures are inspected first; then messages and rejects are written, and all other tables are made of the messages as
they were written. `run.json` is written last.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from platform import python_version

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from hopline.decoding.keys import Keyring
from hopline.message import ArgumentError
from hopline.pipeline.captures import Captures, find_captures, plain_path
from hopline.pipeline.failures import UnbalancedError
from hopline.pipeline.making import Making, order_of
from hopline.pipeline.options import PipelineOptions
from hopline.pipeline.progress import Progress, Silent, StepResult, Steps
from hopline.pipeline.spark_work import ONE_FILE_A_BATCH, tagged, translated, with_settings
from hopline.pipeline.starting import own_session, started
from hopline.pipeline.storage import DYNAMIC_OVERWRITE, CatalogTables, PathTables, Storage, on_days

_RECORD_TABLES = ("messages", "rejects")


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run read and made. `rows` are those of the days that it was about."""

    options: PipelineOptions
    captures: Captures
    records: int
    rows: Mapping[str, int]
    began: datetime
    seconds: float
    seconds_of: Mapping[str, float]
    spark_version: str

    @property
    def messages(self) -> int:
        """How many records are messages."""
        return self.records - self.rejects

    @property
    def rejects(self) -> int:
        """How many records are not."""
        return self.captures.rejects_of_days

    def document(self) -> dict[str, object]:
        """Return what is written beside the tables; no secret is in it."""
        read = self.captures
        return {
            "began": self.began,
            "seconds": round(self.seconds, 3),
            "versions": {"hopline": _version(), "spark": self.spark_version, "python": python_version()},
            "captures": {
                "segments": [plain_path(segment.path) for segment in read.segments],
                "bytes": read.bytes,
                "left_out": [{"path": bad.path, "problem": bad.problem} for bad in read.bad],
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
    """Start Spark as the options say, and make the tables.

    Raises:
        HoplineError: Whatever went wrong, in one line.
    """
    return _run(options, own_session(options), progress or Silent())


def run(options: PipelineOptions, spark: SparkSession, progress: Progress | None = None) -> RunReport:
    """Make the tables in a session that is there, which is left running and as it was."""
    return _run(options, nullcontext(spark), progress or Silent())


def _run(options: PipelineOptions, opening: AbstractContextManager[SparkSession], progress: Progress) -> RunReport:
    began, clock = datetime.now(UTC), time.monotonic()
    steps = Steps(progress)
    others = order_of(options.tables)
    steps.planned(["Spark", "captures", *(name for name in (*_RECORD_TABLES, *others) if name in options.tables)])
    keyring = Keyring() if options.keys is None else Keyring.load(options.keys)
    with started(opening, steps, DYNAMIC_OVERWRITE) as spark, tagged(spark, f"hopline-{uuid.uuid4()}"):
        job = _Job(options, keyring, spark, steps)
        job.check_format()
        with closing(job.inspect()) as captures:
            rows = job.write_records(captures)
            rows |= job.write_others(captures, others)
            report = RunReport(
                options=options,
                captures=captures,
                records=captures.records_of_days,
                rows=rows,
                began=began,
                seconds=time.monotonic() - clock,
                seconds_of=steps.seconds,
                spark_version=spark.version,
            )
            document = report.document()
        with translated("writing run.json"):
            job.storage.write_run(document)
    return report


class _Job:
    """One run in its session."""

    def __init__(self, options: PipelineOptions, keyring: Keyring, spark: SparkSession, steps: Steps) -> None:
        self.storage: Storage = (
            CatalogTables(spark, options.table_prefix, options.format)
            if options.table_prefix
            else PathTables(spark, str(options.out), options.format)
        )
        self._options = options
        self._keyring = keyring
        self._spark = spark
        self._steps = steps

    def check_format(self) -> None:
        """Raise `ArgumentError` where the tables that are there have another format: one folder cannot hold both."""
        with translated("reading what the last run wrote"):
            before = self.storage.format_before()
        if before not in (None, self._options.format):
            raise ArgumentError("format", f"{before}, as the tables that {self._options.out} has", self._options.format)

    def inspect(self) -> Captures:
        """Find the captures, and look at all of them before anything is written."""
        options = self._options
        with self._step("captures") as step, with_settings(self._spark, ONE_FILE_A_BATCH):
            captures = find_captures(self._spark, options.captures, options.days, skip_bad_files=options.skip_bad_files)
            step.rows = captures.records_of_days
            step.text = f"in {len(captures.segments):,} segment{'' if len(captures.segments) == 1 else 's'}"
        if captures.bad:
            self._steps.note(f"{len(captures.bad)} of the captures cannot be read and are skipped")
        return captures

    def write_records(self, captures: Captures) -> dict[str, int]:
        """Write messages and rejects: together they are all records, or `UnbalancedError` says that they are not."""
        rows = {}
        if "messages" in self._options.tables:
            with self._step("messages") as step, with_settings(self._spark, ONE_FILE_A_BATCH):
                messages = captures.messages(self._keyring, with_bodies=self._options.with_bodies)
                rows["messages"] = step.rows = self._replace("messages", messages, captures)
        if "rejects" in self._options.tables:
            with self._step("rejects") as step:
                rows["rejects"] = step.rows = self._replace("rejects", captures.rejects(), captures)
        if len(rows) == len(_RECORD_TABLES) and sum(rows.values()) != captures.records_of_days:
            raise UnbalancedError(captures.records_of_days, rows["messages"], rows["rejects"])
        return rows

    def write_others(self, captures: Captures, names: list[str]) -> dict[str, int]:
        """Write the tables that are made of messages; those that nobody asked for are only kept for others."""
        rows = {}
        with ExitStack() as kept:
            messages = self._messages(captures, kept)
            rejects = captures.rejects() if self._options.days.is_all else on_days(captures.rejects(), captures.days)
            making = kept.enter_context(
                Making(
                    messages,
                    rejects,
                    window_s=self._options.window_s,
                    signed_identities=self._keyring.signed_identities,
                    is_judged=bool(self._keyring),
                )
            )
            for name in names:
                if name not in self._options.tables:
                    making.keep(name)
                    continue
                with self._step(name) as step:
                    rows[name] = step.rows = self._make(name, making, captures)
        return rows

    def _make(self, name: str, making: Making, captures: Captures) -> int:
        """Write a table, and return how many rows it has."""
        if not self._options.days.is_all:
            # What is told of a flow of these days may lie behind midnight: the next tables are made of all rows.
            return self._replace(name, making.keep(name), captures)
        rows = self._replace(name, making.make(name), captures)
        making.written(name, on_days(self.storage.read(name), captures.days))
        return rows

    def _messages(self, captures: Captures, kept: ExitStack) -> DataFrame:
        """Return the messages that the other tables are made of, as they were written where they were.

        For a run over some days, those of an hour before and after come with them: what crosses midnight is stitched
        whole.
        """
        is_written = "messages" in self._options.tables
        if is_written and self._options.days.is_all:
            return on_days(self.storage.read("messages"), captures.days)
        with with_settings(self._spark, ONE_FILE_A_BATCH):
            decoded = captures.messages(self._keyring)
            if is_written:
                decoded = decoded.where(~sf.col("date").isin(list(captures.days)))
            decoded = decoded.persist(StorageLevel.DISK_ONLY)
        kept.callback(decoded.unpersist)
        if not is_written:
            return decoded
        return on_days(self.storage.read("messages"), captures.days).unionByName(decoded)

    def _replace(self, name: str, table: DataFrame, captures: Captures) -> int:
        days = captures.days
        return self.storage.replace(name, table if self._options.days.is_all else on_days(table, days), days)

    @contextmanager
    def _step(self, name: str) -> Iterator[StepResult]:
        with self._steps.step(name, self._spark) as step, translated(name):
            yield step


def _version() -> str:
    try:
        return metadata.version("hopline")
    except metadata.PackageNotFoundError:  # shipped without being installed
        return "unknown"
