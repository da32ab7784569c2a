"""Other nodes that speak under this node's identity: a mistake in somebody's configuration that nobody else notices.

Other nodes know one address for the two, that of the one that spoke last, and when one of them says goodbye, both are
forgotten. So a node that hears a namesake complains, and announces itself again: the namesake hears of it that way too.
"""

from __future__ import annotations

import math

from hopline.cluster.member import Member
from hopline.message import get_logger, printable_name

log = get_logger("hopline.cluster")

_PERIOD = 60.0  # seconds between two complaints, however much a namesake says


class Namesakes:
    """Tells whether somebody else uses an identity, by the address that comes with it."""

    def __init__(self, me: Member) -> None:
        self._me = me
        self._complained_at = -math.inf

    def is_one(self, node: bytes, uri: str) -> bool:
        """Return whether whoever speaks as `node`, at `uri`, is another node with this one's identity."""
        return node == self._me.identity and uri != self._me.uri

    def complain(self, uri: str, now: float) -> bool:
        """Log that there is a namesake and what to do about it, unless that was done a moment ago; return whether."""
        if now - self._complained_at < _PERIOD:
            return False
        self._complained_at = now
        log.error(
            "two nodes have the identity %s: this one, at %s, and another one, at %s. Messages for either reach one of "
            "them only. Stop both and give each an identity of its own: leave out node.identity (identity=... in "
            "code) to get a new one with every start, or set two different ones.",
            printable_name(self._me.identity),
            self._me.uri,
            uri,
        )
        return True
