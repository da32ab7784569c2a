"""Whether the stream has made the same tables as the batch job.

Tables are compared as multisets of rows. Rows are compared by a hash of all compared columns, because a sort of whole
rows of some tables takes more memory than they have on disk; the rows of hashes that only one side has can be shown.
"""

# ruff: noqa: S608 - the names of tables and columns are Hopline's own

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from hopline.pipeline.tables.all import TABLES

MEMORY = "4GB"
PROVISIONAL = "provisional"  # a column of the stream alone: whether a later run of it may change the row


class Comparison(msgspec.Struct, frozen=True):
    """The rows of one table."""

    table: str
    stream: int
    batch: int
    only_stream: int
    only_batch: int
    differing_columns: tuple[str, ...] = ()  # of rows that only one side has, if they can be told
    other_columns: tuple[str, ...] = ()  # columns that only one side has, beside `PROVISIONAL`

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the same columns and rows."""
        return not (self.only_stream or self.only_batch or self.other_columns)


def compare(stream: Path, batch: Path, scratch: Path) -> list[Comparison]:
    """Compare all tables of two folders.

    Args:
        stream: The tables of the stream.
        batch: The tables of the batch job.
        scratch: A folder for what does not fit into memory.
    """
    with _database(scratch) as connection:
        return [_compare(connection, name, stream, batch) for name in TABLES]


def rows_in(tables: Path, names: Sequence[str], scratch: Path) -> int:
    """Return the number of rows of some tables together."""
    with _database(scratch) as connection:
        return sum(_open(connection, "counted", tables / name) for name in names)


@contextmanager
def _database(scratch: Path) -> Iterator[Any]:
    connection = duckdb.connect()
    try:
        connection.execute(f"set memory_limit = '{MEMORY}'")
        connection.execute("set temp_directory = $1", [str(scratch)])
        connection.execute("set timezone = 'UTC'")
        connection.execute("set preserve_insertion_order = false")
        yield connection
    finally:
        connection.close()


def _open(connection: Any, view: str, table: Path) -> int:
    """Make a view of a table, and return its number of rows. A table without files has no columns and no rows."""
    files = sorted(file for file in table.rglob("*.parquet") if not _is_hidden(file.relative_to(table)))
    if not files:
        connection.execute(f"create or replace temp view {view} as select 1 as nothing where false")
        return 0
    listed = ", ".join(f"'{file}'" for file in files)
    connection.execute(
        f"create or replace temp view {view} as select * from"
        f" read_parquet([{listed}], hive_partitioning = true, hive_types = {{'date': date}}, union_by_name = true)"
    )
    return int(connection.execute(f"select count(*) from {view}").fetchone()[0])


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _columns(connection: Any, view: str) -> list[str]:
    return [row[0] for row in connection.execute(f"describe {view}").fetchall()]


def _compare(connection: Any, name: str, stream: Path, batch: Path) -> Comparison:
    stream_rows = _open(connection, "stream", stream / name)
    batch_rows = _open(connection, "batch", batch / name)
    if not (stream_rows and batch_rows):
        return Comparison(name, stream_rows, batch_rows, stream_rows, batch_rows)
    stream_columns, batch_columns = _columns(connection, "stream"), _columns(connection, "batch")
    common = [column for column in batch_columns if column in stream_columns]
    others = set(stream_columns) ^ set(batch_columns)
    _hash(connection, common)
    (only_stream, only_batch) = connection.execute(
        "select coalesce(sum(surplus) filter (surplus > 0), 0), coalesce(-sum(surplus) filter (surplus < 0), 0)"
        " from differences"
    ).fetchone()
    return Comparison(
        name,
        stream_rows,
        batch_rows,
        int(only_stream),
        int(only_batch),
        differing_columns=_differing(connection, common) if only_stream and only_batch else (),
        other_columns=tuple(sorted(others - {PROVISIONAL})),
    )


def _hash(connection: Any, columns: Sequence[str]) -> None:
    """Make the table `differences`: the hashes of rows that one side has more often, and how much more often."""
    hashed = _hashed(columns)
    connection.execute(
        f"""
        create or replace temp table differences as
        select coalesce(stream.hash, batch.hash) as hash, coalesce(stream.rows, 0) - coalesce(batch.rows, 0) as surplus
        from (select {hashed} as hash, count(*) as rows from stream group by 1) as stream
        full join (select {hashed} as hash, count(*) as rows from batch group by 1) as batch using (hash)
        where surplus != 0
        """
    )


def _hashed(columns: Sequence[str]) -> str:
    quoted = ", ".join(f'"{column}"' for column in columns)
    return f"hash({quoted})"


def _differing(connection: Any, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns in which rows differ: without them, fewer rows would."""
    (total,) = connection.execute("select sum(abs(surplus)) from differences").fetchone()
    hashed = _hashed(columns)
    differing = []
    for side, sign in (("stream", ">"), ("batch", "<")):
        connection.execute(
            f"create or replace temp table rows_of_{side} as select * from {side}"
            f" where {hashed} in (select hash from differences where surplus {sign} 0)"
        )
    for column in columns:
        rest = _hashed([other for other in columns if other != column])
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
