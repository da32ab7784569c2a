"""Where tables are, and how they are replaced: by Spark's own writers and commit protocol, on any storage it knows.

Theory of operation
-------------------
Every table is partitioned by `date`. A run replaces the days that it is about, and no others, by dynamic partition
overwrite: Spark writes the new files aside and moves them when the job commits. So a task that is tried twice, or
speculatively, leaves one result; a run that is killed leaves each table as it was or, in the days that were being
committed, incomplete until the run is repeated; and repeating a run changes nothing.

Dynamic overwrite leaves days alone for which there is no new row. Where an earlier run had rows on such a day, they are
stale, and the day is emptied.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from hopline.pipeline.tables.all import TABLES

DYNAMIC_OVERWRITE = {
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Rows of several days come to one task: a file for each is open, instead of sorting them by day first.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
}
RUN = "run.json"


_ROW_GROUP_BYTES = 16 << 20
_DISTINCT_IN_ROW_GROUP = 100_000


class Storage(Protocol):
    """A place with tables."""

    def read(self, name: str) -> DataFrame:
        """Return a table."""
        ...

    def replace(self, name: str, table: DataFrame, days: Sequence[date]) -> int:
        """Replace some days of a table, and return how many rows they have now."""
        ...

    def write_run(self, document: Mapping[str, object]) -> None:
        """Write down what a run did."""
        ...


class _Tables:
    """What both kinds of places do."""

    def __init__(self, spark: SparkSession, format_: str) -> None:
        self.spark = spark
        self.format = format_

    def read(self, name: str) -> DataFrame:
        raise NotImplementedError

    def write(self, name: str, table: DataFrame) -> None:
        raise NotImplementedError

    def empty(self, name: str, day: date) -> None:
        """Remove the rows of a day; the table is made where there is none."""
        raise NotImplementedError

    def replace(self, name: str, table: DataFrame, days: Sequence[date]) -> int:
        """Replace some days of a table, and return how many rows they have now."""
        seen = Observation()
        rows = documented(table, name)
        self.write(name, rows.observe(seen, sf.count("*").alias("rows"), sf.collect_set("date").alias("days")))
        without_rows = set(days) - set(seen.get["days"])
        if without_rows:
            there = self._days_of(name)
            for day in sorted(without_rows & there):
                self.empty(name, day)
            if not there:
                self.empty(name, days[0])
        return int(seen.get["rows"])

    def _days_of(self, name: str) -> set[date]:
        try:
            return {row.date for row in self.read(name).select("date").distinct().collect()}
        except AnalysisException:
            return set()

    def options_of(self, name: str) -> dict[str, str]:
        """Return the writer's options for a table."""
        if self.format != "parquet":
            return {}
        options = {"compression": "zstd", "parquet.block.size": str(_ROW_GROUP_BYTES)}
        for column in TABLES[name].looked_up_by:
            options[f"parquet.bloom.filter.enabled#{column}"] = "true"
            options[f"parquet.bloom.filter.expected.ndv#{column}"] = str(_DISTINCT_IN_ROW_GROUP)
        return options

    def empty_table(self, schema: StructType) -> DataFrame:
        """Return a table without rows."""
        return self.spark.createDataFrame([], schema)


class PathTables(_Tables):
    """Tables in a folder, each in a folder of its own; the folder is any path that Spark knows."""

    def __init__(self, spark: SparkSession, root: str, format_: str) -> None:
        super().__init__(spark, format_)
        self._root = root.rstrip("/")

    def read(self, name: str) -> DataFrame:
        """Return a table."""
        reader = self.spark.read.format(self.format)
        if self.format == "parquet":  # whose files need not be opened to know their columns
            reader = reader.schema(TABLES[name].schema)
        return reader.load(self._path(name))

    def write(self, name: str, table: DataFrame) -> None:
        """Write rows, in place of those of the same days."""
        writer = table.write.format(self.format).mode("overwrite").partitionBy("date")
        writer.options(**self.options_of(name)).save(self._path(name))

    def empty(self, name: str, day: date) -> None:
        """Remove the rows of a day; the table is made where there is none."""
        if self.format == "parquet":
            columns = StructType([field for field in TABLES[name].schema if field.name != "date"])
            self.empty_table(columns).write.mode("overwrite").parquet(f"{self._path(name)}/date={day}")
        elif self._days_of(name):
            self.spark.sql(f"DELETE FROM {self.format}.`{self._path(name)}` WHERE date = DATE'{day}'")  # noqa: S608
        else:
            self.write(name, self.empty_table(TABLES[name].schema))

    def write_run(self, document: Mapping[str, object]) -> None:
        """Write down what a run did."""
        _as_rows(self.spark, document).write.mode("overwrite").text(self._path(RUN))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


class CatalogTables(_Tables):
    """Tables of a catalogue, named `<prefix>.<table>`."""

    def __init__(self, spark: SparkSession, prefix: str, format_: str) -> None:
        super().__init__(spark, format_)
        self._prefix = prefix

    def read(self, name: str) -> DataFrame:
        """Return a table."""
        return self.spark.table(self._name(name))

    def write(self, name: str, table: DataFrame) -> None:
        """Write rows, in place of those of the same days."""
        if not self.spark.catalog.tableExists(self._name(name)):
            new = self.empty_table(TABLES[name].schema).write.format(self.format).options(**self.options_of(name))
            new.partitionBy("date").saveAsTable(self._name(name))
        columns = self.read(name).columns
        table.select(*columns).write.mode("overwrite").insertInto(self._name(name))

    def empty(self, name: str, day: date) -> None:
        """Remove the rows of a day; the table is made where there is none."""
        table = self._name(name)
        if not self.spark.catalog.tableExists(table):
            self.write(name, self.empty_table(TABLES[name].schema))
            return
        try:
            self.spark.sql(f"DELETE FROM {table} WHERE date = DATE'{day}'")  # noqa: S608 - names of our own
        except AnalysisException:  # plain files know partitions, but no DELETE
            self.spark.sql(f"ALTER TABLE {table} DROP IF EXISTS PARTITION (date = DATE'{day}')")

    def write_run(self, document: Mapping[str, object]) -> None:
        """Write down what a run did."""
        _as_rows(self.spark, document).write.mode("overwrite").format(self.format).saveAsTable(self._name("run"))

    def _name(self, name: str) -> str:
        return f"{self._prefix}.{name}"


def documented(table: DataFrame, name: str) -> DataFrame:
    """Return exactly the columns of a table's schema, with their types and comments, which go into the files."""
    # Where a comment is there already, Spark takes ours for a repetition and may lose both: the name tells them apart.
    rows = table.select(
        *(
            sf.col(field.name).cast(field.dataType).alias(field.name, metadata=field.metadata | {"table": name})
            for field in TABLES[name].schema
        )
    )
    sorted_by = TABLES[name].sorted_by
    return rows.sortWithinPartitions("date", *sorted_by) if sorted_by else rows


def _as_rows(spark: SparkSession, document: Mapping[str, object]) -> DataFrame:
    return spark.createDataFrame([(json.dumps(document, default=str),)], "value string").coalesce(1)


def on_days(table: DataFrame, days: Iterable[date]) -> DataFrame:
    """Return the rows of some days."""
    return table.where(sf.col("date").isin(list(days)))
