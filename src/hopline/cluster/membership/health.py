"""Which peers are alive: of those that this node sends to, the ones whose heartbeats arrive within their interval.

Theory of operation. A peer is *known* from its first announcement on, and *watched* from the first message on that this
node sends to it: only then is its heartbeat address subscribed to. So a node has as many subscriptions as it has peers
that it talks to, not as many as the network has nodes. Otherwise each of N nodes would be sent the heartbeats of all
others, which costs the network N * N connections, and N * N messages in every interval.

A dead peer that is watched is noticed by its silence. One that is not watched is noticed when this node wants to send
to it: nobody is at its address, or it stays silent from then on. Until then it costs a row in a table, which expires
with its routes (see `route_freshness`).

Only the addresses that peers announced are subscribed to, so nobody else can keep a dead peer alive.

Silence is measured in time that this node spent listening, not by the clock: a node that was paused, or too busy to
read, must not declare its peers dead because of that.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

_LONGEST_STEP = 0.25  # seconds of one step that count as listening


class HealthFeed(Protocol):
    """Subscriptions to the heartbeats of nodes."""

    def subscribe(self, uri: str) -> None:
        """Subscribe to the heartbeats at an address."""
        ...

    def unsubscribe(self, uri: str) -> None:
        """End the subscription to an address."""
        ...


class _Peer(msgspec.Struct):
    uri: str
    interval: float
    known_at: float
    heard_at: float = 0.0  # while it is watched
    has_heartbeat: bool = False


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a peer. Times are seconds that this node spent listening."""

    node: bytes
    interval: float  # between two heartbeats
    known_for: float
    heartbeat_age: float | None  # since the latest heartbeat; None if none was heard, for only peers are watched


class Health:
    """Knows all peers, and watches the heartbeats of some."""

    def __init__(self, feed: HealthFeed, missing_heartbeats: int) -> None:
        self._listened = 0.0  # seconds
        self._feed = feed
        self._missing_heartbeats = missing_heartbeats
        self._peers: dict[bytes, _Peer] = {}
        self._watched: dict[bytes, _Peer] = {}
        self._listeners: dict[str, int] = {}  # how many want to hear each address

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, node: object) -> bool:
        return node in self._peers

    @property
    def watched(self) -> int:
        """The number of peers whose heartbeats are listened for."""
        return len(self._watched)

    def is_watched(self, node: bytes) -> bool:
        """Return whether the heartbeats of a peer are listened for."""
        return node in self._watched

    def advance(self, seconds: float) -> None:
        """Count the time since the last call as listening; of a long pause only a moment counts."""
        self._listened += min(seconds, _LONGEST_STEP)

    def add(self, node: bytes, uri: str, interval: float) -> None:
        """Add a peer. If it is known already, its address or interval may have changed."""
        known = self._peers.get(node)
        if known is not None and (known.uri, known.interval) == (uri, interval):
            return
        is_watched = node in self._watched
        known_at = self._listened if known is None else known.known_at
        self.forget(node)
        self._peers[node] = _Peer(uri, interval, known_at)
        if is_watched:
            self.watch(node)

    def listen_to(self, uri: str) -> None:
        """Subscribe to an address, if nobody has yet."""
        count = self._listeners.get(uri, 0)
        self._listeners[uri] = count + 1
        if not count:
            self._feed.subscribe(uri)

    def stop_listening_to(self, uri: str) -> None:
        """Undo one `listen_to`."""
        self._listeners[uri] -= 1
        if not self._listeners[uri]:
            del self._listeners[uri]
            self._feed.unsubscribe(uri)

    def watch(self, node: bytes) -> None:
        """Listen for the heartbeats of a known peer from now on."""
        peer = self._peers.get(node)
        if peer is None or node in self._watched:
            return
        peer.heard_at = self._listened
        self._watched[node] = peer
        self.listen_to(peer.uri)

    def record_heartbeat(self, node: bytes) -> bool:
        """Record a heartbeat; return whether the node is known."""
        peer = self._peers.get(node)
        if peer is None:
            return False
        peer.heard_at = self._listened
        peer.has_heartbeat = True
        return True

    def observations(self) -> list[Observation]:
        """Return what is known of every peer."""
        now = self._listened
        return [
            Observation(
                node=node,
                interval=peer.interval,
                known_for=now - peer.known_at,
                heartbeat_age=now - peer.heard_at if peer.has_heartbeat else None,
            )
            for node, peer in self._peers.items()
        ]

    def forget(self, node: bytes) -> None:
        """Remove a peer, and stop watching it."""
        self._peers.pop(node, None)
        peer = self._watched.pop(node, None)
        if peer is not None:
            self.stop_listening_to(peer.uri)

    def dead(self) -> list[bytes]:
        """Return the watched peers that were silent for too long."""
        dead = []
        for node, peer in self._watched.items():
            silence = self._listened - peer.heard_at
            if silence > self._missing_heartbeats * peer.interval:
                dead.append(node)
        return dead
