"""Which peers are alive: whoever was heard within its own time."""

from __future__ import annotations

from typing import Protocol

import msgspec

_MOMENT = 0.25  # seconds


class HealthFeed(Protocol):
    """The signs of life that nodes publish."""

    def subscribe(self, uri: str) -> None:
        """Listen to the signs of life of a node."""
        ...

    def unsubscribe(self, uri: str) -> None:
        """Listen no longer."""
        ...


class _Peer(msgspec.Struct):
    uri: str
    interval: float
    heard_at: float
    was_heard: bool = False  # since it is watched at this address


class Health:
    """Watches every known peer from the moment it is known, so that a dead one is noticed by those too who never wrote.

    Only addresses that peers announced are listened to: nobody but a peer can keep a dead one alive. Its time is what
    this node spent listening: who was paused, or had no time to look, takes nobody for dead because of that.
    """

    def __init__(self, feed: HealthFeed, missing_heartbeats: int) -> None:
        self._listened = 0.0
        self._feed = feed
        self._missing = missing_heartbeats
        self._peers: dict[bytes, _Peer] = {}
        self._listeners: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, node: object) -> bool:
        return node in self._peers

    def listen_for(self, seconds: float) -> None:
        """Note that so much time went by since the last look; more than a moment cannot have been spent listening."""
        self._listened += min(seconds, _MOMENT)

    def watch(self, node: bytes, uri: str, interval: float) -> None:
        """Watch a peer. One that is watched already may have moved, or changed its pace."""
        peer = self._peers.get(node)
        if peer is None:
            self._peers[node] = _Peer(uri, interval, self._listened)
            self._listen(uri)
        elif (peer.uri, peer.interval) != (uri, interval):
            if peer.uri != uri:
                self._leave(peer.uri)
                self._listen(uri)
            self._peers[node] = _Peer(uri, interval, self._listened)

    def heard(self, node: bytes) -> bool:
        """Note a sign of life, and tell whether it came from somebody who is watched."""
        peer = self._peers.get(node)
        if peer is None:
            return False
        peer.heard_at = self._listened
        peer.was_heard = True
        return True

    def was_heard(self, node: bytes) -> bool:
        """Return whether a peer that is watched has given a sign of life."""
        peer = self._peers.get(node)
        return peer is not None and peer.was_heard

    def forget(self, node: bytes) -> None:
        """Watch a peer no longer."""
        peer = self._peers.pop(node, None)
        if peer is not None:
            self._leave(peer.uri)

    def dead(self) -> list[bytes]:
        """Give the peers that were silent for too long."""
        now, missing = self._listened, self._missing
        return [node for node, peer in self._peers.items() if now - peer.heard_at > missing * peer.interval]

    def _listen(self, uri: str) -> None:
        count = self._listeners.get(uri, 0)
        self._listeners[uri] = count + 1
        if not count:
            self._feed.subscribe(uri)

    def _leave(self, uri: str) -> None:
        self._listeners[uri] -= 1
        if not self._listeners[uri]:
            del self._listeners[uri]
            self._feed.unsubscribe(uri)
