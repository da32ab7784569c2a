"""The same records again and again: split at random into segments, which arrive in some order, with crashes between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from hopline.decoding.keys import Keyring
from hopline.generator import Options, generate
from hopline.pipeline.storage import PathTables
from hopline.pipeline.stream.batch import Batches
from hopline.pipeline.stream.hadoop_files import HadoopFiles
from hopline.pipeline.stream.options import StreamOptions
from hopline.pipeline.stream.publication import Publication
from hopline.pipeline.stream.state import State
from hopline.pipeline.stream.state_files import States

MIDNIGHT = datetime(2026, 3, 3, tzinfo=UTC)
IDLE_S = 60.0
_SECOND_US = 1_000_000
_CRASHES = (
    (Publication, "write", 12),
    (Publication, "write_by_mark", 5),
    (States, "write", 7),
    (States, "commit", 2),
    (HadoopFiles, "replace", 20),
    (PathTables, "replace", 30),
)
"""Where a process may be killed: at one of so many calls."""

Records = dict[str, pa.Table]


class CrashError(Exception):
    """The process was killed."""


def difficult_records(folder: Path, seed: int) -> Records:
    """Return the records of each node, with all that makes it hard to put them together.

    The day changes in the middle of a flow, many records have equal times, some were recorded twice, and one node falls
    silent.
    """
    generate(folder, Options(messages=1_000, seed=seed))
    random = Random(seed)
    files = sorted((folder / "captures").rglob("*.parquet"))
    tables = [pq.read_table(path) for path in files]
    sent = np.sort(np.concatenate([_times(table.filter(pc.field("event") == "sent")) for table in tables]))
    until_midnight_us = round(MIDNIGHT.timestamp()) * _SECOND_US - int(random.choice(sent[len(sent) // 3 :]))
    quiet = random.randrange(len(tables))
    records = {}
    for number, table in enumerate(tables):
        times = _times(table) + until_midnight_us
        times -= times % random.choice([1, 1_000, _SECOND_US])
        column = pa.array(times, pa.int64()).cast(table.schema.field("ts").type)
        table = table.set_column(table.schema.get_field_index("ts"), table.schema.field("ts"), column)
        rows = sorted([*range(len(table)), *random.sample(range(len(table)), 3)])
        if number == quiet:
            rows = rows[: len(rows) // 2]
        records[f"node-{number}"] = table.take(rows)
    return records


def _times(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    times: np.ndarray[tuple[int], np.dtype[np.int64]] = pc.cast(table["ts"], pa.int64()).to_numpy()
    return times


def split(records: Records, random: Random, folder: Path, most: int) -> dict[str, list[Path]]:
    """Write the records of each node to segments, some of them empty, and return those of each node in order."""
    segments: dict[str, list[Path]] = {}
    for node, table in records.items():
        cuts = sorted(random.choices(range(len(table) + 1), k=random.randrange(most)))
        segments[node] = []
        for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(table)], strict=True)):
            path = folder / f"{node}-{number}.parquet"
            pq.write_table(table.slice(start, end - start), path)
            segments[node].append(path)
    return segments


def arrivals(segments: dict[str, list[Path]], random: Random, batches: int, *, in_order: bool) -> list[list[Path]]:
    """Return which segments each batch has.

    Args:
        segments: Those of each node, in order.
        random: Decides.
        batches: The number of batches.
        in_order: Whether those of a node arrive in order.
    """
    arriving: list[list[Path]] = [[] for _ in range(batches)]
    for paths in segments.values():
        numbers = random.choices(range(batches), k=len(paths))
        for path, number in zip(paths, sorted(numbers) if in_order else numbers, strict=True):
            arriving[number].append(path)
    return arriving


@dataclass
class Life:
    """A stream whose batches are started by hand, whose clock is set by hand, and which is killed now and then."""

    spark: SparkSession
    out: Path
    keys: Path
    random: Random
    gap_s: float
    crashes: int  # of ten batches
    now: float = 1_000.0
    number: int = -1
    killed: list[str] = field(default_factory=list)
    _batches: Batches | None = None

    def batch(self, paths: Sequence[Path], seconds: float, *, is_final: bool = False) -> State:
        """Do the next batch some time after the last, with as many attempts as it takes."""
        self.number += 1
        self.now += seconds
        if self.random.random() < 0.3:
            self._batches = None
        while self.random.randrange(10) < self.crashes:
            with killed_sometime(self.random) as where:
                try:
                    self._attempt(paths, is_final=is_final and self.random.random() < 0.7)
                except CrashError:
                    self.killed.append(where)
            self._batches = None
            self.now += self.random.choice([0, 1, IDLE_S / 4])
        return self._attempt(paths, is_final=is_final)

    def _attempt(self, paths: Sequence[Path], *, is_final: bool) -> State:
        if self._batches is None:
            options = StreamOptions(("captures",), self.out, self.keys, gap_s=self.gap_s, idle_s=IDLE_S)
            self._batches = Batches(options, Keyring.load(self.keys), self.spark, lambda: self.now)
        self._batches.is_final = is_final
        return self._batches.run([str(path) for path in paths], self.number)


@contextmanager
def killed_sometime(random: Random) -> Iterator[str]:
    """Have one of the steps of a batch end the process, unless there are fewer of them; yield its name."""
    owner, name, calls = random.choice(_CRASHES)
    left = random.randrange(calls)
    done = getattr(owner, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise CrashError
        return done(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counted)
        yield f"{owner.__name__}.{name}"
