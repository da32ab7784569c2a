"""What a batch writes: aside first, and when all of it is there, moved to the tables at once.

The files of a batch lie in folders of their own, below those of the days: `flows/date=2026-01-31/stream-000000017/`. So
they can be replaced when the batch is repeated, and a run over the day replaces them with all else that the day has.
Rows that are written again with every batch lie in `stream-provisional`.

Aside, the rows of a table lie in `_stream/staged/<table>/rows=<final or provisional>/<day>/`: one query writes a table
of which some rows are final and others are not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from hopline.pipeline.abandoned import partition_of
from hopline.pipeline.days import FOLDER
from hopline.pipeline.spark_work import exactly
from hopline.pipeline.storage import PathTables, documented
from hopline.pipeline.stream.hadoop_files import HadoopFiles
from hopline.pipeline.stream.state import STREAM, batch_name
from hopline.pipeline.tables.all import TABLES
from hopline.pipeline.tables.table import PROVISIONAL

PROVISIONAL_ROWS = "stream-provisional"
_STAGED = f"{STREAM}/staged"
_ROWS = "rows"
_FINAL, _PROVISIONAL = "final", "provisional"
_REWRITTEN = ("handlers", "edges", "security", "skew", "audit")


class Publication:
    """The files of a batch, on their way to the tables."""

    def __init__(self, spark: SparkSession, files: HadoopFiles, tables: PathTables) -> None:
        self._spark = spark
        self._files = files
        self._tables = tables

    def begin(self, batch: int, days: Iterable[str]) -> None:
        """Remove what an attempt of this batch has left that did not come to its end.

        Args:
            batch: The number of the batch.
            days: The days that it may have written to, as folders of partitions; see `days_with_rows`.
        """
        self._files.delete(_STAGED)
        for day in days:
            for table in TABLES:
                self._files.delete(f"{table}/{day}/{_folder_of(batch)}")

    def make_missing_tables(self, day: date) -> None:
        """Write a file without rows for each table that has none, so that all of them can be read.

        Args:
            day: The day on which the files are.
        """
        for table in TABLES:
            if not self._days(table):
                self._tables.write_no_rows(table, day)

    def days_with_rows(self) -> list[str]:
        """Return the folders of all days that have rows in some table."""
        return sorted({day for table in TABLES for day in self._days(table)})

    def write(self, name: str, rows: DataFrame) -> int:
        """Write rows of a table aside, and return how many there are."""
        return self._stage(name, rows, sf.lit(_FINAL))

    def write_by_mark(self, name: str, rows: DataFrame) -> int:
        """Write rows aside and return their number. Those marked as provisional replace those of the last batch."""
        return self._stage(name, rows, sf.when(sf.col(PROVISIONAL), _PROVISIONAL).otherwise(_FINAL))

    def read(self, name: str) -> DataFrame:
        """Return the rows of a table that this batch has written aside by `write`."""
        schema = StructType([*TABLES[name].schema, StructField(_ROWS, StringType())])
        staged = self._spark.read.schema(schema).parquet(exactly(self._files.full(f"{_STAGED}/{name}")))
        return staged.where(sf.col(_ROWS) == _FINAL).drop(_ROWS)

    def publish(self, batch: int, days: Collection[date]) -> None:
        """Move all that was written aside to the tables.

        Args:
            batch: The number of the batch.
            days: The days of which provisional rows may be replaced.
        """
        rewritten = [partition_of(day) for day in days]
        for table in _REWRITTEN:
            for day in rewritten:
                self._files.delete(f"{table}/{day}/{PROVISIONAL_ROWS}")
        for table in self._files.names(_STAGED):
            for kind, folder in ((_PROVISIONAL, PROVISIONAL_ROWS), (_FINAL, _folder_of(batch))):
                staged = f"{_STAGED}/{table}/{_ROWS}={kind}"
                for day in self._days(staged):
                    self._files.replace(f"{table}/{day}/{folder}", by=f"{staged}/{day}")
        self._files.delete(_STAGED)

    def _stage(self, name: str, rows: DataFrame, kind: Column) -> int:
        seen = Observation()
        counted = documented(rows, name).withColumn(_ROWS, kind).observe(seen, sf.count("*").alias("count"))
        # Nothing lies there: what an attempt that was interrupted has left was removed when the batch began.
        writer = counted.write.mode("overwrite").option("partitionOverwriteMode", "static").partitionBy(_ROWS, "date")
        writer.options(**self._tables.options_of(name)).parquet(self._files.full(f"{_STAGED}/{name}"))
        return int(seen.get["count"])

    def _days(self, table: str) -> list[str]:
        return [name for name in self._files.names(table) if name.startswith(FOLDER)]


def _folder_of(batch: int) -> str:
    return f"stream-{batch_name(batch)}"
