"""The node: runs actors and hubs, alone or as a part of a network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context as VariableContext
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from hopline.actors import Actor, ActorHost, flow_log, handler_map
from hopline.capture.events import Level
from hopline.capture.settings import CaptureSettings
from hopline.client import Deadlines, MessageHub
from hopline.cluster import Membership
from hopline.cluster.membership.refusals import Refusal
from hopline.message import ArgumentError, Message, NotRunningError, WireFormat, new_node_identity
from hopline.node.context import Context, NodeRuntime
from hopline.node.introspection import Introspection
from hopline.node.network.connection import NetworkConnection
from hopline.node.network.settings import Network
from hopline.node.report import ActorReport, NodeReport, software
from hopline.node.routing.links import Connect
from hopline.node.routing.router import Router
from hopline.node.settings import NodeSettings
from hopline.node.stats import Stats
from hopline.observers.observer import NodeObserver, Observers
from hopline.observers.outcomes import FailureLog, OutcomeHook
from hopline.observers.recorder import TrafficRecorder
from hopline.observers.telemetry import telemetry_for
from hopline.routing import KnownNode, MessageOutcome, Tables
from hopline.wire import DEFAULT_LIMITS

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

log = flow_log("hopline.node")

STANDALONE_URI = "tcp://localhost"


class StopReport(msgspec.Struct, frozen=True):
    """What could not be finished before a node stopped."""

    failed_messages: int = 0
    cancelled_handlers: int = 0
    failed_promises: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether everything was finished."""
        return not (self.failed_messages or self.cancelled_handlers or self.failed_promises)


class _Running:
    """The parts of a node that exist only while it runs."""

    def __init__(self, node: Node) -> None:
        self.loop = asyncio.get_running_loop()
        settings, clock = node.settings, node.clock or time.monotonic
        self.clock = clock
        self.observers = _observers_of(node, clock)  # first: it may fail, and binds nothing
        self.connection = (
            None if node.network is None else NetworkConnection(node.identity, node.network, self.observers, clock)
        )
        self.tables = Tables(node.identity, hop_limit=settings.hop_limit)
        self.deadlines = Deadlines(self.loop, clock)
        self.router = self._new_router(node)
        self.threads = ThreadPoolExecutor(settings.blocking_threads, thread_name_prefix="hopline-blocking")
        self.hubs: list[MessageHub] = []
        self.hub = self.new_hub(node)
        self.runtime = NodeRuntime(
            exchange=self.router,
            loop=self.loop,
            threads=self.threads,
            base_context=VariableContext(),
            context_type=Context,
            concurrency=settings.concurrency,
            mailbox_capacity=settings.mailbox_capacity,
            include_tracebacks=settings.include_tracebacks,
            slow_handler=settings.slow_handler,
            hub=self.hub,
        )
        self.recorder = None if node.capture is None else self._new_recorder(node, node.capture)
        self.started_at = clock()
        self.hosts: dict[bytes, ActorHost] = {}
        self.built_in: list[ActorHost] = []  # hosts of the node's own actors, which applications do not see
        self.leaving: list[ActorHost] = []  # of actors that were removed while handlers were running
        self.stopping: asyncio.Future[StopReport] | None = None
        self.ending: asyncio.Future[None] | None = None

    def _new_router(self, node: Node) -> Router:
        connection = self.connection
        if connection is None:
            return Router(
                self.tables,
                node.settings,
                self.observers,
                self.deadlines,
                self.clock,
                uri=node.uri,
                connect=node.connect,
                discover=node.discover,
            )
        return Router(
            self.tables,
            node.settings,
            self.observers,
            self.deadlines,
            self.clock,
            uri=connection.uri,
            connect=connection.connect,
            discover=connection.discover,
            explain=connection.explain,
        )

    def _new_recorder(self, node: Node, capture: CaptureSettings) -> TrafficRecorder:
        network, connection = node.network, self.connection
        recorder = TrafficRecorder(
            capture,
            self.observers,
            node=node.identity,
            uri=node.uri if connection is None else connection.uri,
            wire_format=(network and network.wire_format) or WireFormat.V5,
            limits=DEFAULT_LIMITS if network is None else network.limits,
            clock=self.clock,
            label_of=self.router.directory.label,
            sees_frames=connection is not None,
        )
        recorder.start()
        return recorder

    def new_hub(self, node: Node) -> MessageHub:
        hub = MessageHub(
            self.router,
            self.deadlines,
            self.loop,
            node_identity=node.identity,
            request_timeout=node.settings.request_timeout,
        )
        self.router.directory.add_hub(hub)
        self.hubs.append(hub)
        return hub

    def new_host(self, actor: Actor) -> ActorHost:
        handlers = handler_map(actor)
        host = ActorHost(actor, handlers, self.runtime)
        handled = {identifier: definition.keep_local for identifier, definition in handlers.items()}
        self.router.directory.add_actor(host, handled)
        return host

    def is_idle(self) -> bool:
        return not self.router.waiting and all(host.is_idle() for host in self.all_hosts)

    @property
    def all_hosts(self) -> tuple[ActorHost, ...]:
        return (*self.hosts.values(), *self.leaving, *self.built_in)

    async def idle(self) -> None:
        """Wait until nothing waits or runs. Repeat, because one actor may have given work to another meanwhile."""
        while not self.is_idle():
            await self.router.nothing_waits()
            for host in self.all_hosts:
                await host.idle()


