"""Middleware: code around every handler of a node, for logging, authentication, timing.

A node with middleware hosts its actors by `MiddlewareHost`, which leads every message through the middleware in a
task. A node without any hosts them by `ActorHost`, which knows nothing of it: without middleware nothing is paid for.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from hopline.actors import Actor, ActorHost, ActorRuntime, HandlerDefinition
from hopline.message import ArgumentError, Message, MessageIdentifier
from hopline.node.context import Context
from hopline.routing import NO_DEADLINE, Delivery, remaining_ticks

CallNext: TypeAlias = Callable[[], Awaitable[Any]]


class MiddlewareContext(Context):
    """The context of middleware: that of the handler, and which handler it is.

    Attributes:
        actor: The actor that handles the message.
        handler: The name of its method.
    """

    __slots__ = ("actor", "handler")

    def __init__(
        self, message: Message, runtime: ActorRuntime, actor: Actor, handler: str, *, deadline: float = NO_DEADLINE
    ) -> None:
        super().__init__(message, runtime, deadline=deadline)
        self.actor = actor
        self.handler = handler


class Middleware(Protocol):
    """Runs around every handler of a node: ``Node(..., middleware=[Timing(), Authentication(keys)])``.

    The first of several is the outermost. What `call_next` returns is what the handler returned; what this returns is
    sent in its place, and what this raises is reported to the caller as an error of the handler.
    """

    async def __call__(self, context: MiddlewareContext, call_next: CallNext, /) -> Any:
        """Handle a message by means of `call_next`, or without it."""
        ...


def checked(middleware: Iterable[Middleware]) -> tuple[Middleware, ...]:
    """Return middleware as a tuple, or raise `ArgumentError` if one of it is no coroutine function."""
    several = tuple(middleware)
    for one in several:
        if not _is_async(one):
            raise ArgumentError("middleware", "objects with async def __call__(self, context, call_next)", one)
    return several


def _is_async(middleware: object) -> bool:
    if inspect.isroutine(middleware):
        return inspect.iscoroutinefunction(middleware)
    return not isinstance(middleware, type) and inspect.iscoroutinefunction(getattr(middleware, "__call__", None))  # noqa: B004 - which kind it is


class MiddlewareHost(ActorHost):
    """Runs one actor on a node that has middleware."""

    __slots__ = ("_middleware",)

    def __init__(
        self,
        actor: Actor,
        definitions: dict[MessageIdentifier, HandlerDefinition],
        runtime: ActorRuntime,
        middleware: Sequence[Middleware],
    ) -> None:
        super().__init__(actor, {kind: _started(definition) for kind, definition in definitions.items()}, runtime)
        self._middleware = middleware

    def _start(self, definition: HandlerDefinition | None, delivery: Delivery, now: float) -> Any:
        start = super()._start

        async def call_handler() -> Any:
            returned = start(definition, delivery, now)
            while isinstance(returned, Awaitable):
                returned = await returned
            return returned

        context = self._context(definition, delivery, now)
        call: CallNext = call_handler
        for middleware in reversed(self._middleware):
            call = functools.partial(middleware, context, call)
        return call()

    def _context(self, definition: HandlerDefinition | None, delivery: Delivery, now: float) -> MiddlewareContext:
        message = delivery.message
        if delivery.deadline != NO_DEADLINE:
            message = message.clone(ttl_ticks=remaining_ticks(delivery, now))
        handler = "" if definition is None else definition.method
        return MiddlewareContext(message, self._runtime, self.actor, handler, deadline=delivery.deadline)


def _started(definition: HandlerDefinition) -> HandlerDefinition:
    """Return a definition whose function is called by `_start`, and never in place."""
    started = msgspec.structs.replace(definition)
    msgspec.structs.force_setattr(started, "read", None)
    return started
