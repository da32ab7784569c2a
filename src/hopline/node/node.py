"""The node: runs actors and hubs, alone or as a part of a network."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from hopline.actors import Actor, ActorHost, handler_map
from hopline.capture.events import Level
from hopline.capture.settings import CaptureSettings
from hopline.client import MessageHub
from hopline.cluster import Membership
from hopline.cluster.membership.refusals import Refusal
from hopline.message import ArgumentError, Message, NotRunningError, as_bytes, new_node_identity
from hopline.node.introspection import Introspection
from hopline.node.lifespan import ActorStart, has_on_start, require_async_hooks
from hopline.node.middleware import Middleware, checked
from hopline.node.network.settings import Network
from hopline.node.report import NodeReport, PeerReport, StopReport
from hopline.node.reporting import report_of, stats_of
from hopline.node.routing.links import Connect
from hopline.node.routing.router import Router
from hopline.node.running import RunningNode
from hopline.node.settings import NodeSettings
from hopline.node.stats import Stats
from hopline.node.stopping import drain, end
from hopline.observers.dead_letters import DeadLetter
from hopline.observers.observer import NodeObserver
from hopline.observers.timings import Timings
from hopline.routing import KnownNode, MessageOutcome
from hopline.schemas.book import SchemaBook
from hopline.schemas.contracts import payloads_of

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

Lifespan: TypeAlias = Callable[["Node"], AbstractAsyncContextManager[object]]

STANDALONE_URI = "tcp://localhost"


def _is_plain_function(hook: object) -> bool:
    return callable(hook) and not inspect.iscoroutinefunction(hook)


class Node:
    """Runs actors and hubs that can reach one another. Use it as ``async with Node(Greeter()) as node``.

    It runs on the event loop on which it was started, and may be started again after it stopped.

    Args:
        actors: The actors to begin with.
        identity: The node's identity. Default: a new one.
        uri: The address that messages of this node carry in their trace, if it has no network.
        settings: Capacities and timeouts.
        on_outcome: Called with every message and its outcome.
        on_dead_letter: Called with every message that reached no receiver or whose handler failed, soon afterwards.
        tracer_provider: Where OpenTelemetry spans go. Default: the provider of the process, if one is set.
        clock: Returns monotonic seconds, for tests.
        network: The network to join, where nodes find each other.
        connect: Opens links to other nodes, to plug in another kind of network.
        discover: Looks for a route to a message, to plug in another kind of network.
        capture: Where traffic may be recorded, and at which level to start.
        middleware: What runs around every handler, the outermost first.
        lifespan: Returns an async context manager, which is entered before the node starts and left after it stopped.
        observers: Further observers of what happens to messages.
    """

    def __init__(
        self,
        *actors: Actor,
        identity: str | bytes | None = None,
        uri: str = STANDALONE_URI,
        settings: NodeSettings | None = None,
        on_outcome: Callable[[MessageOutcome], None] | None = None,
        on_dead_letter: Callable[[DeadLetter], object] | None = None,
        tracer_provider: TracerProvider | None = None,
        clock: Callable[[], float] | None = None,
        network: Network | None = None,
        connect: Connect | None = None,
        discover: Callable[[Message], None] | None = None,
        capture: CaptureSettings | None = None,
        middleware: Iterable[Middleware] = (),
        lifespan: Lifespan | None = None,
        observers: Iterable[NodeObserver] = (),
    ) -> None:
        for name, value, kind in (
            ("settings", settings, NodeSettings),
            ("network", network, Network),
            ("capture", capture, CaptureSettings),
        ):
            if not (value is None or isinstance(value, kind)):
                raise ArgumentError(f"node {name}", f"{kind.__name__}, or nothing", value)
        if on_dead_letter is not None and not _is_plain_function(on_dead_letter):
            expected = "a plain function; one that begins a task, for what has to wait"
            raise ArgumentError("on_dead_letter", expected, on_dead_letter)
        self.identity = new_node_identity() if identity is None else as_bytes(identity, "node identity")
        self.uri = uri
        self.settings = settings or NodeSettings()
        self.on_outcome = on_outcome
        self.on_dead_letter = on_dead_letter
        self.tracer_provider = tracer_provider
        self.clock = clock
        self.network = network
        self.connect = connect
        self.discover = discover
        self.capture = capture
        self.middleware = checked(middleware)
        self.lifespan = lifespan
        self.observers = tuple(observers)
        self.is_timed = False
        self.schemas = SchemaBook()
        self._actors: dict[bytes, Actor] = {}
        self._running: RunningNode | None = None
        self._final_stats: Stats | None = None
        for actor in actors:
            self.add(actor)

    @classmethod
    def from_config(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        actors: Iterable[Actor] = (),
        middleware: Iterable[Middleware] = (),
        lifespan: Lifespan | None = None,
        on_outcome: Callable[[MessageOutcome], None] | None = None,
        on_dead_letter: Callable[[DeadLetter], object] | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> Self:
        """Return the node that ``hopline node`` would run: its network, keys, settings, capture and metrics.

        Args:
            path: The configuration file. Default: the one that ``HOPLINE_CONFIG`` names, or ``hopline.toml`` in the
                current directory if it exists. Variables such as ``HOPLINE_NODE__ADDRESS`` override it.
            actors: As for the class, as everything below.
            middleware: What runs around every handler.
            lifespan: What is held while the node runs. The endpoint for metrics is opened before it.
            on_outcome: Called with every message and its outcome.
            on_dead_letter: Called with every message that reached no receiver or whose handler failed.
            tracer_provider: Where OpenTelemetry spans go.

        Raises:
            ConfigurationError: For the first value that cannot be used.
        """
        # The one import that goes up: a class cannot be given its constructors from above.
        from hopline.application.configured import configured_node, found_configuration

        configured = configured_node(
            found_configuration(path),
            *actors,
            node_type=cls,
            middleware=middleware,
            lifespan=lifespan,
            on_outcome=on_outcome,
            on_dead_letter=on_dead_letter,
            tracer_provider=tracer_provider,
        )
        return configured.node

    # -- starting and stopping -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the node and its actors. Does nothing if it is running."""
        if self._running is not None and self._running.stopping is not None:
            await asyncio.shield(self._running.stopping)
        if self._running is not None:
            return
        running = self._running = RunningNode(self)
        try:
            await self._open(running)
        except BaseException:
            if self._running is running:
                await self.stop(0.0)
            raise

    async def _open(self, running: RunningNode) -> None:
        connection = running.connection
        if connection is not None:
            self.uri = connection.uri
        actors = running.actors
        if running.held is not None:
            await running.held.enter()
            actors.require_not_stopping()
        # Actors that have to start first are announced when all have started, others together with the node.
        starts_later = any(has_on_start(actor) for actor in self.actors)
        if not starts_later:
            await actors.start_all()
        if connection is not None:
            actors.host_built_in(self._introspection(running))
            await connection.attach(running.router)
        if starts_later:
            await actors.start_all()

    def _introspection(self, running: RunningNode) -> Introspection:
        """Return the built-in actor, which answers requests about this node."""
        return Introspection(running.tables, self.report, lambda: self.peers, running.tail, self.set_capture_level)

    async def stop(self, drain_timeout: float | None = None) -> StopReport:
        """Stop the node: finish what is under way, then fail the rest.

        Handlers can still send messages and requests meanwhile. Promises that can no longer be answered fail.

        Args:
            drain_timeout: Seconds to wait for what is under way. Default: the setting `drain_timeout`.

        Returns:
            What could not be finished.

        Raises:
            ArgumentError: Called from a handler of this node, which stopping would wait for.
        """
        running = self._running
        if running is None:
            return StopReport()
        if running.actors.runs_handler_in(asyncio.current_task()):
            advice = "a call from outside its handlers, which it would wait for: asyncio.create_task(node.stop())"
            raise ArgumentError("stop", advice, "a call from a handler")
        if running.actors.stops_in(asyncio.current_task()):
            advice = "a call from outside on_stop, which it would wait for: asyncio.create_task(node.stop())"
            raise ArgumentError("stop", advice, "a call from on_stop")
        if running.stopping is None:
            running.stopping = asyncio.get_running_loop().create_future()
            try:
                await drain(running, self.settings.drain_timeout if drain_timeout is None else drain_timeout)
            finally:
                # In a task of its own: cancelling this call must not leave the node half stopped.
                running.ending = asyncio.ensure_future(self._end(running, running.stopping))
        return await asyncio.shield(running.stopping)

    async def _end(self, running: RunningNode, stopped: asyncio.Future[StopReport]) -> None:
        report, problem = StopReport(), None
        try:
            report = await end(running, self.settings)
        except Exception as error:  # passed on to those who wait in `stop`
            problem = error
        finally:
            self._final_stats = stats_of(running)
            self._running = None
            if problem is None:
                stopped.set_result(report)
            else:
                stopped.set_exception(problem)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error there is no reason to wait for what is under way.
        await self.stop(0.0 if kind is not None else None)

    @property
    def is_running(self) -> bool:
        """Whether the node was started and has not stopped."""
        return self._running is not None

    @property
    def is_starting(self) -> bool:
        """Whether the node runs, but not all of its actors have started."""
        return self._running is not None and not self._running.actors.has_started

    @property
    def is_stopping(self) -> bool:
        """Whether the node takes no more work, because it is about to stop."""
        return self._running is not None and self._running.stopping is not None

    def _require_running(self) -> RunningNode:
        if self._running is None:
            raise NotRunningError("the node is not running: use `async with Node(...) as node`, or await node.start()")
        return self._running

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Announcements of other nodes that were refused because of keys: missing, wrong, or of another kind."""
        connection = self._require_running().connection
        return () if connection is None else connection.refusals

    # -- actors and hubs -----------------------------------------------------------------------------------------------

    @property
    def hub(self) -> MessageHub:
        """The node's own hub."""
        return self._require_running().hub

    def new_hub(self) -> MessageHub:
        """Return another hub, with an identity of its own."""
        return self._require_running().new_hub(self)

    @property
    def router(self) -> Router:
        """The router, for plugging in a network."""
        return self._require_running().router

    @property
    def membership(self) -> Membership | None:
        """The node's membership in its network, for inspection; None without a network."""
        connection = self._require_running().connection
        return None if connection is None else connection.membership

    @property
    def actors(self) -> tuple[Actor, ...]:
        """The actors of this node."""
        return tuple(self._actors.values())

    @property
    def hosts(self) -> tuple[ActorHost, ...]:
        """The hosts of the node's actors."""
        return tuple(self._require_running().actors.hosts.values())

    def add(self, actor: Actor) -> Awaitable[None]:
        """Add an actor. If the node is running, messages reach it from now on, or after its `on_start`.

        Returns:
            The actor's start: ``await node.add(actor)`` waits until messages reach it, and raises `StartError` if its
            `on_start` fails. Not to wait is fine; then the failure is logged. Either way the actor is not added.
        """
        if not isinstance(actor, Actor):
            raise ArgumentError("actor", "an instance of a class derived from Actor", actor)
        if actor.identity in self._actors:
            raise ArgumentError("actor", "one that is not on this node already", actor)
        handler_map(actor)  # raises here, and not when the node starts, if its handlers are invalid
        require_async_hooks(actor)
        self.schemas.add(actor.identity, payloads_of(actor))
        self._actors[actor.identity] = actor
        running = self._running
        if running is None or not running.actors.has_started:
            return ActorStart()
        return running.actors.add(actor, self._forget)

    async def remove(self, actor: Actor, drain_timeout: float | None = None) -> None:
        """Remove an actor. Messages that it has not handled go to others that handle them, or fail.

        Args:
            actor: The actor.
            drain_timeout: Seconds that running handlers have to finish. Default: the setting `drain_timeout`.

        Raises:
            ArgumentError: The actor is not on this node, or this was called from one of its handlers.
        """
        if actor.identity not in self._actors:
            raise ArgumentError("actor", "an actor of this node", actor)
        running = self._running
        if running is None:
            self._forget(actor)
            return
        host = running.actors.hosts.get(actor.identity)
        if host is not None and host.runs(asyncio.current_task()):
            advice = "a call from outside the actor's handlers: asyncio.create_task(node.remove(actor))"
            raise ArgumentError("remove", advice, "a call from a handler")
        self._forget(actor)
        await running.actors.remove(actor, self.settings.drain_timeout if drain_timeout is None else drain_timeout)

    def _forget(self, actor: Actor) -> None:
        if self._actors.pop(actor.identity, None) is not None:
            self.schemas.remove(actor.identity)

    # -- state ---------------------------------------------------------------------------------------------------------

    def stats(self) -> Stats:
        """Return the message counts since the node started; after it stopped, those of its last run."""
        if self._running is None and self._final_stats is not None:
            return self._final_stats
        return stats_of(self._require_running())

    def report(self) -> NodeReport:
        """Return the state of this node: its counts, its actors, its network, its capture."""
        return report_of(self._require_running(), self.identity, self.uri)

    def measure_times(self) -> None:
        """Measure from now on how long handlers and requests take: see `timings`."""
        self.is_timed = True
        if self._running is not None and self._running.timings is None:
            self._running.measure_times()

    @property
    def timings(self) -> Timings | None:
        """How long handlers and requests took since the node started, if `measure_times` was called."""
        return self._require_running().timings

    @property
    def known_nodes(self) -> list[KnownNode]:
        """The other nodes that this one knows, with their receivers."""
        return self._require_running().tables.external.known()

    @property
    def peers(self) -> tuple[PeerReport, ...]:
        """The other nodes, as announcements and heartbeats describe them; none without a network."""
        connection = self._require_running().connection
        return () if connection is None else connection.peers()

    @property
    def is_joined(self) -> bool:
        """Whether a rendezvous server is heard. False without a network."""
        connection = self._require_running().connection
        return connection is not None and connection.is_joined

    @property
    def is_serving(self) -> bool:
        """Whether this node runs the rendezvous server of an embedded network."""
        connection = self._require_running().connection
        return connection is not None and connection.is_serving

    @property
    def capture_level(self) -> Level:
        """How much of its traffic the node records now."""
        recorder = self._require_running().recorder
        return Level.OFF if recorder is None else recorder.level

    def set_capture_level(self, level: Level) -> None:
        """Change how much traffic is recorded from now on.

        Raises:
            ArgumentError: The node was given no directory for a capture.
        """
        recorder = self._require_running().recorder
        if recorder is None:
            raise ArgumentError("capture", "a node that was given a directory for it: Node(capture=...)", "none")
        recorder.set_level(Level(level))
