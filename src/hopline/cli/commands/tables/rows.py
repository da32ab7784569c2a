"""Rows of a table, printed for people or written for programs.

For people, rows fit the terminal: ids are shortened to a unique beginning (see `hopline.query.short_ids`), and times to
the parts in which they differ. Rows with more columns than fit are shown as blocks, one line per column, as with
``--vertical``. ``--wide`` shows everything in lines of any length.
"""

from __future__ import annotations

import csv
import itertools
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

from hopline.cli.terminal import json_line, write_json
from hopline.message import printable
from hopline.pipeline.tables.findings import duration, short
from hopline.query.short_ids import id_columns, short_ids
from hopline.query.tables import Row, Tables

_SHOWN_BYTES = 16
_LEAST_WIDTH = 10  # characters of a column with long values; where they do not fit, rows become blocks
_ANY_WIDTH = 100_000
_JSON_BITS = 63  # of a whole number in JSON; larger ones become doubles
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "DOUBLE", "FLOAT", "DECIMAL")


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows are shown: at most one of these, or brief by default."""

    wide: bool = False
    vertical: bool = False
    json: bool = False
    csv: bool = False

    @property
    def for_programs(self) -> bool:
        """Return whether rows are written for programs."""
        return self.json or self.csv

    @property
    def is_brief(self) -> bool:
        """Return whether each row is shown in one line that fits the terminal."""
        return not (self.wide or self.vertical or self.for_programs)


@dataclass(frozen=True, slots=True)
class Shortening:
    """Shortens the ids of a table to beginnings that are unique in it."""

    tables: Tables
    table: str

    def __call__(self, columns: Sequence[str], rows: Sequence[Row]) -> dict[str, dict[str, str]]:
        """Return the short form of every id in some rows, by column."""
        shortened = {}
        for name in id_columns(self.tables.columns(self.table)):
            if name not in columns:
                continue
            index = columns.index(name)
            values = [row[index] for row in rows]
            ids = {value for value in values if isinstance(value, str)}
            shortened[name] = short_ids(self.tables, self.table, name, ids)
        return shortened


def show_rows(
    console: Console,
    columns: Sequence[str],
    types: Sequence[str],
    rows: Sequence[Row],
    layout: Layout,
    shortening: Shortening | None = None,
) -> list[str]:
    """Print rows for people, and return notes on how to read them."""
    if not rows:
        return []
    if layout.wide:
        cells = [list(map(cell, columns, row)) for row in rows]
        console.width = _ANY_WIDTH
        console.print(_drawn(columns, types, cells))
        return []
    if not layout.vertical:
        brief = _Brief(columns, rows, shortening)
        cells = [brief.cells(row) for row in rows]
        if _fits(console.width, columns, cells):
            console.print(_drawn(columns, types, cells))
            return brief.notes()
    for number, row in enumerate(rows, start=1):
        if len(rows) > 1:
            console.print(Text(f"── row {number:,} ", style="dim"))
        values = dict(zip(columns, row, strict=True))
        console.print(vertical_row(values))
    return []


class _Brief:
    """Formats values briefly: ids as in `Shortening`, times without the day if all have the same."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Row], shortening: Shortening | None) -> None:
        self._columns = columns
        self._ids = shortening(columns, rows) if shortening else {}
        values = itertools.chain.from_iterable(rows)
        self._times = [value for value in values if isinstance(value, datetime)]
        self._days = sorted({time.date() for time in self._times})
        self._example = ""  # of a shortened id

    def cells(self, row: Row) -> list[str]:
        return list(map(self._cell, self._columns, row))

    def _cell(self, name: str, value: Any) -> str:
        if isinstance(value, datetime):
            return self._time(value)
        ids = self._ids.get(name, {})
        short_id = ids.get(value) if isinstance(value, str) else None
        if short_id is None:
            return cell(name, value)
        if short_id != value and not self._example:
            self._example = short_id
        return printable(short_id)

    def _time(self, value: datetime) -> str:
        if len(self._days) > 1:
            return f"{value:%m-%d %H:%M:%S}"
        has_fractions = any(time.microsecond for time in self._times)
        return f"{value:%H:%M:%S.%f}" if has_fractions else f"{value:%H:%M:%S}"

    def notes(self) -> list[str]:
        notes = []
        if self._days:
            first = self._days[0]
            last = self._days[-1]
            days = f"of {first}" if first == last else f"from {first} to {last}"
            notes.append(f"Times are UTC, {days}.")
        if self._example:
            notes.append(f"Ids are shortened: --id {self._example} finds one, --wide shows them in full.")
        return notes


