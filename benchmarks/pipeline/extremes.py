"""Captures that kill jobs: one flow that never ends, and messages that all share the correlation id that is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.records import CAPTURE_SCHEMA
from hopline.message import NO_FLOW, Message, MessageIdentifier, WireFormat
from hopline.wire import encode

ONE_FLOW = b"11111111-2222-4333-8444-555555555555"
_BEGAN = datetime(2026, 3, 2, 8, tzinfo=UTC)
_BATCH = 20_000
_KIND, _ANSWER = MessageIdentifier(b"TICK"), MessageIdentifier(b"TOCK")


def one_flow(out: Path, records: int) -> None:
    """Write a flow of so many records: a tick is sent from a to b and answered, over and over."""

    def message(number: int) -> Message:
        tick = Message(b"TICK" if number % 2 else b"TOCK", bodies=(number.to_bytes(8, "little"),))
        return tick.clone(correlation_id=ONE_FLOW, hops=1).register_callback_point(b"a", b"hub", [_ANSWER], 1)

    _write(out, records, message)


def no_flow(out: Path, records: int) -> None:
    """Write so many records whose correlation id is the all-zero GUID, all of the same bytes but for a few."""

    def message(number: int) -> Message:
        return Message(b"TICK", bodies=(bytes([number % 3]),), correlation_id=NO_FLOW, hops=1)

    _write(out, records, message)


def _write(out: Path, records: int, message: Callable[[int], Message]) -> None:
    """Write what two nodes recorded: each message is sent by one and received by the other."""
    for node, peer, event in (("a", "b", "sent"), ("b", "a", "received")):
        out.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(out / f"{node}.parquet", CAPTURE_SCHEMA, compression="zstd") as writer:
            for batch in _batches(records // 2, node, peer, event, message):
                writer.write_batch(batch)


def _batches(
    records: int, node: str, peer: str, event: str, message: Callable[[int], Message]
) -> Iterator[pa.RecordBatch]:
    for first in range(0, records, _BATCH):
        numbers = range(first, min(first + _BATCH, records))
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "ts": _BEGAN + timedelta(microseconds=100 * number + (50 if event == "received" else 0)),
                    "seq": number + 1,
                    "node": node,
                    "event": event,
                    "peer": peer,
                    "dropped": 0,
                    "frames": encode(message(number), WireFormat.V5)[1:],
                }
                for number in numbers
            ],
            CAPTURE_SCHEMA,
        )
