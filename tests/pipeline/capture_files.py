"""Small captures on disk."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.records import CAPTURE_SCHEMA
from hopline.message import Message
from hopline.wire import WireFormat, encode

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
GARBAGE = [b"\x00", b"no message"]


def record(seq: int, node: str = "a", **columns: Any) -> dict[str, Any]:
    """Give a record: one a second, the formats in turn, every tenth no message."""
    formats = list(WireFormat)
    frames = encode(Message.flow_start(b"KIND-%d" % (seq % 3), b"body"), formats[seq % len(formats)])
    return {
        "ts": NOON + timedelta(seconds=seq),
        "seq": seq,
        "node": node,
        "node_uri": f"tcp://{node}:1",
        "event": ("submitted", "sent", "received")[seq % 3],
        "peer": ("b" if node == "a" else "a") if seq % 3 else None,
        "dropped": 0,
        "frames": GARBAGE if seq % 10 == 9 else frames,
    } | columns


def write_segment(
    path: Path, records: list[dict[str, Any]], *, row_group: int = 10, schema: pa.Schema = CAPTURE_SCHEMA
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(records, schema), path, row_group_size=row_group, compression="zstd")
    return path


def write_capture(directory: Path) -> Path:
    """Write 80 records of two nodes: two segments each, two row groups a segment."""
    for node in ("a", "b"):
        for number in range(2):
            records = [record(seq, node) for seq in range(number * 20, number * 20 + 20)]
            write_segment(directory / "date=2026-01-02" / f"{node}-{number}-0.parquet", records)
    return directory
