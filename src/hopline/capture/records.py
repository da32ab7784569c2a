"""The schema of a capture: one row for each event of a message on a node, with the message's exact frames."""

from __future__ import annotations

import pyarrow as pa

from hopline.capture.events import ENDINGS, LEVEL_EVENTS, Event, Level

__all__ = ["CAPTURE_SCHEMA", "ENDINGS", "LEVEL_EVENTS", "Event", "Level", "shown"]

CAPTURE_SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        pa.field("node_uri", pa.string()),
        pa.field("event", pa.string(), nullable=False),
        pa.field("peer", pa.string()),
        pa.field("receiver", pa.string()),
        pa.field("receiver_name", pa.string()),
        pa.field("handler", pa.string()),
        pa.field("cause", pa.int64()),
        pa.field("duration_us", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("dropped", pa.int32(), nullable=False),
        pa.field("frames", pa.list_(pa.field("element", pa.binary(), nullable=False)), nullable=False),
    ]
)


def shown(raw: bytes) -> str:
    """Return a name off the wire as text: as UTF-8, or as hex digits after ``0x`` where it is not valid UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{raw.hex().upper()}"
