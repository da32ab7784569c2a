"""Comparing the tables of a stream with those of a run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hopline.pipeline.tables.all import TABLES
from hopline.query.tables import open_tables

OF_SKEW = {"skew_us", "skew_bound_us"}


def differences(stream: Path, batch: Path, ignored: Collection[str] = ()) -> dict[str, list[str]]:
    """Return by table the rows that only one of both has, each with the side that has it."""
    found = {}
    with open_tables(stream) as one, open_tables(batch) as other:
        for name in TABLES:
            columns = [column for column in other.columns(name) if column not in {*ignored, "provisional"}]
            listed = ", ".join(f'"{column}"' for column in columns)
            query = f"select {listed} from {name}"  # noqa: S608 - our own columns
            rows = [sorted(map(repr, tables.ask(query).rows())) for tables in (one, other)]
            if rows[0] != rows[1]:
                found[name] = [f"stream: {row}" for row in _without(rows[0], rows[1])]
                found[name] += [f"batch: {row}" for row in _without(rows[1], rows[0])]
    return found


def _without(rows: list[str], others: list[str]) -> list[str]:
    left = list(others)
    kept = []
    for row in rows:
        if row in left:
            left.remove(row)
        else:
            kept.append(row)
    return kept
