"""The receivers of this node: hubs, actors, and the messages that the actors handle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hopline.message import ArgumentError, MessageIdentifier, ReceiverKind, receiver_kind
from hopline.routing.ring import Ring


@dataclass(frozen=True, slots=True)
class Route:
    """A receiver and, for an actor, one of the messages that it handles."""

    receiver: bytes
    identifier: MessageIdentifier | None = None  # None for a hub


class InternalTable:
    """The receivers of this node. Those that are kept local get messages, but are never advertised."""

    def __init__(self) -> None:
        self._hubs: dict[bytes, bool] = {}
        self._actors: dict[bytes, dict[MessageIdentifier, bool]] = {}
        self._handlers: dict[MessageIdentifier, Ring[bytes]] = {}
        # Looked up for every message, hence the dictionaries' own methods:
        self.handlers: Callable[[MessageIdentifier], Ring[bytes] | None] = self._handlers.get  # in the order of turns
        self.has_hub: Callable[[bytes], bool] = self._hubs.__contains__

    def add_hub(self, hub: bytes, *, keep_local: bool = False) -> None:
        """Add a hub. Of several registrations the first one counts."""
        _require(hub, ReceiverKind.HUB)
        self._hubs.setdefault(hub, keep_local)

    def add_actor(self, actor: bytes, identifier: MessageIdentifier, *, keep_local: bool = False) -> None:
        """Add an actor for one message. Of several registrations the first one counts."""
        _require(actor, ReceiverKind.ACTOR)
        self._actors.setdefault(actor, {}).setdefault(identifier, keep_local)
        self._handlers.setdefault(identifier, Ring()).add(actor)

    def remove(self, receiver: bytes) -> list[Route]:
        """Remove a hub or an actor. Return its routes that were advertised."""
        keep_local = self._hubs.pop(receiver, None)
        if keep_local is not None:
            return [] if keep_local else [Route(receiver)]
        handled = self._actors.pop(receiver, {})
        for identifier in handled:
            ring = self._handlers[identifier]
            ring.discard(receiver)
            if not ring:
                del self._handlers[identifier]
        public = (identifier for identifier, keep_local in handled.items() if not keep_local)
        return [Route(receiver, identifier) for identifier in public]

    def has_actor(self, receiver: bytes) -> bool:
        """Return whether an actor is on this node."""
        return receiver in self._actors

    def handles(self, actor: bytes, identifier: MessageIdentifier) -> bool:
        """Return whether an actor is on this node and handles a message."""
        return identifier in self._actors.get(actor, ())

    @property
    def hubs(self) -> dict[bytes, bool]:
        """The hubs, and whether each is kept local."""
        return dict(self._hubs)

    @property
    def messages(self) -> dict[MessageIdentifier, tuple[bytes, ...]]:
        """The messages that are handled here, with the actors that handle them."""
        return {identifier: tuple(ring) for identifier, ring in self._handlers.items()}

    def advertised(self, identifiers: Iterable[MessageIdentifier] | None = None) -> Iterator[Route]:
        """Yield the routes that other nodes may know: those of some messages, or of all messages and hubs."""
        if identifiers is None:
            for hub, keep_local in self._hubs.items():
                if not keep_local:
                    yield Route(hub)
            identifiers = self._handlers
        for identifier in identifiers:
            for actor in self._handlers.get(identifier, ()):
                if not self._actors[actor][identifier]:
                    yield Route(actor, identifier)


def _require(receiver: bytes, kind: ReceiverKind) -> None:
    if receiver_kind(receiver) is not kind:
        name = "a hub" if kind is ReceiverKind.HUB else "an actor"
        raise ArgumentError("receiver", f"the identity of {name}", receiver)
