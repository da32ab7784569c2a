"""How messages end. For every message that a node takes, exactly one of these is counted."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from hopline.message import Message


class Outcome(StrEnum):
    """What became of a message on this node. The names are those of the capture's events."""

    DELIVERED = "delivered"  # put before a local receiver
    SENT = "sent"  # left for another node
    EXPIRED = "expired"  # its lifetime was over first
    UNROUTABLE = "unroutable"  # nobody handles it, here or anywhere known
    REJECTED = "rejected"  # not acceptable: malformed, forged, of a foreign domain
    OVERFLOW = "overflow"  # no room for it within the time to wait
    HOP_LIMIT = "hop_limit"  # sent from node to node too often
    FAILED = "failed"  # its receiver or its peer went away with it


class Settled(msgspec.Struct, frozen=True):
    """One message and what became of it, as the `on_outcome` hook sees it."""

    outcome: Outcome
    message: Message
    receiver: bytes = b""  # the local actor or hub
    peer: bytes = b""  # the other node
    reason: str = ""
    waited: float = 0.0  # seconds on this node until then
