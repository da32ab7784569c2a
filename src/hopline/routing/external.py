"""What lives on other nodes, as far as this node was told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from hopline.message import LocalError, MessageIdentifier, ReceiverKind, receiver_kind
from hopline.routing.internal import Route
from hopline.routing.ring import Ring


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    """What became of a node: its address, and whether nobody else is there any more."""

    uri: str
    disconnect: bool


@dataclass(slots=True)
class _Node:
    uri: str
    hubs: set[bytes] = field(default_factory=set)
    actors: dict[bytes, set[MessageIdentifier]] = field(default_factory=dict)
    handled: dict[MessageIdentifier, int] = field(default_factory=dict)  # by how many of its actors


class KnownNode(msgspec.Struct, frozen=True):
    """Another node with what lives there: its hubs, and its actors with the messages that each of them handles."""

    identity: bytes
    uri: str
    hubs: tuple[bytes, ...] = ()
    actors: dict[bytes, tuple[MessageIdentifier, ...]] = {}


class ExternalTable:
    """Nodes, their receivers, and which of them handle a message. A node without receivers is forgotten."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, _Node] = {}
        self._handlers: dict[MessageIdentifier, Ring[bytes]] = {}
        self._homes: dict[bytes, bytes] = {}  # the node of each receiver
        self._at_uri: dict[str, set[bytes]] = {}
        # Asked for every message, and therefore the dictionaries' own methods:
        self.handlers: Callable[[MessageIdentifier], Ring[bytes] | None] = self._handlers.get  # in the order of turns
        self.is_known: Callable[[bytes], bool] = self._nodes.__contains__

    # -- learning ------------------------------------------------------------------------------------------------------

    def add(self, node: bytes, uri: str, receiver: bytes, identifier: MessageIdentifier | None = None) -> None:
        """Note that a receiver lives on a node; a known node that comes with another address has moved there."""
        kind = receiver_kind(receiver)
        if kind is None or (kind is ReceiverKind.ACTOR) is (identifier is None):
            raise LocalError("receiver", "a hub, or an actor with a message", receiver)
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

    # -- forgetting ----------------------------------------------------------------------------------------------------

    def remove_node(self, node: bytes) -> NodeRemoval | None:
        """Forget a node and all that lives there; None if it was not known."""
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
        """Forget a hub, or one message of an actor. When nothing is left of the node it is forgotten too.

        A receiver that is neither (an old peer may send none) takes the message from all actors of the node.
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
        """Take a node from an address, and tell whether the address is empty now."""
        others = self._at_uri[uri]
        others.discard(node)
        if not others:
            del self._at_uri[uri]
        return not others

    # -- asking --------------------------------------------------------------------------------------------------------

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._nodes)

    def uri_of(self, node: bytes) -> str:
        """Give the address of a known node."""
        return self._nodes[node].uri

    def routes_to(self, node: bytes) -> list[Route]:
        """Give what is known to live on a node."""
        known = self._nodes.get(node)
        if known is None:
            return []
        actors = (Route(actor, one) for actor, messages in known.actors.items() for one in messages)
        return [*map(Route, known.hubs), *actors]

    def home_of(self, receiver: bytes) -> bytes | None:
        """Give the node where a receiver lives."""
        return self._homes.get(receiver)

    def known(self) -> list[KnownNode]:
        """Give every known node with what lives there, for people."""
        return [
            KnownNode(
                identity,
                node.uri,
                tuple(sorted(node.hubs)),
                {actor: tuple(sorted(handled, key=str)) for actor, handled in sorted(node.actors.items())},
            )
            for identity, node in self._nodes.items()
        ]
