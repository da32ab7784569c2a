"""The actors of a node while it runs: their hosts, and their start and stop.

An actor is *hosted* when messages reach it. One that is added before the node has started is hosted when all actors
have started; one that is added later, when its own `on_start` has returned. An actor that is removed is withdrawn at
once, and stops when its handlers have finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from hopline.actors import Actor, ActorHost, ActorRuntime, flow_log, handler_map
from hopline.message import NotRunningError
from hopline.node.lifespan import ActorLifespan, ActorStart, has_on_start
from hopline.node.middleware import Middleware, MiddlewareHost
from hopline.node.routing.router import Router

if TYPE_CHECKING:
    from hopline.node.node import Node

log = flow_log("hopline.node")


class RunningActors:
    """The actors of one run of a node.

    Args:
        node: The node.
        router: Its router, which sends messages to the hosts.
        runtime: What all hosts share.
        is_stopping: Returns whether the node has begun to stop.
    """

    def __init__(self, node: Node, router: Router, runtime: ActorRuntime, is_stopping: Callable[[], bool]) -> None:
        self.hosts: dict[bytes, ActorHost] = {}
        self.has_started = False  # whether all actors have: from then on others start when they are added
        self._node = node
        self._router = router
        self._runtime = runtime
        self._is_stopping = is_stopping
        self._lifespan = ActorLifespan(node, node.settings)
        self._cancel_timeout = node.settings.cancel_timeout
        self._built_in: list[ActorHost] = []  # hosts of the node's own actors, which applications do not see
        self._leaving: list[ActorHost] = []  # of actors that were removed while handlers were running
        self._starting: dict[bytes, asyncio.Task[None]] = {}  # of actors that were added to the running node

    @property
    def all_hosts(self) -> tuple[ActorHost, ...]:
        """The hosts of all actors, also of those that applications do not see."""
        return (*self.hosts.values(), *self._leaving, *self._built_in)

    def runs_handler_in(self, task: asyncio.Task[Any] | None) -> bool:
        """Return whether a task is a handler of an actor of the application that has not been removed."""
        return any(host.runs(task) for host in self.hosts.values())

    def stops_in(self, task: asyncio.Task[Any] | None) -> bool:
        """Return whether a task is an `on_stop` that runs."""
        return self._lifespan.stops_in(task)

    # -- starting ------------------------------------------------------------------------------------------------------

    async def start_all(self) -> None:
        """Start the actors of the node one after the other, then host them all."""
        node = self._node
        while unstarted := [actor for actor in node.actors if not self._lifespan.has_started(actor)]:
            for actor in unstarted:  # each may add others, and remove some
                if any(actor.identity == other.identity for other in node.actors):
                    await self._lifespan.start(actor)
                    self.require_not_stopping()
        for actor in node.actors:
            self._host(actor)
        self.has_started = True

    def require_not_stopping(self) -> None:
        """Raise `NotRunningError` if the node has begun to stop."""
        if self._is_stopping():
            raise NotRunningError("the node was stopped while it started")

    def add(self, actor: Actor, forget: Callable[[Actor], None]) -> ActorStart:
        """Start and host an actor that was added to the node. If its start fails, call `forget` with it."""
        if not has_on_start(actor):
            self._lifespan.note_start(actor)
            self._host(actor)
            return ActorStart()
        return ActorStart(self._start_in_task(actor, self._start_added(actor, forget)))

    def _start_in_task(self, actor: Actor, start: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._starting[actor.identity] = self._runtime.loop.create_task(start)

        def note_end(task: asyncio.Task[None]) -> None:
            self._starting.pop(actor.identity, None)
            if not task.cancelled():
                task.exception()  # it has been logged, if nobody waits for it

        task.add_done_callback(note_end)
        return task

    async def _start_added(self, actor: Actor, forget: Callable[[Actor], None]) -> None:
        try:
            await self._lifespan.start(actor)
            self.require_not_stopping()
        except BaseException as error:
            forget(actor)
            if isinstance(error, Exception):
                log.error("%s was not added: %s", type(actor).__qualname__, error, exc_info=error)
            elif self._is_stopping():
                raise NotRunningError("the node was stopped while the actor started") from None
            raise
        self._host(actor)

    def _host(self, actor: Actor) -> None:
        if not handler_map(actor):
            log.warning("%s handles nothing", type(actor).__qualname__)
        self.hosts[actor.identity] = self._new_host(actor, self._node.middleware)

    def host_built_in(self, actor: Actor) -> None:
        """Host an actor of the node itself."""
        self._built_in.append(self._new_host(actor))

    def _new_host(self, actor: Actor, middleware: tuple[Middleware, ...] = ()) -> ActorHost:
        """Return the host of an actor, which messages reach from now on."""
        handlers = handler_map(actor)
        if middleware:
            host: ActorHost = MiddlewareHost(actor, handlers, self._runtime, middleware)
        else:
            host = ActorHost(actor, handlers, self._runtime)
        handled = {identifier: definition.keep_local for identifier, definition in handlers.items()}
        self._router.directory.add_actor(host, handled)
        return host

    # -- stopping ------------------------------------------------------------------------------------------------------

    async def remove(self, actor: Actor, drain_timeout: float) -> None:
        """Withdraw an actor, wait for its handlers, and stop it."""
        host = self.hosts.get(actor.identity)
        if host is None:  # its `on_start` still runs
            await self._cancel_starts(actor.identity)
        else:
            await self._retire(host, drain_timeout)
        await self._lifespan.stop(actor)

    async def _retire(self, host: ActorHost, drain_timeout: float) -> None:
        del self.hosts[host.identity]
        self._router.remove(host.identity, host.close())
        self._leaving.append(host)
        try:
            async with asyncio.timeout(drain_timeout):
                await host.idle()
        except TimeoutError:
            await host.stop(self._cancel_timeout)
        self._leaving.remove(host)  # after a cancellation it stays there, and stops with the node

    async def stop_all(self) -> bool:
        """Stop all actors, after their last handler. Return whether there were any with an `on_stop`."""
        await self._cancel_starts(*self._starting)
        return await self._lifespan.stop_all()

    async def _cancel_starts(self, *actors: bytes) -> None:
        """Cancel the starts of actors that were added, and wait until they have ended."""
        tasks = [task for actor in actors if (task := self._starting.get(actor)) is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._cancel_timeout)
