"""Where tables are, and how they are replaced: by Spark's own writers and commit protocol, on any storage it knows.

Theory of operation
-------------------
Every table is partitioned by `date`. A run replaces the days that it is about, and no others, by dynamic partition
overwrite: Spark writes the new files aside and moves them when the job commits. So a task that is tried twice, or
speculatively, leaves one result; a run that is killed leaves each table as it was or, in the days that were being
committed, incomplete until the run is repeated; and repeating a run changes nothing.

Dynamic overwrite leaves days alone for which there is no new row. Where an earlier run had rows on such a day, they are
stale, and the day is emptied. Records without a time are on the day None, a partition as any other.

A driver that was killed leaves the files aside that it had not committed. Nobody reads them (their folders' names begin
with a dot or an underscore), and the next run over the same days removes them (`abandoned.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from hopline.pipeline.abandoned import partition_of, remove_abandoned
from hopline.pipeline.days import Day
from hopline.pipeline.spark_work import exactly
from hopline.pipeline.tables.all import TABLES

FILE_FORMATS = ("parquet", "orc")
"""Formats of plain files, which Spark itself commits. Delta, Iceberg and others have commits of their own."""
DYNAMIC_OVERWRITE = {
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Rows of several days come to one task: a file for each is open, instead of sorting them by day first.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
}
RUN = "run.json"


_ROW_GROUP_BYTES = 16 << 20
_DISTINCT_IN_ROW_GROUP = 100_000
# A dictionary of these would be made, found useless and thrown away, in every column of every file.
_NEARLY_UNIQUE = {
    *("ts", "seq", "fingerprint", "message_id", "signature"),
    *("sent_ts", "sent_seq", "received_ts", "received_seq", "asked_ts", "answered_ts", "start_ts", "end_ts"),
}


class Storage(Protocol):
    """A place with tables."""

    def read(self, name: str) -> DataFrame:
        """Return a table."""
        ...

    def replace(self, name: str, table: DataFrame, days: Sequence[Day]) -> int:
        """Replace some days of a table, and return how many rows they have now."""
        ...

    def format_before(self) -> str | None:
        """Return the format that the last run wrote here, None where there was none, or where it does not matter."""
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

    def empty(self, name: str, days: Sequence[Day]) -> None:
        """Remove the rows of some days."""
        raise NotImplementedError

    def location_of(self, name: str) -> str | None:
        """Return the folder of a table whose files Spark itself commits, None where another library does."""
        raise NotImplementedError

    def replace(self, name: str, table: DataFrame, days: Sequence[Day]) -> int:
        """Replace some days of a table, and return how many rows they have now."""
        location = self.location_of(name)
        if location is not None:
            remove_abandoned(self.spark, location, days)
        seen = Observation()
        rows = documented(table, name).observe(
            seen,
            sf.count("*").alias("rows"),
            sf.collect_set("date").alias("days"),
            sf.count_if(sf.col("date").isNull()).alias("without_day"),
        )
        self.write(name, rows)
        days_with_rows: set[Day] = set(seen.get["days"])
        if seen.get["without_day"]:
            days_with_rows.add(None)
        days_without_rows = [day for day in days if day not in days_with_rows]
        if days_without_rows:
            self.empty(name, days_without_rows)
        return int(seen.get["rows"])

    def options_of(self, name: str) -> dict[str, str]:
        """Return the writer's options for a table."""
        if self.format != "parquet":
            return {}
        options = {"compression": "zstd", "parquet.block.size": str(_ROW_GROUP_BYTES)}
        for column in _NEARLY_UNIQUE & set(TABLES[name].schema.names):
            options[f"parquet.enable.dictionary#{column}"] = "false"
        for column in TABLES[name].looked_up_by:
            # Parquet writes no bloom filter where all values are in a dictionary, which few readers skip row groups by.
            options[f"parquet.enable.dictionary#{column}"] = "false"
            options[f"parquet.bloom.filter.enabled#{column}"] = "true"
            options[f"parquet.bloom.filter.expected.ndv#{column}"] = str(_DISTINCT_IN_ROW_GROUP)
        return options


