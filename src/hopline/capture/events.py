"""What a node records of its messages, and how much of it. Needs nothing that is not installed with Hopline."""

from __future__ import annotations

from enum import StrEnum


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
