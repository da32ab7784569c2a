"""The events that a node records, and the capture levels. Works without pyarrow."""

from __future__ import annotations

from enum import StrEnum


class Event(StrEnum):
    """What happened to a message."""

    SUBMITTED = "submitted"  # accepted by the router from a hub, an actor or the node itself
    SENT = "sent"  # written to another node
    RECEIVED = "received"  # arrived from another node
    DELIVERED = "delivered"  # taken out of the mailbox by a local receiver
    HANDLED = "handled"  # its handler returned or failed
    RESOLVED = "resolved"  # completed a promise, or became part of a stream
    EXPIRED = "expired"  # its lifetime was over
    UNROUTABLE = "unroutable"  # no receiver was found
    REJECTED = "rejected"  # malformed, forged, or of a domain without a key
    OVERFLOW = "overflow"  # a queue was full
    HOP_LIMIT = "hop_limit"  # forwarded too often
    FAILED = "failed"  # its receiver or peer stopped before it was done


ENDINGS = (Event.EXPIRED, Event.UNROUTABLE, Event.REJECTED, Event.OVERFLOW, Event.HOP_LIMIT, Event.FAILED)


class Level(StrEnum):
    """How much a node records."""

    OFF = "off"
    WIRE = "wire"  # `sent`, `received` and the endings
    FULL = "full"  # every event


LEVEL_EVENTS = {
    Level.OFF: frozenset[Event](),
    Level.WIRE: frozenset({Event.SENT, Event.RECEIVED, *ENDINGS}),
    Level.FULL: frozenset(Event),
}
