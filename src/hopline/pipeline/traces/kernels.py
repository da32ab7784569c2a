"""Tables made of traces: by functions that are given whole messages, or whole flows, whoever brought them together."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from hopline.pipeline.day_files import DayFiles
from hopline.pipeline.row_files import ParquetFile
from hopline.pipeline.traces.columns import NEEDED, TRACES, Flags, Longs, plain_field, traces_of
from hopline.pipeline.traces.drawers import FEWEST, Chest, Drawers

ROWS_AT_ONCE = 50_000  # there are some hundred steps to take, however few rows there are
TASKS = 32
MOST_ROWS = 800_000  # that are looked at together where they can be divided


@dataclass(frozen=True, slots=True)
class Kernel:
    """What is done to traces, and what of them it needs.

    `together` is the column that tells which rows it must see together: `message_id`, or `flow` or `ask`, where 0 is
    none. `keep` tells the rows that it needs at all, and `flows` which flows it is about, if not all. `shrink` leaves
    out rows that make no difference, also when it is done again with more rows beside; where there is none, a group of
    rows has to fit into memory.
    """

    columns: tuple[str, ...]
    schema: pa.Schema
    work: Callable[[pa.Table], pa.Table]
    together: str = "message_id"
    keep: Callable[[pa.Table], Flags] | None = None
    shrink: Callable[[pa.Table], pa.Table] | None = None
    flows: Longs | None = None

    def needs(self) -> tuple[str, ...]:
        """List its columns, and those by which rows are chosen and come together."""
        chosen_by = () if self.flows is None else ("flow",)
        return tuple(dict.fromkeys((*self.columns, *chosen_by, self.together)))

    def relevant(self, rows: pa.Table) -> pa.Table:
        """Leave out what it does not need."""
        needed = np.ones(len(rows), np.bool_) if self.keep is None else self.keep(rows)
        if self.together != "message_id":
            needed &= rows[self.together].to_numpy() != 0
        if self.flows is not None:
            needed &= np.isin(rows["flow"].to_numpy(), self.flows)
        return rows if needed.all() else rows.filter(pa.array(needed))

    def run(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Do it to rows that are whole."""
        if rows.num_rows:
            made = self.work(rows.unify_dictionaries().combine_chunks())
            yield from made.select(self.schema.names).cast(self.schema).to_batches()


class Traces(Protocol):
    """Traces, wherever they are."""

    def made_by(self, kernel: Kernel) -> DataFrame:
        """Give what a kernel makes of them."""


@dataclass(frozen=True, slots=True)
class TracesInFiles:
    """Traces that were written down when the messages were read: nothing has to be moved."""

    spark: SparkSession
    chest: Chest

    def made_by(self, kernel: Kernel) -> DataFrame:
        """Give what a kernel makes of them: a task for some drawers."""
        made_of = partial(_made_of, self.chest, kernel)
        return self._places(kernel).mapInArrow(made_of, from_arrow_schema(kernel.schema))

    def write(self, kernel: Kernel, folder: Path) -> None:
        """Write what a kernel makes of them, from where it is made."""
        self._write(kernel, folder, lambda name: ParquetFile(folder / name, kernel.schema))

    def write_by_day(self, kernel: Kernel, folder: Path, schema: pa.Schema) -> None:
        """Write a table that a kernel makes of them, by day; `schema` is what its files have."""
        self._write(kernel, folder, lambda name: DayFiles(folder, name, schema))

    def _write(self, kernel: Kernel, folder: Path, opened: Callable[[str], ParquetFile | DayFiles]) -> None:
        folder.mkdir(parents=True)
        chest = self.chest

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            name = f"part-{uuid.uuid4()}"
            files = opened(name)
            for made in _made_of(chest, kernel, batches):
                files.add(pa.Table.from_batches([made]))
            files.close()
            yield pa.record_batch({"file": [name]})

        # A task may have been tried more often than once: what the others wrote does not count.
        written = {row.file for row in self._places(kernel).mapInArrow(work, "file string").collect()}
        for file in folder.rglob("part-*"):
            if file.stem not in written:
                file.unlink()

    def _places(self, kernel: Kernel) -> DataFrame:
        """Count the drawers that a kernel needs, in as many tasks as are good."""
        count = len(_drawers_for(kernel, self.chest))
        # Of few records, a table is to have one file a day.
        return self.spark.range(0, count, 1, 1 if count <= FEWEST else min(count, TASKS))


