"""Detecting another node with this node's identity, a configuration mistake that nobody else notices.

Other nodes know one address for both, that of the node that announced itself last, and when one of the two leaves, both
are removed. So a node that receives a message of the other logs an error and announces itself again: that way the other
one notices too.
"""

from __future__ import annotations

import math

from hopline.cluster.membership.member import Member
from hopline.message import get_logger, printable_name

log = get_logger("hopline.cluster")

_PERIOD = 60.0  # seconds between two reports, however many messages the other node sends


class IdentityConflicts:
    """Detects messages under this node's identity that come from another address."""

    def __init__(self, me: Member) -> None:
        self._me = me
        self._reported_at = -math.inf

    def is_conflict(self, node: bytes, uri: str) -> bool:
        """Return whether a message of `node` at `uri` comes from another node with this node's identity."""
        return node == self._me.identity and uri != self._me.uri

    def report(self, uri: str, now: float) -> bool:
        """Log the conflict and its remedy, unless that was done a moment ago; return whether it was logged."""
        if now - self._reported_at < _PERIOD:
            return False
        self._reported_at = now
        log.error(
            "two nodes have the identity %s: this one, at %s, and another one, at %s. Messages for either reach one of "
            "them only. Stop both and give each an identity of its own: leave out node.identity (identity=... in "
            "code) to get a new one with every start, or set two different ones.",
            printable_name(self._me.identity),
            self._me.uri,
            uri,
        )
        return True
