"""One row of a capture: something that happened to a message on a node, with the message's exact frames."""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa


class Event(StrEnum):
    """What happened to the message."""

    SUBMITTED = "submitted"  # a hub or an actor gave it to the router
    SENT = "sent"  # left for another node
    RECEIVED = "received"  # arrived from another node
    DELIVERED = "delivered"  # put before a local receiver
    HANDLED = "handled"  # its handler ended, well or with a reason
    RESOLVED = "resolved"  # a promise took it
    EXPIRED = "expired"  # its lifetime was over
    UNROUTABLE = "unroutable"  # nobody handles it
    REJECTED = "rejected"  # malformed, forged, of a foreign domain
    OVERFLOW = "overflow"  # no room for it
    HOP_LIMIT = "hop_limit"  # sent on too often
    FAILED = "failed"  # its receiver or its peer went away with it


ENDINGS = (Event.EXPIRED, Event.UNROUTABLE, Event.REJECTED, Event.OVERFLOW, Event.HOP_LIMIT, Event.FAILED)


class Level(StrEnum):
    """How much of its traffic a node records."""

    OFF = "off"
    WIRE = "wire"  # what it sent and received, and the endings
    FULL = "full"  # everything


LEVEL_EVENTS = {
    Level.OFF: frozenset[Event](),
    Level.WIRE: frozenset({Event.SENT, Event.RECEIVED, *ENDINGS}),
    Level.FULL: frozenset(Event),
}

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        pa.field("node_uri", pa.string()),
        pa.field("event", pa.string(), nullable=False),
        pa.field("peer", pa.string()),
        pa.field("receiver", pa.string()),
        pa.field("cause", pa.int64()),
        pa.field("duration_us", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("dropped", pa.int32(), nullable=False),
        pa.field("frames", pa.list_(pa.field("element", pa.binary(), nullable=False)), nullable=False),
    ]
)


def shown(raw: bytes) -> str:
    """Give a name off the wire as the text that the tables use: UTF-8, or hex digits behind ``0x`` where it is not."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{raw.hex().upper()}"