class PathTables(_Tables):
    """Tables in a folder, each in a folder of its own; the folder is any path that Spark knows."""

    def __init__(self, spark: SparkSession, root: str, format_: str) -> None:
        super().__init__(spark, format_)
        self._root = root.rstrip("/")

    def read(self, name: str) -> DataFrame:
        """Return a table."""
        reader = self.spark.read.format(self.format)
        if self.format not in FILE_FORMATS:
            return reader.load(self._path(name))
        return reader.schema(TABLES[name].schema).load(
            exactly(self._path(name))
        )  # no file is opened to know the columns

    def write(self, name: str, table: DataFrame) -> None:
        """Write rows, in place of those of the same days."""
        writer = table.write.format(self.format).mode("overwrite").partitionBy("date")
        writer.options(**self.options_of(name)).save(self._path(name))

    def empty(self, name: str, days: Sequence[Day]) -> None:
        """Remove the rows of some days; a table has at least one file, so that its columns can be read."""
        if self.format not in FILE_FORMATS:
            self.spark.sql(f"DELETE FROM {self.format}.`{self._path(name)}` WHERE {_is_on(days)}")  # noqa: S608
            return
        stored = self.read(name)
        for row in on_days(stored, days).select("date").distinct().collect():
            self.write_no_rows(name, row.date)
        if not self.read(name).inputFiles():
            self.write_no_rows(name, days[0])

    def location_of(self, name: str) -> str | None:
        """Return the folder of a table whose files Spark itself commits."""
        return self._path(name) if self.format in FILE_FORMATS else None

    def format_before(self) -> str | None:
        """Return the format that the last run wrote here, None where there was none."""
        try:
            written = self.spark.read.text(exactly(self._path(RUN)), wholetext=True).first()
        except AnalysisException as problem:
            if problem.getCondition() == "PATH_NOT_FOUND":
                return None
            raise
        with suppress(ValueError, LookupError):  # somebody else's file has no format of ours
            return None if written is None else str(json.loads(written.value)["options"]["format"])
        return None

    def write_run(self, document: Mapping[str, object]) -> None:
        """Write down what a run did."""
        _as_rows(self.spark, document).write.mode("overwrite").text(self._path(RUN))

    def write_no_rows(self, name: str, day: Day) -> None:
        """Write a file without rows in place of those of a day."""
        columns = StructType([field for field in TABLES[name].schema if field.name != "date"])
        no_rows = self.spark.createDataFrame([], columns)
        no_rows.write.format(self.format).mode("overwrite").save(f"{self._path(name)}/{partition_of(day)}")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


class CatalogTables(_Tables):
    """Tables of a catalogue, named `<prefix>.<table>`."""

    def __init__(self, spark: SparkSession, prefix: str, format_: str) -> None:
        super().__init__(spark, format_)
        self._prefix = ".".join(f"`{part}`" for part in prefix.split("."))

    def read(self, name: str) -> DataFrame:
        """Return a table."""
        return self.spark.table(self._name(name))

    def write(self, name: str, table: DataFrame) -> None:
        """Write rows, in place of those of the same days; the table is made where there is none."""
        definition = TABLES[name]
        options = ", ".join(f"'{option}' '{value}'" for option, value in self.options_of(name).items())
        clauses = [f"OPTIONS ({options})"] if options else []
        clauses += ["PARTITIONED BY (date)", f"COMMENT {_quoted(definition.meaning)}"]
        self._create(name, definition.schema, *clauses)
        columns = self.read(name).columns  # in the catalogue's order, by which they are inserted
        table.select(*columns).write.mode("overwrite").insertInto(self._name(name))

    def empty(self, name: str, days: Sequence[Day]) -> None:
        """Remove the rows of some days."""
        table = self._name(name)
        try:
            self.spark.sql(f"DELETE FROM {table} WHERE {_is_on(days)}")  # noqa: S608 - names of our own
        except AnalysisException:  # plain files know partitions, but no DELETE
            partitions = ", ".join(f"PARTITION (date = {_literal(day)})" for day in days)
            self.spark.sql(f"ALTER TABLE {table} DROP IF EXISTS {partitions}")

    def location_of(self, name: str) -> str | None:
        """Return the folder of a table whose files Spark itself commits."""
        if self.format not in FILE_FORMATS or not self.spark.catalog.tableExists(self._name(name)):
            return None
        about = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self._name(name)}").where("col_name = 'Location'").first()
        return None if about is None else str(about.data_type)

    def format_before(self) -> str | None:
        """Return None: the catalogue knows the format of each table, whatever is asked for now."""
        return None

    def write_run(self, document: Mapping[str, object]) -> None:
        """Write down what a run did, in the table `run`."""
        rows = _as_rows(self.spark, document)
        self._create("run", rows.schema)
        rows.write.mode("overwrite").insertInto(self._name("run"))

    def _create(self, name: str, schema: StructType, *clauses: str) -> None:
        # Not by saveAsTable, which writes files before it makes the table: killed in between, it would never again
        # find the folder empty.
        columns = f"({schema.toDDL()})"
        self.spark.sql(
            " ".join(["CREATE TABLE IF NOT EXISTS", self._name(name), columns, "USING", self.format, *clauses])
        )

    def _name(self, name: str) -> str:
        return f"{self._prefix}.`{name}`"


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


def on_days(table: DataFrame, days: Iterable[Day]) -> DataFrame:
    """Return the rows of some days."""
    chosen = list(days)
    is_chosen = sf.col("date").isin([day for day in chosen if day is not None])
    return table.where(is_chosen | sf.col("date").isNull() if None in chosen else is_chosen)


def _is_on(days: Sequence[Day]) -> str:
    """Return the condition for rows of some days in SQL."""
    return " OR ".join("date IS NULL" if day is None else f"date = {_literal(day)}" for day in days)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _literal(day: Day) -> str:
    return "NULL" if day is None else f"DATE'{day}'"
