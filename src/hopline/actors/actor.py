"""The actor: a class whose handlers say what it does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, cast

from hopline.actors.handler import HandlerDefinition, definitions_of
from hopline.message import LocalError, MessageIdentifier, new_actor_identity


class Actor:
    """Derive from this and decorate the methods that handle messages with `@handler`.

    Handlers are plain functions or `async def`, and return nothing, one payload or `Message`, or several (a list, or
    yielded one by one). Plain functions of one actor never run at the same time; an `async def` lets others run while
    it waits, and so does a `blocking` function in its thread, up to `concurrency` of them.
    """

    concurrency: ClassVar[int | None] = None  # how many handlers may be under way at once; None: as the node says
    mailbox_capacity: ClassVar[int | None] = None  # how many messages may wait; None: as the node says

    _identity: bytes = b""

    @property
    def identity(self) -> bytes:
        """Who this is in the network: 37 bytes, for `Message.with_receiver_actor`."""
        if not self._identity:  # made late, so that an actor's own __init__ need not call ours
            self._identity = new_actor_identity()
        return self._identity

    def definitions(self) -> Iterable[HandlerDefinition]:
        """Give what this actor handles; override it to bind handlers to a partition of this very actor."""
        return definitions_of(type(self))


def handler_map(actor: Actor) -> dict[MessageIdentifier, HandlerDefinition]:
    """Give the handlers of an actor by what they handle. Actors of one class share one map."""
    cls, definitions = type(actor), actor.definitions()
    for name in ("concurrency", "mailbox_capacity"):
        value = getattr(actor, name)
        if not (value is None or (isinstance(value, int) and value >= 1)):
            raise LocalError(f"{cls.__qualname__}.{name}", "at least 1, or None", value)
    is_common = definitions is definitions_of(cls)
    if is_common and (known := cls.__dict__.get("__hopline_handler_map__")) is not None:
        return cast("dict[MessageIdentifier, HandlerDefinition]", known)
    handlers: dict[MessageIdentifier, HandlerDefinition] = {}
    for definition in definitions:
        first = handlers.setdefault(definition.identifier, definition)
        if first is not definition:
            both = f"{first.name} and {definition.name}"
            raise LocalError(cls.__qualname__, f"one handler for {definition.identifier}", both)
    if is_common:
        cls.__hopline_handler_map__ = handlers  # type: ignore[attr-defined]
    return handlers
