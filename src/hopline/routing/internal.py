"""The receivers of this node: hubs, actors, and the messages that the actors handle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hopline.message import ArgumentError, MessageIdentifier, ReceiverKind, receiver_kind
from hopline.routing.ring import HandlerRings


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
        self._handlers = HandlerRings()
        # Looked up for every message, hence the dictionaries' own methods:
        self.handlers = self._handlers.get
        self.has_hub = self._hubs.__contains__

    def add_hub(self, hub: bytes, *, keep_local: bool = False) -> None:
        """Add a hub. Of several registrations the first one counts."""
        _require(hub, ReceiverKind.HUB)
        self._hubs.setdefault(hub, keep_local)

    def add_actor(self, actor: bytes, identifier: MessageIdentifier, *, keep_local: bool = False) -> None:
        """Add an actor for one message. Of several registrations the first one counts."""
        _require(actor, ReceiverKind.ACTOR)
        handled = self._actors.setdefault(actor, {})
        handled.setdefault(identifier, keep_local)
        self._handlers.add(identifier, actor)

    def remove(self, receiver: bytes) -> list[Route]:
        """Remove a hub or an actor. Return its routes that were advertised."""
        keep_local = self._hubs.pop(receiver, None)
        if keep_local is not None:
            return [] if keep_local else [Route(receiver)]
        handled = self._actors.pop(receiver, {})
        advertised: list[Route] = []
        for identifier, keep_local in handled.items():
            self._handlers.discard(identifier, receiver)
            if not keep_local:
                advertised.append(Route(receiver, identifier))
        return advertised

    def has_actor(self, receiver: bytes) -> bool:
        """Return whether an actor is on this node."""
        return receiver in self._actors

    def handles(self, actor: bytes, identifier: MessageIdentifier) -> bool:
        """Return whether an actor is on this node and handles a message."""
        handled = self._actors.get(actor, ())
        return identifier in handled

    @property
    def hubs(self) -> dict[bytes, bool]:
        """The hubs, and whether each is kept local."""
        return self._hubs.copy()

    @property
    def messages(self) -> dict[MessageIdentifier, tuple[bytes, ...]]:
        """The messages that are handled here, with the actors that handle them."""
        messages: dict[MessageIdentifier, tuple[bytes, ...]] = {}
        for identifier, ring in self._handlers.items():
            messages[identifier] = tuple(ring)
        return messages

    def advertised(self, identifiers: Iterable[MessageIdentifier] | None = None) -> Iterator[Route]:
        """Yield the routes that other nodes may know: those of some messages, or of all messages and hubs."""
        if identifiers is None:
            yield from self._advertised_hubs()
            identifiers = self._handlers
        for identifier in identifiers:
            actors = self._handlers.get(identifier, ())
            for actor in actors:
                keep_local = self._actors[actor][identifier]
                if not keep_local:
                    yield Route(actor, identifier)

    def _advertised_hubs(self) -> Iterator[Route]:
        for hub, keep_local in self._hubs.items():
            if not keep_local:
                yield Route(hub)


def _require(receiver: bytes, kind: ReceiverKind) -> None:
    if receiver_kind(receiver) is kind:
        return
    name = "a hub" if kind is ReceiverKind.HUB else "an actor"
    raise ArgumentError("receiver", f"the identity of {name}", receiver)