def _fits(width: int, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Return whether every column has room for its name, and for its values or a readable part of them."""
    needed = 2 * (len(columns) - 1)  # the gaps
    for index, name in enumerate(columns):
        longest = max(len(row[index]) for row in cells)
        needed += max(len(name), min(longest, _LEAST_WIDTH))
    return needed <= width


def _drawn(columns: Sequence[str], types: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name, type_ in zip(columns, types, strict=True):
        is_number = type_.startswith(_NUMBERS)
        drawn.add_column(
            Text(printable(name)),
            justify="right" if is_number else "left",
            overflow="fold",
        )
    for row in cells:
        drawn.add_row(*map(Text, row))
    return drawn


def cell(name: str, value: Any) -> str:
    """Return a value in one line, with control characters escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S.%f}"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, bytes):
        return _hex(value)
    if isinstance(value, list):
        separator = " → " if name in ("critical_path", "routing") else ", "
        entries = separator.join(map(_entry, value))
        return printable(entries)
    return printable(str(value))


def _hex(value: bytes) -> str:
    if len(value) <= _SHOWN_BYTES:
        return value.hex()
    start = value[:_SHOWN_BYTES].hex()
    return f"{start}… ({len(value)} bytes)"


def _entry(value: Any) -> str:
    if isinstance(value, bytes):
        return cell("", value)
    if not isinstance(value, Mapping):
        return printable(str(value))
    return printable(_record_text(value))


def _record_text(record: Mapping[str, Any]) -> str:
    if "stage" in record:  # of a critical path
        time = duration(record["us"])
        return f"{record['stage']} {time} at {record['node']}"
    if "uri" in record:  # a router
        return str(record["uri"])
    if "version" in record:  # a kind of message
        text = f"{record['identity']}/{record['version']}"
        partition = record["partition"]
        return f"{text}/{partition}" if partition else text
    fields = [f"{name} {value}" for name, value in record.items()]
    return ", ".join(fields)


def vertical_row(row: Mapping[str, Any]) -> RenderableType:
    """Return one row with a line for each column, and its critical path stage by stage."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in row.items():
        if name == "critical_path" and value:
            continue
        text = cell(name, value)
        is_time = name.endswith("_us") and isinstance(value, int)
        if is_time and abs(value) >= 1000:
            text = f"{text}  ({duration(value)})"
        table.add_row(name, Text(text))
    if not row.get("critical_path"):
        return table
    return Group(table, _path(row["critical_path"]))


def _path(stages: Sequence[Mapping[str, Any]]) -> Table:
    """Return a critical path stage by stage, with handlers and flows if there are any, and short ids then."""
    optional = [name for name in ("handler", "flow_id") if any(stage.get(name) for stage in stages)]
    path = Table("stage", "node", "identity", *optional, title="critical path", title_justify="left")
    path.add_column("time", justify="right")
    path.add_column("share", justify="right")
    names = ("stage", "node", "identity", *optional)
    total = sum(stage["us"] or 0 for stage in stages)
    for stage in stages:
        texts = [str(stage[name] or "") for name in names]
        if optional:
            texts = list(map(short, texts))
        cells = [Text(printable(text)) for text in texts]
        us = stage["us"]
        path.add_row(*cells, duration(us), _percentage(us, total))
    return path


def _percentage(us: int | None, total: int) -> str:
    if us is None or total <= 0:
        return ""
    percentage = 100 * us / total
    return f"{percentage:.0f}%"


def write_rows(columns: Sequence[str], rows: Iterable[Row], layout: Layout) -> None:
    """Write rows for a program: one JSON object per line, or CSV with a header. Bytes are hex.

    Control characters are escaped: by the rules of JSON, which keep the value, and in CSV as in Python.
    """
    if layout.json:
        for row in rows:
            values = map(_plain, row)
            write_json(dict(zip(columns, values, strict=True)))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_flat(value) for value in row])
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """Return a value as JSON can represent it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        is_whole = value == value.to_integral_value()
        return int(value) if is_whole else float(value)
    if isinstance(value, UUID | timedelta):
        return str(value)
    if isinstance(value, int) and value.bit_length() > _JSON_BITS:
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _flat(value: Any) -> Any:
    plain = _plain(value)
    if isinstance(plain, list | dict):
        return json_line(plain)
    if isinstance(plain, str):
        return printable(plain, limit=None)  # no limit, because a program reads it
    return plain
