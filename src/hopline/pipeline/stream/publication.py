"""What a batch writes: aside first, and when all of it is there, moved to the tables at once.

The files of a batch lie in folders of their own, below those of the days: `flows/date=2026-01-31/stream-000000017/`. So
they can be replaced when the batch is repeated, and a run over the day replaces them with all else that the day has.
Rows that are written again with every batch lie in `stream-provisional`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date

from pyspark.sql import DataFrame, SparkSession

from hopline.pipeline.abandoned import partition_of
from hopline.pipeline.days import FOLDER
from hopline.pipeline.storage import PathTables
from hopline.pipeline.stream.hadoop_files import HadoopFiles
from hopline.pipeline.stream.state import STREAM, batch_name
from hopline.pipeline.tables.all import TABLES

PROVISIONAL_ROWS = "stream-provisional"
_FINAL, _PROVISIONAL = f"{STREAM}/staged/final", f"{STREAM}/staged/provisional"
_REWRITTEN = ("handlers", "edges", "security", "skew", "audit")


class Publication:
    """The files of a batch, on their way to the tables."""

    def __init__(self, spark: SparkSession, files: HadoopFiles, tables: PathTables) -> None:
        self._files = files
        self._tables = tables
        self._final = PathTables(spark, files.full(_FINAL), "parquet")
        self._provisional = PathTables(spark, files.full(_PROVISIONAL), "parquet")

    def begin(self, batch: int, days: Iterable[str]) -> None:
        """Remove what an attempt of this batch has left that did not come to its end.

        Args:
            batch: The number of the batch.
            days: The days that it may have written to, as folders of partitions; see `days_with_rows`.
        """
        self._files.delete(f"{STREAM}/staged")
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
        return self._final.replace(name, rows, ())

    def write_provisional(self, name: str, rows: DataFrame) -> None:
        """Write rows aside that take the place of those which the batch before has written."""
        self._provisional.replace(name, rows, ())

    def read(self, name: str) -> DataFrame:
        """Return the rows of a table that this batch has written aside."""
        return self._final.read(name)

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
        for staged, folder in ((_PROVISIONAL, PROVISIONAL_ROWS), (_FINAL, _folder_of(batch))):
            for table in self._files.names(staged):
                for day in self._days(f"{staged}/{table}"):
                    self._files.replace(f"{table}/{day}/{folder}", by=f"{staged}/{table}/{day}")
        self._files.delete(f"{STREAM}/staged")

    def _days(self, table: str) -> list[str]:
        return [name for name in self._files.names(table) if name.startswith(FOLDER)]


def _folder_of(batch: int) -> str:
    return f"stream-{batch_name(batch)}"
