"""Whether two folders have the same tables: those of a stream, and those of the batch job over the same captures.

>>> from pathlib import Path
>>> from hopline.query.comparison import compare_tables
>>> for table in compare_tables(Path("tables"), Path("tables-of-batch")):  # doctest: +SKIP
...     print(table)

Tables are compared as multisets of rows: neither their order nor the files in which they lie matter. Rows are compared
by a hash of all their columns, because a sort of whole rows takes more memory than some tables have on disk. Of rows
that only one side has, the columns in which they differ are found, and some are kept as examples.
"""

# ruff: noqa: S608 - the names of tables and columns are Hopline's own

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from hopline.display.frames import plural
from hopline.pipeline.tables.all import TABLES
from hopline.pipeline.tables.table import PROVISIONAL
from hopline.query.files import LocalStorage, list_files
from hopline.query.sql_text import literal, quoted

_MEMORY = "4GB"
_MOST_EXAMPLES = 3  # of each side
_LONGEST_EXAMPLE = 400  # characters


class TableComparison(msgspec.Struct, frozen=True):
    """How the rows of one table in the stream's folder compare with those in the batch job's."""

    table: str
    stream: int  # rows
    batch: int
    only_stream: int
    only_batch: int
    differing_columns: tuple[str, ...] = ()  # of rows that only one side has, if they can be told
    other_columns: tuple[str, ...] = ()  # columns that only one side has
    examples: tuple[str, ...] = ()  # some rows that only one side has

    @property
    def is_equal(self) -> bool:
        """Return whether both sides have the same columns and rows."""
        return not (self.only_stream or self.only_batch or self.other_columns)

    def __str__(self) -> str:
        if self.is_equal:
            return f"{self.table}: {plural(self.batch, 'row')}, equal"
        rows = plural(self.only_stream, "row")
        text = f"{self.table}: {rows} only of the stream, {self.only_batch:,} only of the batch job"
        if self.differing_columns:
            text += f"; they differ in {', '.join(self.differing_columns)}"
        if self.other_columns:
            text += f"; other columns: {', '.join(self.other_columns)}"
        return text


def compare_tables(
    stream: Path, batch: Path, ignored: Collection[str] = (), scratch: Path | None = None
) -> list[TableComparison]:
    """Compare all tables of two folders.

    Args:
        stream: The folder with the tables of the stream.
        batch: The folder with the tables of the batch job.
        ignored: Columns that may differ, beside `provisional`, which says whether the stream may still replace a row.
        scratch: A folder for what does not fit into memory; a temporary one if there is none.

    Returns:
        A comparison for each table, in the order of the documentation. A table that is not there has no rows.
    """
    with _database(scratch) as connection:
        return [_compare(connection, name, stream, batch, {*ignored, PROVISIONAL}) for name in TABLES]


@contextmanager
def _database(scratch: Path | None) -> Iterator[Any]:
    with tempfile.TemporaryDirectory(prefix="comparison-", dir=scratch) as folder, duckdb.connect() as connection:
        connection.execute(f"set memory_limit = {literal(_MEMORY)}")
        connection.execute(f"set temp_directory = {literal(folder)}")
        connection.execute("set timezone = 'UTC'")
        connection.execute("set preserve_insertion_order = false")
        yield connection


def _compare(connection: Any, name: str, stream: Path, batch: Path, ignored: Collection[str]) -> TableComparison:
    stream_rows = _open(connection, "stream", stream, name)
    batch_rows = _open(connection, "batch", batch, name)
    if not (stream_rows and batch_rows):
        return TableComparison(name, stream_rows, batch_rows, stream_rows, batch_rows)
    stream_columns, batch_columns = _columns(connection, "stream"), _columns(connection, "batch")
    others = set(stream_columns) ^ set(batch_columns)
    common = [column for column in batch_columns if column in stream_columns and column not in ignored]
    only_stream, only_batch = _count_surplus(connection, common)
    return TableComparison(
        name,
        stream_rows,
        batch_rows,
        only_stream,
        only_batch,
        differing_columns=_differing(connection, common) if only_stream and only_batch else (),
        other_columns=tuple(sorted(others - set(ignored))),
        examples=_examples(connection, common) if only_stream or only_batch else (),
    )


