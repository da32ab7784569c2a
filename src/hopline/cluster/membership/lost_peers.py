"""Peers that fell silent: when their heartbeats are heard again, they are back.

Where the network was cut, two nodes that talk to each other lose each other on both sides, though both live. The one
that watched the other goes on listening for it, and when it is heard again, sends it this node's routes and asks for
its own. So each pair finds itself at the cost of three messages, and no node has to announce itself to all others.
"""

from __future__ import annotations

from hopline.cluster.membership.domain_authority import Location
from hopline.cluster.membership.health import Health

_CAPACITY = 128  # peers; each costs a subscription to an address where probably nobody is
_PATIENCE = 600.0  # seconds


class LostPeers:
    """Remembers where silent peers were, and listens for them."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._lost: dict[bytes, tuple[Location, float]] = {}  # and until when; the earliest first

    def __contains__(self, node: object) -> bool:
        return node in self._lost

    def add(self, node: bytes, location: Location, now: float) -> None:
        """Listen for a peer that was removed because it was silent."""
        self.forget(node)
        if len(self._lost) >= _CAPACITY:
            self.forget(next(iter(self._lost)))
        self._lost[node] = (location, now + _PATIENCE)
        self._health.listen_to(location.health_uri)

    def forget(self, node: bytes) -> Location | None:
        """Stop listening for a peer; return where it was."""
        location, _ = self._lost.pop(node, (None, 0.0))
        if location is not None:
            self._health.stop_listening_to(location.health_uri)
        return location

    def expire(self, now: float) -> None:
        """Forget those that were silent for too long."""
        while self._lost:
            node, (_, until) = next(iter(self._lost.items()))
            if now < until:
                return
            self.forget(node)
