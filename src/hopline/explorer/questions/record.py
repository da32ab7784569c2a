"""One record: its row, as messages or rejects have it, and its neighbours on the same node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from hopline.explorer.parameters import Conditions
from hopline.explorer.questions.asking import Row, ask_if_there
from hopline.query.tables import Tables

_TABLES = ("messages", "rejects")
_REACH = 50  # numbers among which the neighbours of a record are looked for


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
    for table in _TABLES:
        query = f"select * from {table} where {conditions.sql} limit 1"  # noqa: S608 - bound values
        rows = ask_if_there(tables, table, query, conditions.values)
        if rows:
            row = rows[0]
            bodies = row.pop("bodies", None)
            frames = row.pop("frames", None)
            before, after = _neighbours(tables, node, seq, day)
            return Record(
                table=table,
                row=row,
                bodies=bodies or [],
                frames=frames,
                before=before,
                after=after,
            )
    return None


def _neighbours(tables: Tables, node: str, seq: int, day: date | None) -> tuple[int | None, int | None]:
    """Return the numbers of the records before and after one: those of messages, and of rejects between them."""
    conditions = Conditions().add("node = ? and seq <> ?", node, seq)
    conditions.add("seq between ? and ?", seq - _REACH, seq + _REACH)
    if day is not None:
        conditions.add("date = ?", day)
    before: list[int] = []
    after: list[int] = []
    for table in _TABLES:
        query = f"select seq from {table} where {conditions.sql}"  # noqa: S608 - bound values
        for row in ask_if_there(tables, table, query, conditions.values):
            number = row["seq"]
            side = before if number < seq else after
            side.append(number)
    return max(before, default=None), min(after, default=None)
