"""Rows of any table, by values of its columns: the rows from which a figure was computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hopline.explorer.parameters import Conditions, ParameterError, Span
from hopline.explorer.questions.asking import Row
from hopline.message import printable
from hopline.query.sql_text import quoted
from hopline.query.tables import Tables

Columns = Mapping[str, str]  # names and types

NULL = "-"  # as a value in an address: rows without one
_TIME_COLUMNS = ("ts", "start_ts", "asked_ts", "window_start", "hour", "sent_ts")
_NOT_LISTED = {"bodies", "frames", "critical_path", "signature"}  # too large for a list
_LAST = ("date", "message_id", "fingerprint", "segment", "node_uri")  # least interesting


@dataclass(frozen=True, slots=True)
class TableRows:
    """Some rows of a table."""

    table: str
    columns: dict[str, str]  # with their types
    rows: list[Row]
    has_more: bool


def table_rows(
    tables: Tables,
    table: str,
    equal: tuple[tuple[str, str], ...],
    span: Span,
    sort: str,
    limit: int,
    offset: int,
) -> TableRows:
    """Return rows of a table.

    Args:
        tables: The tables.
        table: Which of them.
        equal: Columns and the values that rows must have there, as text; ``-`` for none.
        span: The time that rows must be of.
        sort: A column to sort by, with ``-`` before it for the largest first.
        limit: How many rows.
        offset: How many rows before these.

    Raises:
        NoTableError: There is no such table.
        ParameterError: It has no such column.

    """
    tables.require(table)
    columns = tables.columns(table)
    conditions = _conditions(table, columns, equal, span)
    listed = _listed(columns)
    order = _order(table, columns, sort)
    names = ", ".join(quoted(name) for name in listed)
    query = (
        f"select {names} from {quoted(table)} where {conditions.sql} "  # noqa: S608 - columns that the table has
        f"order by {order} nulls last limit {limit + 1} offset {offset}"
    )
    answer = tables.ask(query, conditions.values)
    rows = list(answer.records())
    return TableRows(
        table=table,
        columns={name: columns[name] for name in listed},
        rows=rows[:limit],
        has_more=len(rows) > limit,
    )


def _listed(columns: Columns) -> list[str]:
    """Return the names of the columns to show, the least interesting ones last."""
    hidden = _NOT_LISTED.union(_LAST)
    listed = [name for name in columns if name not in hidden]
    listed += [name for name in _LAST if name in columns]
    return listed


def _time_column(columns: Columns) -> str | None:
    for name in _TIME_COLUMNS:
        if name in columns:
            return name
    return None


def _conditions(table: str, columns: Columns, equal: tuple[tuple[str, str], ...], span: Span) -> Conditions:
    conditions = Conditions()
    for name, value in equal:
        _require(table, columns, name)
        column = quoted(name)
        column_type = columns[name]
        if value == NULL:
            conditions.add(f"{column} is null")
        elif column_type == "BOOLEAN":
            conditions.add(column if value == "true" else f"not {column}")
        elif column_type == "VARCHAR":  # compared without a cast: so parts of files can be skipped
            conditions.add(f"{column} = ?", value)
        else:
            conditions.add(f"{column} = try_cast(? as {column_type})", value)
    time = _time_column(columns)
    if time is not None:
        conditions.within(span, quoted(time))
    return conditions


def _order(table: str, columns: Columns, sort: str) -> str:
    """Return the SQL of an order: that of a parameter, else by time, else by the first column."""
    if not sort:
        time = _time_column(columns)
        return "1" if time is None else quoted(time)
    name = sort.removeprefix("-")
    _require(table, columns, name)
    direction = "desc" if sort.startswith("-") else "asc"
    return f"{quoted(name)} {direction}"


def _require(table: str, columns: Columns, name: str) -> None:
    if name not in columns:
        names = ", ".join(columns)
        raise ParameterError(f"{table} has no column {printable(name)!r}; it has: {names}")
