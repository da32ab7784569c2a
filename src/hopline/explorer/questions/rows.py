"""Rows of any table, by values of its columns: what stands behind a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hopline.explorer.parameters import Conditions, ParameterError, Span
from hopline.explorer.questions.asking import Row
from hopline.message import printable
from hopline.query.sql_text import quoted
from hopline.query.tables import Tables

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
    listed = [name for name in columns if name not in _NOT_LISTED and name not in _LAST]
    listed += [name for name in _LAST if name in columns]
    time = next((name for name in _TIME_COLUMNS if name in columns), None)
    order = _order(table, columns, sort) if sort else f"{quoted(time)}" if time else "1"
    names = ", ".join(quoted(name) for name in listed)
    query = (
        f"select {names} from {quoted(table)} where {conditions.sql} "  # noqa: S608 - columns that the table has
        f"order by {order} nulls last limit {limit + 1} offset {offset}"
    )
    rows = list(tables.ask(query, conditions.values).records())
    return TableRows(table, {name: columns[name] for name in listed}, rows[:limit], len(rows) > limit)


def _conditions(table: str, columns: Mapping[str, str], equal: tuple[tuple[str, str], ...], span: Span) -> Conditions:
    conditions = Conditions()
    for name, value in equal:
        _require(table, columns, name)
        if value == NULL:
            conditions.add(f"{quoted(name)} is null")
        elif columns[name] == "BOOLEAN":
            conditions.add(quoted(name) if value == "true" else f"not {quoted(name)}")
        elif columns[name] == "VARCHAR":  # compared without a cast: so parts of files can be skipped
            conditions.add(f"{quoted(name)} = ?", value)
        else:
            conditions.add(f"{quoted(name)} = try_cast(? as {columns[name]})", value)
    time = next((name for name in _TIME_COLUMNS if name in columns), None)
    if time is not None:
        conditions.within(span, quoted(time))
    return conditions


def _order(table: str, columns: Mapping[str, str], sort: str) -> str:
    name = sort.removeprefix("-")
    _require(table, columns, name)
    return f"{quoted(name)} {'desc' if sort.startswith('-') else 'asc'}"


def _require(table: str, columns: Mapping[str, Any], name: str) -> None:
    if name not in columns:
        raise ParameterError(f"{table} has no column {printable(name)!r}; it has: {', '.join(columns)}")
