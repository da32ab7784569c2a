"""Rows of a table as people and programs read them.

A table of rows fits a terminal of 80 columns: ids are cut to what tells them apart (see `hopline.query.short_ids`),
times to what differs among them. Rows with more columns than fit are shown as blocks of lines instead, as is asked for
with ``--vertical``; ``--wide`` shows everything in lines of any length.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hopline.cli.console import json_line, say_json
from hopline.message import printable
from hopline.pipeline.tables.findings import duration, short
from hopline.query.short_ids import id_columns, short_ids
from hopline.query.tables import Row, Tables

_SHOWN_BYTES = 16
_NARROWEST = 10  # characters of a long value in a line: with less room than that for each column, rows become blocks
_ANY_WIDTH = 100_000
_JSON_BITS = 63  # of a whole number in JSON: what is larger becomes a double
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "DOUBLE", "FLOAT", "DECIMAL")


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows are shown; at most one of these."""

    wide: bool = False
    vertical: bool = False
    json: bool = False
    csv: bool = False

    @property
    def for_programs(self) -> bool:
        """Return whether a program reads the rows."""
        return self.json or self.csv

    @property
    def is_brief(self) -> bool:
        """Return whether they are shown in a line each that fits a terminal."""
        return not (self.wide or self.vertical or self.for_programs)


@dataclass(frozen=True, slots=True)
class Shortening:
    """Cuts the ids of a table to what tells them apart in it."""

    tables: Tables
    table: str

    def __call__(self, columns: Sequence[str], rows: Sequence[Row]) -> dict[str, dict[str, str]]:
        """Return how the ids in some rows are shown, for each column that has some."""
        shown = {}
        for name in id_columns(self.tables.columns(self.table)):
            if name in columns:
                place = columns.index(name)
                values = {row[place] for row in rows if isinstance(row[place], str)}
                shown[name] = short_ids(self.tables, self.table, name, values)
        return shown


def show_rows(
    console: Console,
    columns: Sequence[str],
    types: Sequence[str],
    rows: Sequence[Row],
    layout: Layout,
    shortening: Shortening | None = None,
) -> list[str]:
    """Draw rows for people, and return what has to be said about them."""
    if not rows:
        return []
    if layout.wide:
        cells = [[cell(name, value) for name, value in zip(columns, row, strict=True)] for row in rows]
        console.width = _ANY_WIDTH
        console.print(_drawn(columns, types, cells))
        return []
    if not layout.vertical:
        brief = _Brief(columns, rows, shortening)
        cells = [brief.cells(row) for row in rows]
        if _fits(console.width, columns, cells):
            console.print(_drawn(columns, types, cells))
            return brief.notes()
    for number, row in enumerate(rows, 1):
        if len(rows) > 1:
            console.print(Text(f"── row {number:,} ", style="dim"))
        console.print(down_the_page(dict(zip(columns, row, strict=True))))
    return []


class _Brief:
    """Writes values as short as they can be told apart: ids as in `Shortening`, times without a day that all share."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Row], shortening: Shortening | None) -> None:
        self._columns = columns
        self._ids = shortening(columns, rows) if shortening else {}
        self._times = [value for row in rows for value in row if isinstance(value, datetime)]
        self._days = sorted({value.date() for value in self._times})
        self._cut = ""  # an id that was, for an example

    def cells(self, row: Row) -> list[str]:
        return [self._cell(name, value) for name, value in zip(self._columns, row, strict=True)]

    def _cell(self, name: str, value: Any) -> str:
        if isinstance(value, datetime):
            return self._time(value)
        shown = self._ids.get(name, {}).get(value) if isinstance(value, str) else None
        if shown is None:
            return cell(name, value)
        if shown != value and not self._cut:
            self._cut = shown
        return printable(shown)

    def _time(self, value: datetime) -> str:
        if len(self._days) > 1:
            return f"{value:%m-%d %H:%M:%S}"
        return f"{value:%H:%M:%S.%f}" if any(one.microsecond for one in self._times) else f"{value:%H:%M:%S}"

    def notes(self) -> list[str]:
        notes = []
        if self._days:
            days = f"of {self._days[0]}" if len(self._days) == 1 else f"from {self._days[0]} to {self._days[-1]}"
            notes.append(f"Times are UTC, {days}.")
        if self._cut:
            notes.append(f"Ids are cut: --id {self._cut} finds one, --wide shows them whole.")
        return notes


def _fits(width: int, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Return whether every column gets room for its name, and its longest value or a readable part of it."""
    longest = (max(len(row[place]) for row in cells) for place in range(len(columns)))
    needed = (max(len(name), min(size, _NARROWEST)) for name, size in zip(columns, longest, strict=True))
    return sum(needed) + 2 * (len(columns) - 1) <= width