def _open(connection: Any, view: str, folder: Path, table: str) -> int:
    """Make a view of a table, and return its number of rows. A table without files has no columns and no rows."""
    files = list_files(folder, LocalStorage(folder), table)
    if not files:
        connection.execute(f"create or replace temp view {view} as select 1 as nothing where false")
        return 0
    paths = ", ".join(literal(str(folder / file.path)) for file in files)
    connection.execute(
        f"create or replace temp view {view} as select * from"
        f" read_parquet([{paths}], hive_partitioning = true, hive_types = {{'date': date}}, union_by_name = true)"
    )
    return int(connection.execute(f"select count(*) from {view}").fetchone()[0])


def _columns(connection: Any, view: str) -> list[str]:
    return [row[0] for row in connection.execute(f"describe {view}").fetchall()]


def _hash_of(columns: Sequence[str]) -> str:
    names = ", ".join(map(quoted, columns))
    return f"hash({names})"


def _count_surplus(connection: Any, columns: Sequence[str]) -> tuple[int, int]:
    """Return how many rows only the stream has, and only the batch job.

    Leave the table `surplus`: the hash of each row that one side has more often, and how much more often (below zero:
    the batch job).
    """
    hashed = _hash_of(columns)
    connection.execute(
        f"""
        create or replace temp table surplus as
        select coalesce(stream.hash, batch.hash) as hash, coalesce(stream.rows, 0) - coalesce(batch.rows, 0) as rows
        from (select {hashed} as hash, count(*) as rows from stream group by 1) as stream
        full join (select {hashed} as hash, count(*) as rows from batch group by 1) as batch using (hash)
        where coalesce(stream.rows, 0) != coalesce(batch.rows, 0)
        """
    )
    only_stream, only_batch = connection.execute(
        "select coalesce(sum(rows) filter (rows > 0), 0), coalesce(-sum(rows) filter (rows < 0), 0) from surplus"
    ).fetchone()
    return int(only_stream), int(only_batch)


def _rows_only_of(side: str, columns: Sequence[str]) -> str:
    """Return the query of the rows that one side has more often, each as often as it occurs there."""
    sign = ">" if side == "stream" else "<"
    return f"select * from {side} where {_hash_of(columns)} in (select hash from surplus where rows {sign} 0)"


def _differing(connection: Any, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns in which rows differ: without them, fewer rows would."""
    (total,) = connection.execute("select sum(abs(rows)) from surplus").fetchone()
    for side in ("stream", "batch"):
        connection.execute(f"create or replace temp table rows_of_{side} as {_rows_only_of(side, columns)}")
    differing = []
    for column in columns:
        rest = _hash_of([other for other in columns if other != column])
        (left,) = connection.execute(
            f"""
            select coalesce(sum(abs(coalesce(stream.rows, 0) - coalesce(batch.rows, 0))), 0)
            from (select {rest} as hash, count(*) as rows from rows_of_stream group by 1) as stream
            full join (select {rest} as hash, count(*) as rows from rows_of_batch group by 1) as batch using (hash)
            """
        ).fetchone()
        if left < total:
            differing.append(column)
    return tuple(differing)


def _examples(connection: Any, columns: Sequence[str]) -> tuple[str, ...]:
    names = ", ".join(map(quoted, columns))
    examples: list[str] = []
    for side in ("stream", "batch"):
        rows = connection.execute(
            f"""
            select left(cast(example as varchar), {_LONGEST_EXAMPLE})
            from (select {names} from ({_rows_only_of(side, columns)})) as example
            order by 1
            limit {_MOST_EXAMPLES}
            """
        ).fetchall()
        examples += [f"{side}: {text}" for (text,) in rows]
    return tuple(examples)