def _observers_of(node: Node, clock: Callable[[], float]) -> Observers:
    """Return the observers that a node has as long as it runs. Capture is added once there is a router."""
    telemetry = telemetry_for(node.identity, node.tracer_provider)
    observers = Observers()
    observers.add(FailureLog(clock))
    if node.on_outcome is not None:
        observers.add(OutcomeHook(node.on_outcome, clock))
    if telemetry is not None:
        observers.add(telemetry)
    for observer in node.observers:
        observers.add(observer)
    return observers


def _actor_report(host: ActorHost) -> ActorReport:
    handlers = handler_map(host.actor)
    return ActorReport(
        identity=host.identity,
        name=host.name,
        handles=tuple(handlers),
        handlers=tuple(definition.method for definition in handlers.values()),
        waiting=host.waiting,
        running=host.running,
    )


class Node:
    """Runs actors and hubs that can reach one another. Use it as ``async with Node(Greeter()) as node``.

    It runs on the event loop on which it was started, and may be started again after it stopped.

    Args:
        actors: The actors to begin with.
        identity: The node's identity. Default: a new one.
        uri: The address that messages of this node carry in their trace, if it has no network.
        settings: Capacities and timeouts.
        on_outcome: Called with every message and its outcome.
        tracer_provider: Where OpenTelemetry spans go. Default: the provider of the process, if one is set.
        clock: Returns monotonic seconds, for tests.
        network: The network to join, where nodes find each other.
        connect: Opens links to other nodes, to plug in another kind of network.
        discover: Looks for a route to a message, to plug in another kind of network.
        capture: Where traffic may be recorded, and at which level to start.
        observers: Further observers of what happens to messages.
    """

    def __init__(
        self,
        *actors: Actor,
        identity: bytes | None = None,
        uri: str = STANDALONE_URI,
        settings: NodeSettings | None = None,
        on_outcome: Callable[[MessageOutcome], None] | None = None,
        tracer_provider: TracerProvider | None = None,
        clock: Callable[[], float] | None = None,
        network: Network | None = None,
        connect: Connect | None = None,
        discover: Callable[[Message], None] | None = None,
        capture: CaptureSettings | None = None,
        observers: Iterable[NodeObserver] = (),
    ) -> None:
        for name, value, kind in (
            ("identity", identity, bytes),
            ("settings", settings, NodeSettings),
            ("network", network, Network),
            ("capture", capture, CaptureSettings),
        ):
            if not (value is None or isinstance(value, kind)):
                raise ArgumentError(f"node {name}", f"{kind.__name__}, or nothing", value)
        self.identity = new_node_identity() if identity is None else identity
        self.uri = uri
        self.settings = settings or NodeSettings()
        self.on_outcome = on_outcome
        self.tracer_provider = tracer_provider
        self.clock = clock
        self.network = network
        self.connect = connect
        self.discover = discover
        self.capture = capture
        self.observers = tuple(observers)
        self._actors: dict[bytes, Actor] = {}
        self._running: _Running | None = None
        self._final_stats: Stats | None = None
        for actor in actors:
            self.add(actor)

    # -- starting and stopping -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the node and its actors. Does nothing if it is running."""
        if self._running is not None and self._running.stopping is not None:
            await asyncio.shield(self._running.stopping)
        if self._running is None:
            running = self._running = _Running(self)
            for actor in self._actors.values():
                self._host(actor)
            if running.connection is not None:
                self.uri = running.connection.uri
                self._host_built_in(running)
                try:
                    await running.connection.attach(running.router)
                except BaseException:
                    if self._running is running:
                        await self.stop(0.0)
                    raise

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
        if any(host.runs(asyncio.current_task()) for host in running.hosts.values()):
            advice = "a call from outside its handlers, which it would wait for: asyncio.create_task(node.stop())"
            raise ArgumentError("stop", advice, "a call from a handler")
        if running.stopping is None:
            running.stopping = asyncio.get_running_loop().create_future()
            try:
                await self._drain(running, self.settings.drain_timeout if drain_timeout is None else drain_timeout)
            finally:
                # In a task of its own: cancelling this call must not leave the node half stopped.
                running.ending = asyncio.ensure_future(self._end(running, running.stopping))
        return await asyncio.shield(running.stopping)

    async def _drain(self, running: _Running, seconds: float) -> None:
        connection = running.connection
        if connection is not None and seconds > 0:  # else the goodbye follows at once, and withdraws everything
            connection.withdraw_actors()
        try:
            async with asyncio.timeout(seconds):
                if connection is not None:
                    await connection.withdrawn()
                await running.idle()
                if connection is not None:
                    await connection.flushed()
        except TimeoutError:
            pass

    async def _end(self, running: _Running, stopped: asyncio.Future[StopReport]) -> None:
        report, problem = StopReport(), None
        try:
            try:
                report = await self._fail_the_rest(running)
            finally:
                report = await self._leave_network(running, report)
                if running.recorder is not None:
                    await running.recorder.close()
        except Exception as error:  # passed on to those who wait in `stop`
            problem = error
        finally:
            running.deadlines.close()
            running.threads.shutdown(wait=False, cancel_futures=True)
            self._final_stats = self._count(running)
            self._running = None
            if problem is None:
                stopped.set_result(report)
            else:
                stopped.set_exception(problem)
        if not report.is_clean:
            log.warning(
                "the node stopped with %d messages failed, %d handlers cancelled, %d requests unanswered",
                report.failed_messages,
                report.cancelled_handlers,
                report.failed_promises,
            )

    async def _leave_network(self, running: _Running, report: StopReport) -> StopReport:
        """Leave the network, and add the messages that never left to the report."""
        if running.connection is None:
            return report
        returned = running.router.counters.returned
        running.connection.close()
        never_left = running.router.counters.returned - returned
        await running.connection.gone()
        return msgspec.structs.replace(report, failed_messages=report.failed_messages + never_left)

    async def _fail_the_rest(self, running: _Running) -> StopReport:
        failed = running.router.fail_pending()
        hosts = running.all_hosts
        for host in hosts:
            unhandled = host.close()
            failed += len(unhandled)
            running.router.close(host.identity, unhandled)
        cancelled = sum(await asyncio.gather(*(host.stop(self.settings.cancel_timeout) for host in hosts)))
        while pending := running.router.fail_pending():  # what the last handlers sent, and the reports about it
            failed += pending
        error = NotRunningError("the node stopped before the answer came")
        return StopReport(failed, cancelled, sum(hub.close(error) for hub in running.hubs))

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

    def _require_running(self) -> _Running:
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
        return tuple(self._require_running().hosts.values())

    def add(self, actor: Actor) -> None:
        """Add an actor. If the node is running, messages reach it from now on."""
        if not isinstance(actor, Actor):
            raise ArgumentError("actor", "an instance of a class derived from Actor", actor)
        if actor.identity in self._actors:
            raise ArgumentError("actor", "one that is not on this node already", actor)
        handler_map(actor)  # raises here, and not when the node starts, if its handlers are invalid
        self._actors[actor.identity] = actor
        if self._running is not None:
            self._host(actor)

    def _host(self, actor: Actor) -> None:
        running = self._require_running()
        if not handler_map(actor):
            log.warning("%s handles nothing", type(actor).__qualname__)
        running.hosts[actor.identity] = running.new_host(actor)

    def _host_built_in(self, running: _Running) -> None:
        """Add the built-in actor, which answers requests about this node."""
        actor = Introspection(running.tables, self.report, self.set_capture_level)
        running.built_in.append(running.new_host(actor))

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
            del self._actors[actor.identity]
            return
        if running.hosts[actor.identity].runs(asyncio.current_task()):
            advice = "a call from outside the actor's handlers: asyncio.create_task(node.remove(actor))"
            raise ArgumentError("remove", advice, "a call from a handler")
        del self._actors[actor.identity]
        host = running.hosts.pop(actor.identity)
        running.router.remove(host.identity, host.close())
        running.leaving.append(host)
        try:
            async with asyncio.timeout(self.settings.drain_timeout if drain_timeout is None else drain_timeout):
                await host.idle()
        except TimeoutError:
            await host.stop(self.settings.cancel_timeout)
        running.leaving.remove(host)  # after a cancellation it stays there, and stops with the node

    # -- state ---------------------------------------------------------------------------------------------------------

    def stats(self) -> Stats:
        """Return the message counts since the node started; after it stopped, those of its last run."""
        if self._running is None and self._final_stats is not None:
            return self._final_stats
        return self._count(self._require_running())

    def report(self) -> NodeReport:
        """Return the state of this node: its counts, its actors, its network, its capture."""
        running = self._require_running()
        return NodeReport(
            node=self.identity,
            uri=self.uri,
            software=software(),
            uptime=running.clock() - running.started_at,
            stats=self._count(running),
            actors=tuple(_actor_report(host) for host in running.hosts.values()),
            network=running.connection.report() if running.connection is not None else None,
            capture=None if running.recorder is None else running.recorder.report(),
        )

    @property
    def known_nodes(self) -> list[KnownNode]:
        """The other nodes that this one knows, with their receivers."""
        return self._require_running().tables.external.known()

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

    def _count(self, running: _Running) -> Stats:
        counters = running.router.counters
        unsent = 0 if running.connection is None else running.connection.unsent
        in_mailboxes = sum(host.waiting for host in running.all_hosts)
        return Stats(
            submitted=counters.submitted,
            received=counters.received,
            copied=counters.copied,
            returned=counters.returned,
            outcomes=counters.outcomes(unsent),
            waiting=running.router.waiting + in_mailboxes + unsent,
            handled=counters.handled,
            handler_errors=counters.handler_errors,
            unexpected=sum(hub.unexpected for hub in running.hubs),
            promised=sum(hub.waiting for hub in running.hubs),
        )
