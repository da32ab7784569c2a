"""Segments in, files of messages and rejects out, in one pass: executors read and write the files themselves.

Frames need not go through Java then, nor anything that is made of them, which would be most of the work.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from hopline.pipeline.day_files import DayFiles, where
from hopline.pipeline.decoding.arrow import FILE_SCHEMAS, RECORD_COLUMNS, RECORDS
from hopline.pipeline.decoding.batches import Read, read_batch
from hopline.pipeline.decoding.judging import Judging
from hopline.pipeline.keys import Keyring
from hopline.pipeline.row_files import ArrowFile, ParquetFile, RowFile
from hopline.pipeline.segments import open_segment, read_rows
from hopline.pipeline.traces import Chest, traces_of
from hopline.pipeline.traces.hours import HOURS, hours_of
from hopline.pipeline.traces.spans import SPANS, spans_of

_BATCH = 16_384  # records that are read at once: what they need stays near the processor
_GOOD_TASKS, _SMALL_TASK, _LARGE_TASK = 16, 20_000, 250_000  # how many; records in one
_WRITTEN = "file string, rows bigint"

SEEN = pa.schema([("node", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
"""The last message of each node, among some: all that matters where only times are asked for."""

Span = tuple[datetime | None, datetime | None]


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A part of a segment, and how many records it has."""

    path: str
    number: int
    rows: int


def decode_files(
    spark: SparkSession,
    row_groups: Sequence[RowGroup],
    keyring: Keyring,
    folder: Path,
    chest: Chest,
    judging: Judging,
    span: Span = (None, None),
) -> None:
    """Write the records of a time, from its begin to before its end, into folders of a folder, each by day.

    These are `messages`, `rejects`, and `verified`: messages with a good signature, any of which may be a replay, in a
    form that is quick to read; what is noted of verdicts, where they are known; and the `spans` and `hours` of all
    records, and which nodes were `seen` when, not by day. The traces of messages go into a chest.
    """
    tasks = tasks_of(row_groups)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column("id").to_pylist():
                files = _Files(folder, task, chest, judging)
                for read in read_row_groups(tasks[task], keyring, span):
                    files.add(read)
                yield files.close()

    # A task may have been tried more often than once: what the others wrote does not count.
    written = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, _WRITTEN).collect()
    counts = {row.file for row in written}
    for file in (*folder.rglob("part-*"), *chest.folder.glob("part-*")):
        if file.stem not in counts:
            file.unlink()


def tasks_of(row_groups: Sequence[RowGroup]) -> list[list[RowGroup]]:
    """Put neighbouring row groups together, so that tasks are neither many nor large."""
    most = min(max(sum(one.rows for one in row_groups) // _GOOD_TASKS, _SMALL_TASK), _LARGE_TASK)
    tasks: list[list[RowGroup]] = [[]]
    rows = 0
    for one in row_groups:
        if tasks[-1] and rows + one.rows > most:
            tasks.append([])
            rows = 0
        tasks[-1].append(one)
        rows += one.rows
    return tasks


def read_row_groups(row_groups: Iterable[RowGroup], keyring: Keyring, span: Span = (None, None)) -> Iterator[Read]:
    """Read and decode parts of segments, some thousand records at a time."""
    for one in row_groups:
        for rows in read_rows(open_segment(one.path), one.number, RECORDS, None):
            for at in range(0, rows.num_rows, _BATCH):
                records = _within(rows.slice(at, _BATCH), span)
                yield read_batch(records.rename_columns([*RECORD_COLUMNS, "frames"]), keyring)


def _within(records: pa.RecordBatch, span: Span) -> pa.RecordBatch:
    for limit, is_inside in zip(span, (pc.greater_equal, pc.less), strict=True):
        if limit is not None:
            ts = records.column("ts")
            records = records.filter(is_inside(ts, pa.scalar(limit, ts.type)))
    return records


class _Files:
    """What one task writes: a file for each table and day, whose names nobody else uses."""

    def __init__(self, folder: Path, task: int, chest: Chest, judging: Judging) -> None:
        self._folder = folder
        self._chest = chest
        self._name = f"part-{task:05}-{uuid.uuid4()}"
        forms: dict[str, type[RowFile]] = {"messages": ParquetFile, "verified": ArrowFile, "rejects": ParquetFile}
        self._files = {
            table: DayFiles(folder / table, self._name, FILE_SCHEMAS[table], form) for table, form in forms.items()
        }
        self._traces: list[pa.Table] = []
        self._spans = [SPANS.empty_table()]
        self._seen = [SEEN.empty_table()]
        self._hours = [HOURS.empty_table()]
        self._judged = judging.notebook(folder, self._name)

    def add(self, read: Read) -> None:
        """Write down what was read."""
        self._traces.append(traces_of(read.messages))
        self._spans.append(spans_of([read.messages, read.rejects]))
        seen = read.messages.select(SEEN.names).group_by("node").aggregate([("ts", "max")])
        self._seen.append(seen.rename_columns(SEEN.names).cast(SEEN))
        self._hours += [hours_of(read.messages, is_reject=False), hours_of(read.rejects, is_reject=True)]
        is_verified = pc.fill_null(pc.equal(read.messages.column("verdict"), "verified"), False)
        for name, rows in (
            ("messages", where(pc.invert(is_verified), read.messages)),
            ("verified", where(is_verified, read.messages)),
            ("rejects", read.rejects),
        ):
            self._files[name].add(rows)
            if name == "messages":
                self._judged.add(rows)

    def close(self) -> pa.RecordBatch:
        """Finish all files, and tell their name."""
        rows = sum(file.close() for file in self._files.values())
        self._judged.close()
        self._chest.write(self._name, self._traces)
        for name, noted in {"spans": self._spans, "seen": self._seen, "hours": self._hours}.items():
            (self._folder / name).mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.concat_tables(noted), self._folder / name / f"{self._name}.parquet")
        return pa.record_batch({"file": [self._name], "rows": pa.array([rows], pa.int64())})
