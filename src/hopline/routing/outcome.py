"""Outcomes of messages. A node counts exactly one for every message that it takes."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from hopline.message import Message


class Outcome(StrEnum):
    """How a message ended on this node. The names are those of capture events."""

    DELIVERED = "delivered"  # a local receiver has started on it
    SENT = "sent"  # left for another node
    EXPIRED = "expired"  # its lifetime ended first
    UNROUTABLE = "unroutable"  # no known receiver handles it
    REJECTED = "rejected"  # malformed, forged, or of a foreign domain
    OVERFLOW = "overflow"  # its receiver stayed full
    HOP_LIMIT = "hop_limit"  # forwarded too many times
    FAILED = "failed"  # its receiver or its peer is gone


class MessageOutcome(msgspec.Struct, frozen=True):
    """A message and its outcome, as passed to the `on_outcome` hook."""

    outcome: Outcome
    message: Message
    receiver: bytes = b""  # the local actor or hub
    peer: bytes = b""  # the other node
    reason: str = ""
    waited: float = 0.0  # seconds on this node until then
