"""The tables of a run in the making: decoded first, each of the others made of those that are there already."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from hopline.pipeline.arrow_schemas import arrow_schema, file_schema
from hopline.pipeline.decoding.files import SEEN, decode_files
from hopline.pipeline.decoding.judging import Judging
from hopline.pipeline.decoding.verified import judge_verified
from hopline.pipeline.failures import BadCapturesError, UnbalancedError
from hopline.pipeline.folders import day_of, partitions, row_count
from hopline.pipeline.inputs import Captures
from hopline.pipeline.keys import Keyring
from hopline.pipeline.options import PipelineOptions
from hopline.pipeline.progress import StepResult, Steps
from hopline.pipeline.recipes import RECIPES
from hopline.pipeline.schemas import RECORDS, TABLES
from hopline.pipeline.spark_work import balanced, translated, wait_until_idle, within, write_by_day, write_empty
from hopline.pipeline.tables.verdicts import VERDICTS
from hopline.pipeline.traces import Chest, Kernel, TracesInFiles
from hopline.pipeline.traces.hours import HOURS
from hopline.pipeline.traces.spans import SPANS
from hopline.pipeline.writing import Building, add_rows

DECODED = ("messages", "rejects", "incidents")
"""The tables that are made while records are read."""

NOTED = {"spans": SPANS, "seen": SEEN, "hours": HOURS, "verdicts": VERDICTS}
"""What is noted of records meanwhile, for other tables."""


class TablesInTheMaking:
    """What a run has made so far. Every table is written aside, and read back by those that are made of it."""

    def __init__(self, spark: SparkSession, place: Building, options: PipelineOptions, steps: Steps) -> None:
        self.records = self.messages = self.rejects = 0
        self.traces: TracesInFiles
        self._spark = spark
        self._place = place
        self._options = options
        self._steps = steps
        self._schemas: dict[str, StructType] = {name: TABLES[name] for name in DECODED}
        self._schemas |= {name: from_arrow_schema(schema) for name, schema in NOTED.items()}

    def __getitem__(self, name: str) -> DataFrame:
        return self._spark.read.schema(self._schemas[name]).parquet(str(self._place.place(name)))

    @property
    def window_s(self) -> int:
        """Tell the length of a window."""
        return self._options.window_s

    @cached_property
    def skew(self) -> pa.Table:
        """Give the table of skew, which is small."""
        days = ds.partitioning(pa.schema([("date", pa.date32())]), flavor="hive")
        found = ds.dataset(self._place.place("skew"), arrow_schema(TABLES["skew"]), format="parquet", partitioning=days)
        return found.to_table()

    @cached_property
    def ends(self) -> pa.Table:
        """Give the time of each node's last message."""
        seen = pq.read_table(self._place.place("seen"))
        last = seen.filter(pc.is_valid(seen["node"])).group_by("node").aggregate([("ts", "max")])
        return last.rename_columns({"ts_max": "last_ts"})

    def decode(self, captures: Captures, keyring: Keyring) -> Captures:
        """Make messages and rejects of all records, and give what they were read from.

        Nothing is lost on the way, or `UnbalancedError` says so. What turns out to be damaged inside raises
        `BadCapturesError`, or is left out if the options say so, and the rest is read once more.
        """
        days, place = self._options.days, self._place.place
        judging = Judging(self.window_s, keyring.signed_identities)
        with self._step("decode", captures.rows) as step:
            while True:
                chest = Chest.for_records(place("traces"), captures.rows)
                try:
                    with translated("decode"):
                        self.records = captures.rows if days.is_all else self._count(captures)
                        span = (days.read_from, days.read_until)
                        decode_files(self._spark, captures.row_groups, keyring, place("decoded"), chest, judging, span)
                    break
                except BadCapturesError as error:
                    captures = captures.without(error.bad, may_go_on=self._options.skip_bad_files)
                    self._steps.note(f"{error.bad[0].path} is damaged inside and left out; decoding begins anew")
                    wait_until_idle(self._spark)
                    for begun in (place("decoded"), place("traces")):
                        shutil.rmtree(begun, ignore_errors=True)
            step.rows = self.records
        self.traces = TracesInFiles(self._spark, chest)
        with self._step("messages") as step:
            judge_verified(self._spark, chest, place("decoded"), place("messages"), judging)
            for name in DECODED:
                add_rows(place("decoded") / name, place(name))
            for name in NOTED:
                (place("decoded") / name).rename(place(name))
            self.messages, self.rejects = (row_count(place(name), days) for name in ("messages", "rejects"))
            step.rows = self.messages
            step.text = f"and {self.rejects:,} rejects"
        if self.records != self.messages + self.rejects:
            raise UnbalancedError(self.records, self.messages, self.rejects)
        return captures

    def _count(self, captures: Captures) -> int:
        """Count the records of the days that the run is about."""
        read = self._spark.read.schema(RECORDS).parquet(*(segment.path for segment in captures.segments))
        return within(read, self._options.days.begin, self._options.days.end).count()

    def make(self, name: str) -> None:
        """Make a table of those that are there."""
        with self._step(name) as step:
            recipe, place = RECIPES[name], self._place.place(name)
            table = recipe.make(self)
            if name not in TABLES and isinstance(table, Kernel):
                self.traces.write(table, place)
                self._schemas[name] = from_arrow_schema(table.schema)
            elif isinstance(table, Kernel):
                self.traces.write_by_day(table, place, file_schema(TABLES[name]))
                self._schemas[name] = TABLES[name]
            else:
                write_by_day(table.coalesce(1) if recipe.has_few_rows else balanced(table), place, TABLES[name])
                self._schemas[name] = TABLES[name]
            step.rows = row_count(place)

    def publish(self) -> dict[str, int]:
        """Put the tables that were asked for in their places; give the numbers of their rows."""
        tables = self._options.tables
        for name in tables:
            if not any(day_of(folder) in self._options.days for folder in partitions(self._place.place(name))):
                write_empty(TABLES[name], self._place.place(name), self._some_day())
        rows = {name: row_count(self._place.place(name), self._options.days) for name in tables}
        for name in tables:
            self._place.publish(name, self._options.days)
        return rows

    def _some_day(self) -> date:
        """Give a day for a table without rows: it needs one to have columns."""
        found = (day_of(folder) for name in ("messages", "rejects") for folder in partitions(self._place.place(name)))
        days = [day for day in found if day is not None and day in self._options.days]
        return min(days, default=self._options.first_day or self._options.last_day or datetime.now(UTC).date())

    @contextmanager
    def _step(self, name: str, rows: int | None = None) -> Iterator[StepResult]:
        with self._steps.step(name, self._spark, rows) as step, translated(name):
            yield step
