"""The rows of written tables, to be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hopline.query.tables import open_tables

Rows = dict[str, list[dict[str, Any]]]


def contents(tables: Path | str) -> Rows:
    """Read all tables of a folder, rows in an order of their own."""
    with open_tables(tables) as opened:
        return {name: in_order(opened.ask(f"from {name}").records()) for name in opened.names}


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in an order that does not depend on where they lie, and columns in that of their names."""
    return sorted((dict(sorted(row.items())) for row in rows), key=repr)
