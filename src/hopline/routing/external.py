"""The receivers of other nodes, as far as they are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from hopline.message import ArgumentError, MessageIdentifier, ReceiverKind, receiver_kind
from hopline.routing.internal import Route
from hopline.routing.ring import Ring


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
    handled: dict[MessageIdentifier, int] = field(default_factory=dict)  # number of its actors that handle each message

    def described(self, identity: bytes) -> KnownNode:
        actors = {actor: tuple(sorted(handled, key=str)) for actor, handled in sorted(self.actors.items())}
        return KnownNode(identity, self.uri, tuple(sorted(self.hubs)), actors)


class ExternalTable:
    """Nodes, their receivers, and the messages that these handle. A node without receivers is removed."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, _Node] = {}
        self._handlers: dict[MessageIdentifier, Ring[bytes]] = {}
        self._homes: dict[bytes, bytes] = {}  # the node of each receiver
        self._at_uri: dict[str, set[bytes]] = {}
        # Looked up for every message, hence the dictionaries' own methods:
        self.handlers: Callable[[MessageIdentifier], Ring[bytes] | None] = self._handlers.get  # in the order of turns
        self.is_known: Callable[[bytes], bool] = self._nodes.__contains__

    # -- adding --------------------------------------------------------------------------------------------------------

    def add(self, node: bytes, uri: str, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Add a receiver of a node. A known node with another address has moved there."""
        kind = receiver_kind(receiver)
        if kind is None or (kind is ReceiverKind.ACTOR) is (identifier is None):
            raise ArgumentError("receiver", "a hub, or an actor with a message", receiver)
        if node in self._nodes:
            self._move(node, uri)
        else:
            self._nodes[node] = _Node(uri)
            self._at_uri.setdefault(uri, set()).add(node)
        known = self._nodes[node]
        self._homes[receiver] = node
        if identifier is None:
            known.hubs.add(receiver)
        elif identifier not in known.actors.setdefault(receiver, set()):
            known.actors[receiver].add(identifier)
            known.handled[identifier] = known.handled.get(identifier, 0) + 1
            self._handlers.setdefault(identifier, Ring()).add(node)

    def _move(self, node: bytes, uri: str) -> None:
        known = self._nodes[node]
        if known.uri != uri:
            self._leave(node, known.uri)
            known.uri = uri
            self._at_uri.setdefault(uri, set()).add(node)

    # -- removing ------------------------------------------------------------------------------------------------------

    def remove_node(self, node: bytes) -> NodeRemoval | None:
        """Remove a node with its receivers. Return None if it is not known."""
        known = self._nodes.pop(node, None)
        if known is None:
            return None
        for receiver in (*known.hubs, *known.actors):
            self._leave_home(receiver, node)
        for identifier in known.handled:
            self._unlist(node, identifier)
        return NodeRemoval(known.uri, self._leave(node, known.uri))

    def remove_route(
        self, node: bytes, receiver: bytes, identifier: MessageIdentifier | None = None
    ) -> NodeRemoval | None:
        """Remove a hub, or one message of an actor; and the node, if nothing remains of it.

        If the receiver is neither a hub nor an actor (an old peer may send none), the message is removed from all
        actors of the node.
        """
        known = self._nodes.get(node)
        if known is None:
            return None
        kind = receiver_kind(receiver)
        if kind is ReceiverKind.HUB:
            known.hubs.discard(receiver)
            self._leave_home(receiver, node)
        elif identifier is not None:
            for actor in [receiver] if kind is ReceiverKind.ACTOR else list(known.actors):
                self._remove_message(node, known, actor, identifier)
        return None if known.hubs or known.actors else self.remove_node(node)

    def _remove_message(self, node: bytes, known: _Node, actor: bytes, identifier: MessageIdentifier) -> None:
        messages = known.actors.get(actor, set())
        if identifier not in messages:
            return
        messages.remove(identifier)
        if not messages:
            del known.actors[actor]
            self._leave_home(actor, node)
        known.handled[identifier] -= 1
        if not known.handled[identifier]:  # a sibling may still handle it
            del known.handled[identifier]
            self._unlist(node, identifier)

    def _unlist(self, node: bytes, identifier: MessageIdentifier) -> None:
        ring = self._handlers[identifier]
        ring.discard(node)
        if not ring:
            del self._handlers[identifier]

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
        known = self._nodes.get(node)
        if known is None:
            return []
        routes = [Route(hub) for hub in known.hubs]
        for actor, messages in known.actors.items():
            routes += [Route(actor, identifier) for identifier in messages]
        return routes

    def home_of(self, receiver: bytes) -> bytes | None:
        """Return the node of a receiver, if it is known."""
        return self._homes.get(receiver)

    def known(self) -> list[KnownNode]:
        """Return every known node with its receivers, for display."""
        return [node.described(identity) for identity, node in self._nodes.items()]