def _drawers_for(kernel: Kernel, chest: Chest) -> list[int]:
    """List the drawers that a kernel needs."""
    if kernel.flows is None:
        return list(range(chest.drawers))
    needed: list[int] = np.unique(chest.drawers_of(kernel.flows)).tolist()
    return needed


def _made_of(chest: Chest, kernel: Kernel, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    needed = _drawers_for(kernel, chest)
    with chest.opened(kernel.needs()) as drawers:
        for batch in batches:
            for place in batch.column("id").to_pylist():
                for rows in divided(drawers, needed[place], kernel):
                    yield from kernel.run(rows)


def divided(drawers: Drawers, drawer: int, kernel: Kernel) -> Iterator[pa.Table]:
    """Give the rows of a drawer, in parts where they are many."""
    parts = 1 if kernel.shrink is not None else -(-drawers.rows(drawer) // MOST_ROWS)
    for part in range(parts):
        gathered = [TRACES.empty_table().select(list(kernel.needs()))]
        for _, rows in drawers.read(drawer):
            needed = kernel.relevant(rows)
            if parts > 1:
                key = needed[kernel.together].to_numpy().view(np.uint64)
                needed = needed.filter(pa.array((key >> np.uint64(32)) % np.uint64(parts) == part))
            gathered.append(needed)
            if kernel.shrink is not None and sum(map(len, gathered)) > MOST_ROWS:
                gathered = [kernel.shrink(_together(gathered))]
        yield _together(gathered)


def _together(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


@dataclass(frozen=True, slots=True)
class TracesOfMessages:
    """Traces of any table of messages: read off them when they are asked for, and brought together by Spark."""

    messages: DataFrame

    def made_by(self, kernel: Kernel) -> DataFrame:
        """Give what a kernel makes of them."""
        names = list(kernel.needs())
        schema = pa.schema([plain_field(TRACES.field(name)) for name in names])

        def trace(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                traces = kernel.relevant(traces_of(batch).select(names))
                yield from traces.cast(schema).to_batches()

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for rows in whole(batches, kernel):
                yield from kernel.run(encoded(rows))

        return (
            self.messages.select(*NEEDED)
            .mapInArrow(trace, from_arrow_schema(schema))
            .repartition(sf.col(kernel.together))
            .sortWithinPartitions(kernel.together)
            .mapInArrow(work, from_arrow_schema(kernel.schema))
        )


def encoded(rows: pa.Table) -> pa.Table:
    """Give traces that Spark brought the types that they have in files."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_dictionary(TRACES.field(field.name).type):
            rows = rows.set_column(at, field.name, rows[field.name].combine_chunks().dictionary_encode())
    return rows


def whole(batches: Iterator[pa.RecordBatch], kernel: Kernel) -> Iterator[pa.Table]:
    """Put batches of sorted rows together, and cut them where one group ends and the next begins."""
    waiting: list[pa.Table] = []
    enough = ROWS_AT_ONCE
    for batch in batches:
        waiting.append(pa.Table.from_batches([batch]))
        if sum(map(len, waiting)) < enough:
            continue
        rows = pa.concat_tables(waiting)
        key = rows[kernel.together].to_numpy()
        begin = int(np.searchsorted(key, key[-1]))
        if begin:
            yield rows.slice(0, begin)
        last = rows.slice(begin)
        if kernel.shrink is not None and len(last) >= enough:
            last = kernel.shrink(encoded(last.combine_chunks())).cast(rows.schema)
        waiting = [last.combine_chunks()]
        enough = max(ROWS_AT_ONCE, 2 * len(last))
    if waiting:
        yield pa.concat_tables(waiting)
