"""Peers that fell silent: when their heartbeats are heard again, they are back.

Theory of operation. Where the network was cut, two nodes that talk to each other lose each other on both sides, though
both live. The one that watched the other goes on listening for it, and when it is heard again, sends it this node's
routes and asks for its own. So each pair finds itself at the cost of three messages, and no node has to announce itself
to all others.

Heartbeats are not signed, so one proves nothing: it may be forged, late, or of another process at the same address. And
the exchange that it causes may be lost. Therefore a peer stays lost until it announces itself, which is verified, and
later heartbeats cause the exchange again. What that may cost is bounded: the first pause after an exchange with a peer
is `_FIRST_PAUSE`, and each further one is twice as long, up to `_LONGEST_PAUSE`; `_PATIENCE` after it was lost, or when
`_CAPACITY` others were lost since, a peer is forgotten.
"""

from __future__ import annotations

import math

import msgspec

from hopline.cluster.membership.domain_authority import Location
from hopline.cluster.membership.health import Health

_CAPACITY = 128  # peers; each costs a subscription to an address where probably nobody is
_PATIENCE = 600.0  # seconds
_FIRST_PAUSE = 5.0  # seconds between two exchanges with one peer
_LONGEST_PAUSE = 60.0


class _LostPeer(msgspec.Struct):
    location: Location
    until: float
    exchange_at: float = -math.inf  # at the earliest
    pause: float = _FIRST_PAUSE  # after the next exchange


class LostPeers:
    """Remembers where silent peers were, and listens for them."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._lost: dict[bytes, _LostPeer] = {}  # the one that expires first is the first

    def __contains__(self, node: object) -> bool:
        return node in self._lost

    def add(self, node: bytes, location: Location, now: float) -> None:
        """Listen for a peer that was removed because it was silent."""
        self.forget(node)
        if len(self._lost) >= _CAPACITY:
            self.forget(next(iter(self._lost)))
        self._lost[node] = _LostPeer(location, until=now + _PATIENCE)
        self._health.listen_to(location.health_uri)

    def record_heartbeat(self, node: bytes, now: float) -> Location | None:
        """Record a heartbeat of a lost peer; return where it is if routes are to be exchanged with it now."""
        lost = self._lost[node]
        if now < lost.exchange_at:
            return None
        lost.exchange_at = now + lost.pause
        lost.pause = min(2 * lost.pause, _LONGEST_PAUSE)
        return lost.location

    def forget(self, node: bytes) -> None:
        """Stop listening for a peer."""
        lost = self._lost.pop(node, None)
        if lost is not None:
            self._health.stop_listening_to(lost.location.health_uri)

    def expire(self, now: float) -> None:
        """Forget those that were silent for too long."""
        while self._lost:
            node, lost = next(iter(self._lost.items()))
            if now < lost.until:
                return
            self.forget(node)
