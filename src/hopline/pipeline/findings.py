"""Findings: what a table says that is worth knowing, each with the command that shows more."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hopline.pipeline.days import Days
from hopline.pipeline.sql_text import quoted

if TYPE_CHECKING:
    from hopline.pipeline.query import Tables

SHOWN = 5
_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_HARMLESS = re.compile(r"[\w .,:;=<>()'@/+-]*")


@dataclass(frozen=True, slots=True)
class Finding:
    """Some rows about one matter; `command` shows more of it."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    command: str
    is_trouble: bool = False

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        """The first of them."""
        return self.rows[:SHOWN]

    @property
    def hidden(self) -> int:
        """How many others there are."""
        return len(self.rows) - len(self.shown)


@dataclass(frozen=True, slots=True)
class Seen:
    """A table as the findings look at it."""

    tables: Tables
    table: str
    days: Days

    def rows(self, columns: str, where: str = "true", *, then: str = "") -> list[dict[str, Any]]:
        """Return columns, or what is computed of them, of the rows of these days; `then` groups, sorts and limits."""
        first = f"date >= '{self.days.first}'" if self.days.first else "true"
        last = f"date <= '{self.days.last}'" if self.days.last else "true"
        question = f"select {columns} from {quoted(self.table)} where ({where}) and {first} and {last} {then}"  # noqa: S608
        return list(self.tables.ask(question).records())

    def counts(self, *columns: str) -> list[tuple[tuple[Any, ...], int]]:
        """Count rows by the values of some columns, the most frequent first."""
        names = ", ".join(columns)
        rows = self.rows(f"{names}, count(*) as count", then=f"group by all order by count desc, {names}")
        return [(tuple(row[column] for column in columns), row["count"]) for row in rows]

    def command(self, where: str = "", order_by: str = "") -> str:
        """Write the command that shows the rows behind a finding."""
        parts = ["hopline", "tables", shlex.quote(str(self.tables.location)), self.table]
        for option, value in (("--where", where), ("--order-by", order_by)):
            if value:
                # Names off the wire stand in it: a shell must see nothing in them but text.
                parts += [option, f'"{value}"' if _HARMLESS.fullmatch(value) else shlex.quote(value)]
        return " ".join(parts)


def short(name: str | None) -> str:
    """Write enough of a name to tell it from others: the beginning, where it is a GUID. Actors have a byte before."""
    text = (name or "").lstrip("\0\1")
    return text[:8] if _GUID.fullmatch(text) else text


def number(value: int | None) -> str:
    """Write a number with commas; nothing where there is none."""
    return "" if value is None else f"{value:,}"


def duration(us: int | None) -> str:
    """Write a number of microseconds as people say it."""
    if us is None:
        return ""
    for unit, size in (("s", 1_000_000), ("ms", 1_000)):
        if abs(us) >= size:
            return f"{us / size:,.3g} {unit}" if abs(us) < 1000 * size else f"{us / size:,.0f} {unit}"
    return f"{us} µs"


def longest_stage(path: list[dict[str, Any]] | None) -> str:
    """Write what most of the time of a critical path was spent on, and where."""
    if not path:
        return ""
    worst = max(path, key=lambda stage: stage["us"] or 0)
    what = worst["handler"] or worst["identity"]
    return f"{worst['stage']} of {what} at {short(worst['node'])}, {duration(worst['us'])}"
