"""Small captures for the tests of the job: files as a node writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.records import CAPTURE_SCHEMA
from hopline.message import Message
from hopline.wire import WireFormat, encode

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def frames(correlation_id: bytes = b"flow", identity: bytes = b"ORDER", **fields: Any) -> list[bytes]:
    """Encode a message."""
    message = Message(identity=identity, correlation_id=correlation_id, bodies=(b"1 espresso",), **fields)
    return encode(message, WireFormat.V5)


def record(seq: int, event: str, node: str = "a", at: datetime = NOON, **columns: Any) -> dict[str, Any]:
    """Make a record; what is not given is as a node would leave it."""
    empty: dict[str, Any] = dict.fromkeys(CAPTURE_SCHEMA.names)
    told = {"ts": at + timedelta(milliseconds=seq), "seq": seq, "node": node, "event": event, "dropped": 0}
    return empty | told | {"frames": frames()} | columns


def crossing(number: int, at: datetime = NOON) -> list[dict[str, Any]]:
    """Let one message go from node a to node b."""
    content = frames(b"flow-%d" % number)
    sent = record(number, "sent", "a", at, peer="b", frames=content)
    received = record(number, "received", "b", at + timedelta(microseconds=300), peer="a", frames=content)
    return [sent, received]


def write_segment(path: Path, records: Sequence[Mapping[str, Any]], schema: pa.Schema = CAPTURE_SCHEMA) -> Path:
    """Write records as a closed segment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(records), schema), path, compression="zstd")
    return path


def write_day(folder: Path, records: Sequence[Mapping[str, Any]], name: str = "a-1-1.parquet") -> Path:
    """Write a segment where a node would put it: under the day of its first record."""
    return write_segment(folder / f"date={records[0]['ts']:%Y-%m-%d}" / name, records)
