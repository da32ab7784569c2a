"""Rows of a table as people and programs read them."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hopline.cli.console import json_line, say_json
from hopline.message import printable
from hopline.pipeline.summary import duration

_SHOWN_BYTES = 16


def cell(name: str, value: Any) -> str:
    """Write a value in one line; nothing in it that a terminal might obey."""
    if value is None:
        return ""
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
    path = Table("stage", "node", "identity", "time", "share", title="critical path", title_justify="left")
    path.columns[3].justify = path.columns[4].justify = "right"
    whole = sum(stage["us"] or 0 for stage in row["critical_path"])
    for stage in row["critical_path"]:
        share = f"{100 * stage['us'] / whole:.0f}%" if whole > 0 and stage["us"] is not None else ""
        named = (Text(printable(str(stage[key] or ""))) for key in ("stage", "node", "identity"))
        path.add_row(*named, duration(stage["us"]), share)
    return Group(table, path)


def write_rows(rows: Iterable[Mapping[str, Any]], columns: list[str], *, as_json: bool) -> None:
    """Write rows for a program: a JSON object a line, or CSV with a header. Bytes are hex.

    What a terminal might obey is escaped: in JSON as JSON does, so that the value is the same, in CSV as in Python.
    """
    if as_json:
        for row in rows:
            say_json({name: _plain(row[name]) for name in columns})
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_flat(row[name]) for name in columns])
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return value


def _flat(value: Any) -> Any:
    plain = _plain(value)
    if isinstance(plain, list | dict):
        return json_line(plain)
    # Nothing is cut here: a program reads it.
    return printable(plain, limit=None) if isinstance(plain, str) else plain
