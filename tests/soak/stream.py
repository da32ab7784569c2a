"""The stream of a run: how it is started and brought to its end, the batch job that it is compared with, and how late
its tables are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.soak.processes import run

COUNTED = ("messages", "rejects")  # tables with a row for each record
_MEMORY = "1g"
_SHARES = {"p50": 0.50, "p95": 0.95}
_MICROSECONDS = 1_000_000


def stream_arguments(captures: Path, tables: Path, *further: str) -> list[str]:
    """Return the arguments of ``hopline`` that run the stream; without further ones, until it is stopped."""
    return ["pipeline", "stream", str(captures), "--out", str(tables), "--memory", _MEMORY, *further]


def finish(captures: Path, tables: Path, log: Path) -> None:
    """Let a stream that was stopped read what is left, close all flows and settle all days."""
    run(["-m", "hopline", *stream_arguments(captures, tables, "--available-now", "--final")], log)


def run_batch(captures: Path, tables: Path, log: Path) -> None:
    """Make the tables of all captures by the batch job."""
    run(["-m", "hopline", "pipeline", "run", str(captures), "--out", str(tables)], log)


def late_records(tables: Path, log: Path) -> int:
    """Return how many records came too late for the stream, of days that are not settled."""
    lines = run(["-m", "hopline", "pipeline", "late", str(tables), "--json"], log)
    return sum(int(json.loads(line)["records"]) for line in lines)


class Lateness:
    """How old records are when a reader of the tables can first see them.

    Args:
        tables: The tables of the stream.
    """

    def __init__(self, tables: Path) -> None:
        self._messages = tables / "messages"
        self._seen: set[Path] = set()
        self._counts: dict[int, int] = {}  # of records, by age in tenths of a second

    def look(self) -> None:
        """Look for what the stream has added since the last look."""
        for folder in self._messages.glob("date=*/stream-*"):
            if folder in self._seen:  # a batch that is repeated replaces what it has written
                continue
            self._seen.add(folder)
            self._add(folder, time.time())

    def _add(self, folder: Path, now: float) -> None:
        for file in folder.glob("*.parquet"):
            try:
                times = pq.read_table(file, columns=["ts"])["ts"]
            except FileNotFoundError:  # it is being replaced
                continue
            seconds = pc.cast(times, "int64").to_numpy() / _MICROSECONDS
            ages, counts = np.unique(np.rint((now - seconds) * 10).astype(int), return_counts=True)
            for age, count in zip(ages.tolist(), counts.tolist(), strict=True):
                self._counts[age] = self._counts.get(age, 0) + count

    def quantiles(self) -> dict[str, float]:
        """Return the age in seconds that a share of the records had at most; nothing if none was seen."""
        return quantiles(self._counts)


def quantiles(counts: Mapping[int, int]) -> dict[str, float]:
    """Return the quantiles of ages in tenths of a second, given how often each occurs."""
    total = sum(counts.values())
    result = {}
    for name, share in _SHARES.items():
        below = 0
        for age in sorted(counts):
            below += counts[age]
            if below >= share * total:
                result[name] = age / 10
                break
    return result
