"""What a capture has, as tests want to see it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hopline import Message
from hopline.capture.events import ENDINGS
from hopline.capture.records import CAPTURE_SCHEMA
from hopline.capture.segment_files import segments_in
from hopline.wire import decode

Row = dict[str, Any]


def table_of(directory: Path) -> pa.Table:
    """Read every closed segment; each has the schema of the contract."""
    tables = [pq.ParquetFile(path).read() for path in segments_in(directory)]
    for table in tables:
        assert table.schema.equals(CAPTURE_SCHEMA)
    return pa.concat_tables(tables) if tables else CAPTURE_SCHEMA.empty_table()


def rows_of(directory: Path, node: str | None = None) -> list[Row]:
    """Give the records, by node and number, and check that no number is missing that is not accounted for."""
    rows: list[Row] = sorted(table_of(directory).to_pylist(), key=lambda row: (row["node"], row["seq"]))
    for before, row in pairwise(rows):
        if before["node"] == row["node"]:
            assert row["seq"] == before["seq"] + 1 + row["dropped"]
    return [row for row in rows if node is None or row["node"] == node]


def message_of(row: Row) -> Message:
    """Read the message of a record, which has everything but the identity of a socket."""
    return decode([b"", *row["frames"]])


def events_of(rows: list[Row], identity: bytes | None = None) -> list[str]:
    """Give the events in their order, of one kind of message if it is told."""
    return [row["event"] for row in rows if identity is None or message_of(row).identity == identity]


def imbalance(rows: list[Row]) -> int:
    """Count what came in and has no outcome, as the audit does; further copies of broadcasts came in, too."""
    counts = Counter(row["event"] for row in rows)
    came_in = counts["submitted"] + counts["received"]
    outcomes = counts["delivered"] + counts["sent"] + sum(counts[ending] for ending in ENDINGS)
    return came_in - outcomes
