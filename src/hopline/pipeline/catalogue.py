"""The written tables, read without Spark: what there is, what the columns mean, and some of the rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hopline.pipeline.failures import PipelineError
from hopline.pipeline.folders import SPARK_SCHEMA, data_files, day_of, partitions

MEANINGS = {
    "messages": "one row per record that is a valid message: every header field",
    "rejects": "one row per record that is none: why, and its frames",
    "hops": "one row per transit between two nodes: time, lost, duplicate",
    "callbacks": "one row per request that named callback points, and what became of it",
    "flows": "one row per correlation id: duration, outcome, critical path",
    "handlers": "per node, actor, identity and window: count, errors, wait and run time",
    "edges": "per window, from, to and identity: count, bytes, errors, lost, transit time",
    "security": "per window, domain, node and peer: what the keys say of the messages",
    "incidents": "one row per offence, with its message",
    "skew": "per day and pair of nodes: by how much their clocks differ",
    "audit": "per node and hour: do the books hold?",
}


class NoTableError(PipelineError):
    """There is no such table, or none at all."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class WrittenTable:
    """A table as it lies on the disk."""

    name: str
    folder: Path

    @property
    def meaning(self) -> str:
        """Say what a row is."""
        return MEANINGS.get(self.name, "")

    @cached_property
    def files(self) -> list[Path]:
        """List its files."""
        return data_files(self.folder)

    @cached_property
    def rows(self) -> int:
        """Count its rows, by what its files say."""
        return sum(pq.read_metadata(file).num_rows for file in self.files)

    @cached_property
    def bytes(self) -> int:
        """Count the bytes of its files."""
        return sum(file.stat().st_size for file in self.files)

    @cached_property
    def days(self) -> list[date]:
        """List the days that it has rows of."""
        found = (day_of(folder) for folder in partitions(self.folder) if any(map(_has_rows, data_files(folder))))
        return sorted(day for day in found if day is not None)

    @cached_property
    def dataset(self) -> ds.Dataset:
        """Open it with pyarrow. The day of a partition is a date."""
        if not self.files:
            raise NoTableError(f"{self.folder}: no files in it")
        by_day = ds.partitioning(pa.schema([("date", pa.date32())]), flavor="hive")
        return ds.dataset(self.folder, format="parquet", partitioning=by_day)

    @cached_property
    def schema(self) -> pa.Schema:
        """Give its columns in the order of the documentation: the day comes first."""
        fields = {field.name: field for field in self.dataset.schema}
        return pa.schema([fields["date"], *(field for name, field in fields.items() if name != "date")])

    @property
    def columns(self) -> list[Column]:
        """List its columns with their meaning."""
        said = (pq.read_schema(self.files[0]).metadata or {}).get(SPARK_SCHEMA, b'{"fields": []}')
        meanings = {field["name"]: field["metadata"].get("comment", "") for field in json.loads(said)["fields"]}
        meanings.setdefault("date", "day, UTC; the partition")
        return [Column(field.name, _type_text(field.type), meanings.get(field.name, "")) for field in self.schema]

    def first_rows(
        self,
        columns: Sequence[str],
        where: pc.Expression | None,
        order: Sequence[tuple[str, str]],
        limit: int,
        computed: Mapping[str, pc.Expression] | None = None,
    ) -> pa.Table:
        """Give at most so many of the rows that fit, in an order; it never holds more than these and a batch.

        They may be ordered by what is `computed` of their columns as well.
        """
        if not order:
            return self.dataset.head(limit, columns=list(columns), filter=where)
        needed = {name: pc.field(name) for name in (*columns, *(name for name, _ in order))} | dict(computed or {})
        kept: pa.Table | None = None
        for batch in self.dataset.to_batches(columns=needed, filter=where):
            table = pa.Table.from_batches([batch])
            kept = table if kept is None else pa.concat_tables([kept, table])
            if kept.num_rows > limit:
                kept = kept.take(pc.select_k_unstable(kept, limit, sort_keys=list(order)))
        if kept is None:
            return self.dataset.head(0, columns=list(columns))
        return kept.sort_by(list(order)).select(list(columns))

    def rows_of(self, columns: Sequence[str], where: pc.Expression | None, limit: int) -> Iterator[dict[str, Any]]:
        """Give at most so many of the rows that fit, one by one; it never holds more than a batch."""
        for batch in self.batches(columns, where):
            yield from batch.slice(0, limit).to_pylist()
            if (limit := limit - batch.num_rows) <= 0:
                return

    def batches(self, columns: Sequence[str], where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """Give all rows that fit, a batch at a time."""
        yield from self.dataset.to_batches(columns=list(columns), filter=where)


def written_tables(out: Path) -> list[WrittenTable]:
    """List the tables in a folder, in the order of the documentation."""
    if not out.is_dir():
        raise NoTableError(f"{out}: no such folder")
    found = [WrittenTable(name, out / name) for name in MEANINGS if (out / name).is_dir()]
    if not found:
        raise NoTableError(f"{out}: no tables in it; hopline pipeline run CAPTURES --out {out} makes them")
    return found


def written_table(out: Path, name: str) -> WrittenTable:
    """Find one table in a folder."""
    found = {table.name: table for table in written_tables(out)}
    if name not in found:
        raise NoTableError(f"{out}: no table {name!r} in it; there are: {', '.join(found)}")
    return found[name]


def _has_rows(file: Path) -> bool:
    return bool(pq.read_metadata(file).num_rows)


def _type_text(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"array<{_type_text(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(field.name for field in type_)}>"
    if pa.types.is_timestamp(type_):
        return "timestamp"
    known = {"int64": "long", "int32": "int", "bool": "boolean", "date32[day]": "date", "large_string": "string"}
    return known.get(str(type_), str(type_))
