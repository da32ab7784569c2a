"""The receivers of other nodes, as far as they are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from hopline.message import ArgumentError, MessageIdentifier, ReceiverKind, receiver_kind
from hopline.routing.internal import Route
from hopline.routing.ring import HandlerRings


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    """A node that was removed: its address, and whether no other node is at that address."""

    uri: str
    disconnect: bool


class KnownNode(msgspec.Struct, frozen=True):
    """Another node with its hubs, and its actors with the messages that each of them handles."""

    identity: bytes
    uri: str
    hubs: tuple[bytes, ...] = ()
    actors: dict[bytes, tuple[MessageIdentifier, ...]] = {}


@dataclass(slots=True)
class _Node:
    uri: str
    hubs: set[bytes] = field(default_factory=set)
    actors: dict[bytes, set[MessageIdentifier]] = field(default_factory=dict)
    handled: Counter[MessageIdentifier] = field(default_factory=Counter)  # how many of its actors handle each message

    def described(self, identity: bytes) -> KnownNode:
        hubs = sorted(self.hubs)
        actors: dict[bytes, tuple[MessageIdentifier, ...]] = {}
        for actor in sorted(self.actors):
            messages = sorted(self.actors[actor], key=str)
            actors[actor] = tuple(messages)
        return KnownNode(
            identity=identity,
            uri=self.uri,
            hubs=tuple(hubs),
            actors=actors,
        )


class ExternalTable:
    """Nodes, their receivers, and the messages that these handle. A node without receivers is removed."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, _Node] = {}
        self._handlers = HandlerRings()
        self._homes: dict[bytes, bytes] = {}  # the node of each receiver
        self._at_uri: dict[str, set[bytes]] = {}
        # Looked up for every message, hence the dictionaries' own methods:
        self.handlers = self._handlers.get
        self.is_known = self._nodes.__contains__

    # -- adding --------------------------------------------------------------------------------------------------------

    def add(self, node: bytes, uri: str, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Add a receiver of a node. A known node with another address has moved there."""
        expected_kind = ReceiverKind.HUB if identifier is None else ReceiverKind.ACTOR
        if receiver_kind(receiver) is not expected_kind:
            raise ArgumentError("receiver", "a hub, or an actor with a message", receiver)
        entry = self._entry_at(node, uri)
        self._homes[receiver] = node
        if identifier is None:
            entry.hubs.add(receiver)
            return
        messages = entry.actors.setdefault(receiver, set())
        if identifier not in messages:
            messages.add(identifier)
            entry.handled[identifier] += 1
            self._handlers.add(identifier, node)

    def _entry_at(self, node: bytes, uri: str) -> _Node:
        """Return the entry of a node at an address, new or moved there if necessary."""
        entry = self._nodes.get(node)
        if entry is None:
            entry = self._nodes[node] = _Node(uri)
        elif entry.uri != uri:
            self._leave(node, entry.uri)
            entry.uri = uri
        else:
            return entry
        nodes_there = self._at_uri.setdefault(uri, set())
        nodes_there.add(node)
        return entry

    # -- removing ------------------------------------------------------------------------------------------------------

    def remove_node(self, node: bytes) -> NodeRemoval | None:
        """Remove a node with its receivers. Return None if it is not known."""
        entry = self._nodes.pop(node, None)
        if entry is None:
            return None
        for receiver in (*entry.hubs, *entry.actors):
            self._leave_home(receiver, node)
        for identifier in entry.handled:
            self._handlers.discard(identifier, node)
        is_address_unused = self._leave(node, entry.uri)
        return NodeRemoval(entry.uri, disconnect=is_address_unused)

    def remove_route(
        self,
        node: bytes,
        receiver: bytes,
        identifier: MessageIdentifier | None = None,
    ) -> NodeRemoval | None:
        """Remove a hub, or one message of an actor; and the node, if nothing remains of it.

        If the receiver is neither a hub nor an actor (an old peer may send none), the message is removed from all
        actors of the node.
        """
        entry = self._nodes.get(node)
        if entry is None:
            return None
        kind = receiver_kind(receiver)
        if kind is ReceiverKind.HUB:
            entry.hubs.discard(receiver)
            self._leave_home(receiver, node)
        elif identifier is not None:
            actors = [receiver] if kind is ReceiverKind.ACTOR else list(entry.actors)
            for actor in actors:
                self._remove_message(node, actor, identifier)
        has_receivers = entry.hubs or entry.actors
        return None if has_receivers else self.remove_node(node)

    def _remove_message(self, node: bytes, actor: bytes, identifier: MessageIdentifier) -> None:
        entry = self._nodes[node]
        messages = entry.actors.get(actor, set())
        if identifier not in messages:
            return
        messages.remove(identifier)
        if not messages:
            del entry.actors[actor]
            self._leave_home(actor, node)
        entry.handled[identifier] -= 1
        if not entry.handled[identifier]:  # no other actor of the node handles it
            del entry.handled[identifier]
            self._handlers.discard(identifier, node)

    def _leave_home(self, receiver: bytes, node: bytes) -> None:
        if self._homes.get(receiver) == node:
            del self._homes[receiver]

    def _leave(self, node: bytes, uri: str) -> bool:
        """Remove a node from an address. Return whether no other node is there."""
        others = self._at_uri[uri]
        others.discard(node)
        if not others:
            del self._at_uri[uri]
        return not others

    # -- looking up ----------------------------------------------------------------------------------------------------

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._nodes)

    def uri_of(self, node: bytes) -> str:
        """Return the address of a known node."""
        return self._nodes[node].uri

    def routes_to(self, node: bytes) -> list[Route]:
        """Return the routes to a node."""
        entry = self._nodes.get(node)
        if entry is None:
            return []
        routes = [Route(hub) for hub in entry.hubs]
        for actor, messages in entry.actors.items():
            routes += [Route(actor, identifier) for identifier in messages]
        return routes

    def home_of(self, receiver: bytes) -> bytes | None:
        """Return the node of a receiver, if it is known."""
        return self._homes.get(receiver)

    def kinds(self) -> Iterator[MessageIdentifier]:
        """Iterate over the messages that other nodes handle."""
        return iter(self._handlers)

    def known(self) -> list[KnownNode]:
        """Return every known node with its receivers, for display."""
        nodes = self._nodes.items()
        return [node.described(identity) for identity, node in nodes]
