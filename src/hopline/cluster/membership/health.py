"""Which peers are alive: those whose heartbeats arrive within the interval that they announced.

Every known peer is watched from the moment it is known, so that a dead one is noticed by nodes too that never sent it
anything. Only the addresses that peers announced are subscribed to, so nobody else can keep a dead peer alive.

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
    heard_at: float
    has_heartbeat: bool = False  # since it is watched at this address


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a watched peer. Times are seconds that this node spent listening."""

    node: bytes
    interval: float  # between two heartbeats
    known_for: float
    heartbeat_age: float | None  # since the latest heartbeat; None before the first one


class Health:
    """Watches the heartbeats of peers."""

    def __init__(self, feed: HealthFeed, missing_heartbeats: int) -> None:
        self._listened = 0.0  # seconds
        self._feed = feed
        self._missing_heartbeats = missing_heartbeats
        self._peers: dict[bytes, _Peer] = {}
        self._watched: dict[str, int] = {}  # the number of peers at each address

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, node: object) -> bool:
        return node in self._peers

    def advance(self, seconds: float) -> None:
        """Count the time since the last call as listening; of a long pause only a moment counts."""
        self._listened += min(seconds, _LONGEST_STEP)

    def watch(self, node: bytes, uri: str, interval: float) -> None:
        """Watch a peer. If it is watched already, its address or interval may have changed."""
        peer = self._peers.get(node)
        if peer is None:
            self._peers[node] = _Peer(uri, interval, known_at=self._listened, heard_at=self._listened)
            self._subscribe(uri)
        elif (peer.uri, peer.interval) != (uri, interval):
            if peer.uri != uri:
                self._unsubscribe(peer.uri)
                self._subscribe(uri)
            self._peers[node] = _Peer(uri, interval, known_at=peer.known_at, heard_at=self._listened)

    def record_heartbeat(self, node: bytes) -> bool:
        """Record a heartbeat; return whether the node is watched."""
        peer = self._peers.get(node)
        if peer is None:
            return False
        peer.heard_at = self._listened
        peer.has_heartbeat = True
        return True

    def has_heartbeat(self, node: bytes) -> bool:
        """Return whether a watched peer has sent any heartbeat."""
        peer = self._peers.get(node)
        return peer is not None and peer.has_heartbeat

    def observations(self) -> list[Observation]:
        """Return what is known of every watched peer."""
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
        """Stop watching a peer."""
        peer = self._peers.pop(node, None)
        if peer is not None:
            self._unsubscribe(peer.uri)

    def dead(self) -> list[bytes]:
        """Return the peers that were silent for too long."""
        dead = []
        for node, peer in self._peers.items():
            silence = self._listened - peer.heard_at
            if silence > self._missing_heartbeats * peer.interval:
                dead.append(node)
        return dead

    def _subscribe(self, uri: str) -> None:
        count = self._watched.get(uri, 0)
        self._watched[uri] = count + 1
        if not count:
            self._feed.subscribe(uri)

    def _unsubscribe(self, uri: str) -> None:
        self._watched[uri] -= 1
        if not self._watched[uri]:
            del self._watched[uri]
            self._feed.unsubscribe(uri)