def _drawn(columns: Sequence[str], types: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name, type_ in zip(columns, types, strict=True):
        drawn.add_column(
            Text(printable(name)), justify="right" if type_.startswith(_NUMBERS) else "left", overflow="fold"
        )
    for row in cells:
        drawn.add_row(*(Text(value) for value in row))
    return drawn


def cell(name: str, value: Any) -> str:
    """Return a value in one line; nothing in it that a terminal might obey."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S.%f}"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, bytes):
        return value.hex() if len(value) <= _SHOWN_BYTES else f"{value[:_SHOWN_BYTES].hex()}… ({len(value)} bytes)"
    if isinstance(value, list):
        between = " → " if name in ("critical_path", "routing") else ", "
        return printable(between.join(_entry(one) for one in value))
    return printable(str(value))


def _entry(value: Any) -> str:
    if isinstance(value, bytes):
        return cell("", value)
    if not isinstance(value, Mapping):
        return printable(str(value))
    if "stage" in value:  # of a critical path
        return printable(f"{value['stage']} {duration(value['us'])} at {value['node']}")
    if "uri" in value:  # a router
        return printable(f"{value['uri']}")
    if "version" in value:  # a kind of message
        partition = f"/{value['partition']}" if value["partition"] else ""
        return printable(f"{value['identity']}/{value['version']}{partition}")
    return printable(", ".join(f"{key} {one}" for key, one in value.items()))


def down_the_page(row: Mapping[str, Any]) -> RenderableType:
    """Draw one row with a line for each column, and a critical path stage by stage."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in row.items():
        if name == "critical_path" and value:
            continue
        told = cell(name, value)
        if name.endswith("_us") and isinstance(value, int) and abs(value) >= 1000:
            told = f"{told}  ({duration(value)})"
        table.add_row(name, Text(told))
    if not row.get("critical_path"):
        return table
    return Group(table, _path(row["critical_path"]))


def _path(stages: Sequence[Mapping[str, Any]]) -> Table:
    """Draw a critical path stage by stage; handlers and flows where some stage has one, and ids cut to make room."""
    named = [name for name in ("handler", "flow_id") if any(stage.get(name) for stage in stages)]
    path = Table("stage", "node", "identity", *named, title="critical path", title_justify="left")
    path.add_column("time", justify="right")
    path.add_column("share", justify="right")
    whole = sum(stage["us"] or 0 for stage in stages)
    for stage in stages:
        share = f"{100 * stage['us'] / whole:.0f}%" if whole > 0 and stage["us"] is not None else ""
        texts = (str(stage[name] or "") for name in ("stage", "node", "identity", *named))
        shown = (Text(printable(short(text) if named else text)) for text in texts)
        path.add_row(*shown, duration(stage["us"]), share)
    return path


def write_rows(columns: Sequence[str], rows: Iterable[Row], layout: Layout) -> None:
    """Write rows for a program: a JSON object a line, or CSV with a header. Bytes are hex.

    What a terminal might obey is escaped: in JSON as JSON does, so that the value is the same, in CSV as in Python.
    """
    if layout.json:
        for row in rows:
            say_json({name: _plain(value) for name, value in zip(columns, row, strict=True)})
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_flat(value) for value in row])
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, UUID | timedelta):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > _JSON_BITS:
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return value


def _flat(value: Any) -> Any:
    plain = _plain(value)
    if isinstance(plain, list | dict):
        return json_line(plain)
    # Nothing is cut here: a program reads it.
    return printable(plain, limit=None) if isinstance(plain, str) else plain
