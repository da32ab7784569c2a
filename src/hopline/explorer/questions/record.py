"""One record: its row, as messages or rejects have it, and its neighbours on the same node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from hopline.explorer.parameters import Conditions
from hopline.explorer.questions.asking import Row, ask_if_there
from hopline.query.tables import Tables


@dataclass(frozen=True, slots=True)
class Record:
    """A record, and the numbers of those before and after it on its node."""

    table: str
    row: Row
    bodies: list[bytes]
    frames: list[bytes] | None  # of a reject: the table has them
    before: int | None
    after: int | None


def record(tables: Tables, node: str, seq: int, day: date | None) -> Record | None:
    """Return a record of a node by its number; None where the tables do not have it."""
    conditions = Conditions().add("node = ? and seq = ?", node, seq)
    if day is not None:
        conditions.add("date = ?", day)
    for table in ("messages", "rejects"):
        rows = ask_if_there(tables, table, f"select * from {table} where {conditions.sql} limit 1", conditions.values)  # noqa: S608
        if rows:
            row = rows[0]
            bodies: list[Any] = row.pop("bodies", None) or []
            frames = row.pop("frames", None)
            before, after = _neighbours(tables, node, seq, day)
            return Record(table, row, bodies, frames, before, after)
    return None


def _neighbours(tables: Tables, node: str, seq: int, day: date | None) -> tuple[int | None, int | None]:
    """Return the numbers of the records before and after one: those of messages, and of rejects between them."""
    conditions = Conditions().add("node = ? and seq between ? and ? and seq <> ?", node, seq - 50, seq + 50, seq)
    if day is not None:
        conditions.add("date = ?", day)
    numbers = [
        row["seq"]
        for table in ("messages", "rejects")
        for row in ask_if_there(tables, table, f"select seq from {table} where {conditions.sql}", conditions.values)  # noqa: S608
    ]
    before = max((number for number in numbers if number < seq), default=None)
    after = min((number for number in numbers if number > seq), default=None)
    return before, after
