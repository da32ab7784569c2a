"""How questions read the tables: columns are checked first, values are bound, rows are dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from hopline.explorer.contract import check
from hopline.query.tables import Tables

Row = dict[str, Any]

_checked: WeakKeyDictionary[Tables, set[str]] = WeakKeyDictionary()


def has(tables: Tables, name: str) -> bool:
    """Return whether there is a table with files."""
    return name in tables.names and bool(tables.files(name))


def ask(
    tables: Tables,
    name: str,
    sql: str,
    values: Sequence[Any] = (),
) -> list[Row]:
    """Return the rows of a query over a table.

    Args:
        tables: The tables.
        name: The table of the query, whose columns are checked once.
        sql: The query, with ``?`` for each value.
        values: The values.

    Raises:
        NoTableError: There is no such table.
        ContractError: The table does not have the columns that the explorer needs.
        StorageError: The files of the table cannot be read.

    """
    tables.require(name)
    checked = _checked.setdefault(tables, set())
    if name not in checked:
        check(tables, name)
        checked.add(name)
    answer = tables.ask(sql, values)
    return list(answer.records())


def ask_if_there(
    tables: Tables,
    name: str,
    sql: str,
    values: Sequence[Any] = (),
) -> list[Row]:
    """Return the rows of a query over a table, or none if there is no such table."""
    if not has(tables, name):
        return []
    return ask(tables, name, sql, values)
