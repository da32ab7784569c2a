"""Findings: what a table says that is worth knowing, each with the command that shows more."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hopline.pipeline.days import Days

SHOWN = 5
_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_GUID_SHOWN = 8  # characters
_SECOND_US = 1_000_000
_MILLISECOND_US = 1_000
_HARMLESS = re.compile(r"[\w .,:;=<>()'@/+-]*")


@dataclass(frozen=True, slots=True)
class Finding:
    """Some rows about one subject, as text; `command` shows more about it."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    command: str
    is_trouble: bool = False

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        """Return the rows that a summary shows: the first ones."""
        return self.rows[:SHOWN]

    @property
    def hidden(self) -> int:
        """Return how many rows a summary does not show."""
        return len(self.rows) - len(self.shown)


class Answer(Protocol):
    """The answer to a question in SQL."""

    def records(self) -> Iterable[dict[str, Any]]:
        """Return its rows, by the names of their columns."""


class WrittenTables(Protocol):
    """The tables at a location, which `hopline.query` opens."""

    @property
    def location(self) -> str | Path:
        """Return where they lie."""

    def ask(self, question: str) -> Answer:
        """Answer a question in SQL."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A table, limited to the days that findings are about."""

    tables: WrittenTables
    table: str
    days: Days

    def rows(self, columns: str, where: str = "true", *, then: str = "") -> list[dict[str, Any]]:
        """Return columns, or what is computed of them, of the rows of these days.

        Args:
            columns: What to select, in SQL.
            where: A condition on the rows, in SQL.
            then: The clauses behind the condition, which group, sort and limit.
        """
        conditions = [f"({where})"]
        if self.days.first:
            conditions.append(f"date >= '{self.days.first}'")
        if self.days.last:
            conditions.append(f"date <= '{self.days.last}'")
        condition = " and ".join(conditions)
        query = f'select {columns} from "{self.table}" where {condition} {then}'  # noqa: S608 - our own columns
        answer = self.tables.ask(query)
        return list(answer.records())

    def counts(self, *columns: str, where: str = "true") -> list[tuple[tuple[Any, ...], int]]:
        """Return how many rows have each combination of values in some columns, the most frequent first.

        Args:
            columns: The columns.
            where: A condition on the rows, in SQL.
        """
        names = ", ".join(columns)
        most_frequent_first = f"group by all order by count desc, {names}"
        counts = []
        rows = self.rows(f"{names}, count(*) as count", where, then=most_frequent_first)
        for row in rows:
            values = tuple(row[column] for column in columns)
            counts.append((values, row["count"]))
        return counts

    def command(self, where: str = "", order_by: str = "") -> str:
        """Return the command that shows the rows behind a finding."""
        location = shlex.quote(str(self.tables.location))
        words = ["hopline", "tables", location, self.table]
        if where:
            words += ["--where", _quoted_for_shell(where)]
        if order_by:
            words += ["--order-by", _quoted_for_shell(order_by)]
        return " ".join(words)


def _quoted_for_shell(value: str) -> str:
    """Return a value of an option. Names off the wire may stand in it: a shell must see nothing in them but text."""
    if _HARMLESS.fullmatch(value):
        return f'"{value}"'
    return shlex.quote(value)


def short(name: str | None) -> str:
    """Return enough of a name to tell it from others: the beginning of a GUID, any other name as it is."""
    if name is None:
        return ""
    text = name.lstrip("\0\1")  # which the identities of hubs and actors begin with
    if _GUID.fullmatch(text):
        return text[:_GUID_SHOWN]
    return text


def number(value: int | None) -> str:
    """Return a number with commas; nothing where there is none."""
    if value is None:
        return ""
    return f"{value:,}"


def duration(us: int | None) -> str:
    """Return microseconds as text in the largest unit that fits, rounded to three digits; nothing for None."""
    if us is None:
        return ""
    if abs(us) >= _SECOND_US:
        return _three_digits(us / _SECOND_US, "s")
    if abs(us) >= _MILLISECOND_US:
        return _three_digits(us / _MILLISECOND_US, "ms")
    return f"{us} µs"


def _three_digits(value: float, unit: str) -> str:
    if abs(value) < 1_000:
        return f"{value:,.3g} {unit}"
    return f"{value:,.0f} {unit}"


def longest_stage(path: list[dict[str, Any]] | None) -> str:
    """Return what most of the time of a critical path was spent on, and where."""
    if not path:
        return ""
    longest = max(path, key=lambda stage: stage["us"] or 0)
    what = longest["handler"] or longest["identity"]
    node = short(longest["node"])
    time = duration(longest["us"])
    return f"{longest['stage']} of {what} at {node}, {time}"
