"""The base class of actors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, cast

from hopline.actors.handler import HandlerDefinition, definitions_of
from hopline.message import ArgumentError, MessageIdentifier, new_actor_identity


class Actor:
    """Derive from this and decorate the methods that handle messages with `@handler`.

    Handlers are plain functions or `async def`, and return nothing, one payload or `Message`, or several (a list, or
    yielded one by one). Plain functions of one actor never run at the same time; an `async def` lets others run while
    it waits, and so does a `blocking` function in its thread, up to `concurrency` of them.
    """

    concurrency: ClassVar[int | None] = None  # how many handlers may run at once; None: the node's setting
    mailbox_capacity: ClassVar[int | None] = None  # how many messages may wait; None: the node's setting

    _identity: bytes = b""

    @property
    def identity(self) -> bytes:
        """The actor's identity in the network: 37 bytes, for `Message.with_receiver_actor`."""
        if not self._identity:  # created on first use, so that subclasses need not call our __init__
            self._identity = new_actor_identity()
        return self._identity

    def definitions(self) -> Iterable[HandlerDefinition]:
        """Return what this actor handles. Override it to bind handlers to a partition of this particular actor."""
        return definitions_of(type(self))

    async def on_start(self, node: Any) -> None:
        """Prepare for the first message: open files, connect to databases, begin tasks. Override it.

        It runs before any actor of a starting node gets a message, with the actors in the order in which they were
        added. The node has joined its network, so it can send requests to others; an error prevents its start.

        Args:
            node: The `Node` that starts, or to which the actor was added.
        """

    async def on_stop(self, node: Any) -> None:
        """Clean up after the last message: what `on_start` did, in reverse. Override it.

        It runs after the last handler of the node has ended, with the actors in reverse order, for the setting
        `stop_timeout` at most. The node can still send. An error is logged, and the other actors still stop.

        Args:
            node: The `Node` that stops, or from which the actor was removed.
        """


def handler_map(actor: Actor) -> dict[MessageIdentifier, HandlerDefinition]:
    """Return the handlers of an actor by message. Actors of one class share one map.

    Raises:
        ArgumentError: Two handlers handle the same message, or a setting of the class is invalid.
    """
    cls, definitions = type(actor), actor.definitions()
    for name in ("concurrency", "mailbox_capacity"):
        value = getattr(actor, name)
        if not (value is None or (isinstance(value, int) and value >= 1)):
            raise ArgumentError(f"{cls.__qualname__}.{name}", "at least 1, or None", value)
    is_shared = definitions is definitions_of(cls)
    cached = cls.__dict__.get("__hopline_handler_map__")
    if is_shared and cached is not None:
        return cast("dict[MessageIdentifier, HandlerDefinition]", cached)
    handlers: dict[MessageIdentifier, HandlerDefinition] = {}
    for definition in definitions:
        first = handlers.setdefault(definition.identifier, definition)
        if first is not definition:
            both = f"{first.name} and {definition.name}"
            raise ArgumentError(cls.__qualname__, f"one handler for {definition.identifier}", both)
    if is_shared:
        cls.__hopline_handler_map__ = handlers  # type: ignore[attr-defined]
    return handlers
