"""Who a node is for the others of its cluster, and how much it said and heard of routes."""

from __future__ import annotations

from collections import Counter

import msgspec


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """Who this node is for others."""

    identity: bytes
    uri: str
    health_uri: str


class Traffic(msgspec.Struct):
    """What was said and heard of routes."""

    published: int = 0  # through the rendezvous server
    told: int = 0  # straight to one node
    heard: int = 0  # from either
    refused: Counter[str] = msgspec.field(default_factory=Counter)  # by reason
