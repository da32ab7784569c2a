"""What tables there are at a location, and what their columns mean, without Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from hopline.pipeline.tables.all import TABLES
from hopline.query.files import SCHEME, TableFile
from hopline.query.sql_text import literal
from hopline.query.tables import Tables

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"  # in every file: Spark's own schema, with the comments


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class WrittenTable:
    """A table as it was written."""

    tables: Tables
    name: str

    @property
    def meaning(self) -> str:
        """Return what a row is."""
        return TABLES[self.name].meaning

    @property
    def files(self) -> list[TableFile]:
        """Return its files."""
        return self.tables.files(self.name)

    @cached_property
    def rows_by_file(self) -> dict[str, int]:
        """Return how many rows each of its files has, from their footers."""
        if not self.files:
            return {}
        footers = f"parquet_file_metadata('{SCHEME}://{self.name}/*')"
        return dict(self.tables.ask(f"select file_name, num_rows from {footers}").fetch())  # noqa: S608

    @property
    def rows(self) -> int:
        """Return how many rows it has."""
        return sum(self.rows_by_file.values())

    @property
    def bytes(self) -> int:
        """Return the size of its files."""
        return sum(file.size for file in self.files)

    @property
    def days(self) -> list[date]:
        """Return the days that it has rows of."""
        files_with_rows = [file for file in self.files if self.rows_by_file[file.uri]]
        days = {file.day for file in files_with_rows if file.day is not None}
        return sorted(days)

    @property
    def columns(self) -> list[Column]:
        """Return its columns with their meaning, which Spark wrote into every file."""
        question = f"select value from parquet_kv_metadata({literal(self.files[0].uri)}) where key = $1"  # noqa: S608
        rows = self.tables.ask(question, [_SPARK_SCHEMA]).fetch()
        fields = json.loads(rows[0][0])["fields"] if rows else []
        meanings = {field["name"]: field["metadata"].get("comment", "") for field in fields}
        meanings.setdefault("date", "day, UTC; the partition")
        columns: list[Column] = []
        for name, duckdb_type in self.tables.columns(self.name).items():
            column_type = duckdb_type.lower().replace('"', "")
            columns.append(Column(name, column_type, meanings.get(name, "")))
        return columns


def written_tables(tables: Tables) -> list[WrittenTable]:
    """Return all tables at a location, in the order of the documentation."""
    return [WrittenTable(tables, name) for name in tables.names]
