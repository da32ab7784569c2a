"""The lifespan of a node's actors: `on_start` before their first message, `on_stop` after their last handler.

Actors start one after the other, in the order in which they were added, and stop in the reverse order: an actor may
use what was added before it. Only an actor whose `on_start` returned is stopped. An error in `on_start` is raised: a
node without one of its actors would be another service than the one that was asked for. An error in `on_stop` is
logged, because the others still have to stop; so is an `on_stop` that takes longer than it may, which is cancelled.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from hopline.actors import Actor, flow_log
from hopline.errors import StartError
from hopline.message import ArgumentError
from hopline.node.settings import NodeSettings

if TYPE_CHECKING:
    from hopline.node.node import Node

log = flow_log("hopline.node")


def has_on_start(actor: Actor) -> bool:
    """Return whether an actor has an `on_start` of its own."""
    return getattr(actor.on_start, "__func__", None) is not Actor.on_start


def has_on_stop(actor: Actor) -> bool:
    """Return whether an actor has an `on_stop` of its own."""
    return getattr(actor.on_stop, "__func__", None) is not Actor.on_stop


def require_async_hooks(actor: Actor) -> None:
    """Raise `ArgumentError` unless `on_start` and `on_stop` are coroutine functions."""
    for name in ("on_start", "on_stop"):
        hook = getattr(actor, name)
        if not inspect.iscoroutinefunction(hook):
            raise ArgumentError(f"{type(actor).__qualname__}.{name}", f"async def {name}(self, node)", hook)


class ActorStart:
    """The start of an actor that was added. Awaiting it waits for the end of its `on_start`."""

    def __init__(self, task: asyncio.Task[None] | None = None) -> None:
        self._task = task  # None: the actor starts with its node, or has started

    def __await__(self) -> Generator[Any, None, None]:
        if self._task is not None:
            yield from self._task.__await__()


class HeldContext:
    """Holds an async context manager between two calls, in a task of its own.

    It is entered and left in the same task, as task groups require, although a node may be started in one task and
    stopped in another.
    """

    def __init__(self, context: AbstractAsyncContextManager[object]) -> None:
        self._context = context
        self._is_released = asyncio.Event()
        self._is_entered = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None

    async def enter(self) -> None:
        """Enter the context, or raise its error."""
        self._holding = holding = asyncio.create_task(self._hold())
        entered = asyncio.create_task(self._is_entered.wait())
        try:
            await asyncio.wait((holding, entered), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            holding.cancel()
            raise
        finally:
            entered.cancel()
        if holding.done():
            await self.leave()
        else:
            holding.add_done_callback(self._note_end)

    def _note_end(self, _: asyncio.Task[None]) -> None:
        if not self._is_released.is_set():
            log.error("the lifespan of the node has ended while the node runs; stopping the node raises its error")

    async def _hold(self) -> None:
        async with self._context:
            self._is_entered.set()
            await self._is_released.wait()

    async def leave(self) -> None:
        """Leave the context if it was entered. Raise its error, also one that ended it before."""
        self._is_released.set()
        holding, self._holding = self._holding, None
        if holding is None:
            return
        await asyncio.wait((holding,))
        if not holding.cancelled():
            holding.result()


class ActorLifespan:
    """Starts and stops the actors of one running node."""

    def __init__(self, node: Node, settings: NodeSettings) -> None:
        self._node = node
        self._stop_timeout = settings.stop_timeout
        self._cancel_timeout = settings.cancel_timeout
        self._started: dict[bytes, Actor] = {}  # in the order of their start
        self._stopping: set[asyncio.Task[None]] = set()

    def has_started(self, actor: Actor) -> bool:
        """Return whether the `on_start` of an actor has returned, and it has not stopped."""
        return actor.identity in self._started

    def stops_in(self, task: asyncio.Task[Any] | None) -> bool:
        """Return whether a task is an `on_stop` that runs."""
        return task in self._stopping

    async def start(self, actor: Actor) -> None:
        """Run `on_start`.

        Raises:
            StartError: It failed.
        """
        try:
            await actor.on_start(self._node)
        except Exception as error:
            raise StartError(type(actor).__qualname__, error) from error
        self.note_start(actor)

    def note_start(self, actor: Actor) -> None:
        """Take an actor as started that has nothing to do for it."""
        self._started[actor.identity] = actor

    async def stop(self, actor: Actor) -> None:
        """Run `on_stop`, for a limited time. Log what goes wrong."""
        has_started = self._started.pop(actor.identity, None) is not None
        if not (has_started and has_on_stop(actor)):
            return
        name = type(actor).__qualname__
        task = asyncio.create_task(actor.on_stop(self._node))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)
        await asyncio.wait((task,), timeout=self._stop_timeout)
        if not task.done():
            log.error("on_stop of %s did not end within %g s, and is cancelled", name, self._stop_timeout)
            task.cancel()
            await asyncio.wait((task,), timeout=self._cancel_timeout)
            task.add_done_callback(_error_of)  # whatever it is, it has been logged
        elif (error := _error_of(task)) is not None:
            log.error("on_stop of %s failed: %s: %s", name, type(error).__name__, error, exc_info=error)

    async def stop_all(self) -> bool:
        """Stop the actors that have started, the last first. Return whether there were any with an `on_stop`."""
        actors = list(reversed(self._started.values()))
        for actor in actors:
            await self.stop(actor)
        return any(has_on_stop(actor) for actor in actors)


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    return asyncio.CancelledError("it was cancelled") if task.cancelled() else task.exception()
