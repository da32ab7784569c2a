"""The node: start it, give it actors, talk through its hub."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
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
from hopline.cluster.refusals import Refusal
from hopline.message import LocalError, Message, NotRunningError, WireFormat, new_node_identity
from hopline.node.attachment import Attachment
from hopline.node.context import Context, NodeServices
from hopline.node.introspection import Introspection
from hopline.node.ledger import Ledger
from hopline.node.links import Connect
from hopline.node.network import Network
from hopline.node.report import ActorReport, NodeReport, software
from hopline.node.router import Router
from hopline.node.settings import NodeSettings
from hopline.node.stats import Stats
from hopline.node.tap import Tap
from hopline.node.telemetry import telemetry_for
from hopline.routing import KnownNode, Settled, Tables
from hopline.wire import DEFAULT_LIMITS

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

log = flow_log("hopline.node")

STANDALONE_URI = "tcp://localhost"


class StopReport(msgspec.Struct, frozen=True):
    """How stopping went: what could not be finished in time."""

    failed_messages: int = 0
    cancelled_handlers: int = 0
    failed_promises: int = 0

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing was lost."""
        return not (self.failed_messages or self.cancelled_handlers or self.failed_promises)


class _Running:
    """What exists only while the node runs."""

    def __init__(self, node: Node) -> None:
        self.loop = asyncio.get_running_loop()
        settings, clock = node.settings, node.clock or time.monotonic
        telemetry = telemetry_for(node.identity, node.tracer_provider)  # it may fail, and binds nothing
        network = self.attachment = None if node.network is None else Attachment(node.identity, node.network, clock)
        self.tables = Tables(node.identity, hop_limit=settings.hop_limit)
        self.deadlines = Deadlines(self.loop, clock)
        self.router = Router(
            self.tables,
            settings,
            Ledger(clock, node.on_outcome),
            self.deadlines,
            clock,
            uri=node.uri if network is None else network.uri,
            connect=node.connect if network is None else network.connect,
            discover=node.discover if network is None else network.discover,
            explain=None if network is None else network.explain,
            telemetry=telemetry,
        )
        self.threads = ThreadPoolExecutor(settings.blocking_threads, thread_name_prefix="hopline-blocking")
        self.hubs: list[MessageHub] = []
        self.hub = self.new_hub(node)
        self.services = NodeServices(
            exchange=self.router,
            loop=self.loop,
            threads=self.threads,
            base_context=VariableContext(),
            context_type=Context,
            concurrency=settings.concurrency,
            mailbox_capacity=settings.mailbox_capacity,
            tell_stacks=settings.tell_stacks,
            slow_handler=settings.slow_handler,
            telemetry=telemetry,
            hub=self.hub,
        )
        self.clock = clock
        self.tap = None if node.capture is None else self._new_tap(node, node.capture)
        self.started_at = clock()
        self.hosts: dict[bytes, ActorHost] = {}
        self.built_in: list[ActorHost] = []  # hosts of the node's own actors, which are nobody's business
        self.leaving: list[ActorHost] = []  # of actors that were removed and still do something
        self.stopping: asyncio.Future[StopReport] | None = None
        self.ending: asyncio.Future[None] | None = None

    def _new_tap(self, node: Node, capture: CaptureSettings) -> Tap:
        network, attachment = node.network, self.attachment
        tap = Tap(
            capture,
            node.identity,
            node.uri if attachment is None else attachment.uri,
            (network and network.wire_format) or WireFormat.V5,
            DEFAULT_LIMITS if network is None else network.limits,
            self.clock,
            sees_wire=attachment is not None,
        )
        watched = (self.router,) if attachment is None else (self.router, attachment)
        tap.connect(watched, self.services, self.router.directory.label)
        return tap

    def new_hub(self, node: Node) -> MessageHub:
        hub = MessageHub(
            self.router,
            self.deadlines,
            self.loop,
            node_identity=node.identity,
            answer_time=node.settings.answer_time,
        )
        self.router.directory.add_hub(hub)
        self.hubs.append(hub)
        return hub

    def is_idle(self) -> bool:
        return not self.router.waiting and all(host.is_idle() for host in self.all_hosts)

    @property
    def all_hosts(self) -> tuple[ActorHost, ...]:
        return (*self.hosts.values(), *self.leaving, *self.built_in)

    async def idle(self) -> None:
        """Wait until nothing waits or runs anywhere; what one actor does may give work to another."""
        while not self.is_idle():
            await self.router.nothing_waits()
            for host in self.all_hosts:
                await host.idle()


class Node:
    """Actors and hubs that can reach one another. Use it as ``async with Node(Greeter()) as node``.

    It runs on the event loop where it was started, and may be started again after it stopped. `on_outcome` is called
    with every message and what became of it. With a `network` it finds other nodes and is found by them; `connect` and
    `discover` are how another kind of network is plugged in. `capture` says where it may record its traffic.
    """

    def __init__(
        self,
        *actors: Actor,
        identity: bytes | None = None,
        uri: str = STANDALONE_URI,
        settings: NodeSettings | None = None,
        on_outcome: Callable[[Settled], None] | None = None,
        tracer_provider: TracerProvider | None = None,
        clock: Callable[[], float] | None = None,
        network: Network | None = None,
        connect: Connect | None = None,
        discover: Callable[[Message], None] | None = None,
        capture: CaptureSettings | None = None,
    ) -> None:
        for name, value, kind in (
            ("identity", identity, bytes),
            ("settings", settings, NodeSettings),
            ("network", network, Network),
            ("capture", capture, CaptureSettings),
        ):
            if not (value is None or isinstance(value, kind)):
                raise LocalError(f"node {name}", f"{kind.__name__}, or nothing", value)
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
        self._actors: dict[bytes, Actor] = {}
        self._running: _Running | None = None
        self._final_stats: Stats | None = None
        for actor in actors:
            self.add(actor)

    # -- starting and stopping -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the node, and with it its actors; one that runs stays as it is."""
        if self._running is not None and self._running.stopping is not None:
            await asyncio.shield(self._running.stopping)
        if self._running is None:
            running = self._running = _Running(self)
            for actor in self._actors.values():
                self._host(actor)
            if running.attachment is not None:
                self.uri = running.attachment.uri
                self._host_built_in(running)
                try:
                    await running.attachment.attach(running.router)
                except BaseException:
                    if self._running is running:
                        await self.stop(0.0)
                    raise

    async def stop(self, drain_time: float | None = None) -> StopReport:
        """Stop the node: finish what is under way, for so many seconds; then fail the rest, and say what that was.

        Handlers may still send and ask meanwhile. Whoever waits for an answer that can no longer come is told.
        """
        running = self._running
        if running is None:
            return StopReport()
        if any(host.runs(asyncio.current_task()) for host in running.hosts.values()):
            advice = "a call from outside its handlers, which it would wait for: asyncio.create_task(node.stop())"
            raise LocalError("stop", advice, "a call from a handler")
        if running.stopping is None:
            running.stopping = asyncio.get_running_loop().create_future()
            try:
                await self._drain(running, self.settings.drain_time if drain_time is None else drain_time)
            finally:
                # Whoever waits for this may give up, but a node does not stop half-way.
                running.ending = asyncio.ensure_future(self._end(running, running.stopping))
        return await asyncio.shield(running.stopping)

    async def _drain(self, running: _Running, seconds: float) -> None:
        attachment = running.attachment
        if attachment is not None and seconds > 0:  # else the goodbye, which follows at once, says it all
            attachment.withdraw_actors()
        try:
            async with asyncio.timeout(seconds):
                if attachment is not None:
                    await attachment.withdrawn()
                await running.idle()
                if attachment is not None:
                    await attachment.flushed()
        except TimeoutError:
            pass

    async def _end(self, running: _Running, stopped: asyncio.Future[StopReport]) -> None:
        report, problem = StopReport(), None
        try:
            try:
                report = await self._fail_the_rest(running)
            finally:
                report = await self._leave_network(running, report)
                if running.tap is not None:
                    await running.tap.close()
        except Exception as error:  # whoever waits for the end is told, and never waits for ever
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
                "the node stopped with %d messages failed, %d handlers cancelled, %d answers missing",
                report.failed_messages,
                report.cancelled_handlers,
                report.failed_promises,
            )

    async def _leave_network(self, running: _Running, report: StopReport) -> StopReport:
        """Leave the network, and add to the report what never left for others."""
        if running.attachment is None:
            return report
        returned = running.router.ledger.returned
        running.attachment.close()
        never_left = running.router.ledger.returned - returned
        await running.attachment.gone()
        return msgspec.structs.replace(report, failed_messages=report.failed_messages + never_left)

    async def _fail_the_rest(self, running: _Running) -> StopReport:
        failed = running.router.fail_what_waits()
        hosts = running.all_hosts
        for host in hosts:
            left = host.close()
            failed += len(left)
            running.router.close(host.identity, left)
        cancelled = sum(await asyncio.gather(*(host.stop(self.settings.stop_grace) for host in hosts)))
        while left_over := running.router.fail_what_waits():  # what the last handlers sent, and what was told of it
            failed += left_over
        error = NotRunningError("the node stopped before the answer came")
        return StopReport(failed, cancelled, sum(hub.close(error) for hub in running.hubs))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error nobody is left to wait for the rest.
        await self.stop(0.0 if kind is not None else None)

    @property
    def is_running(self) -> bool:
        """Tell whether the node was started and not stopped."""
        return self._running is not None

    def _require_running(self) -> _Running:
        if self._running is None:
            raise NotRunningError("the node is not running: use `async with Node(...) as node`, or await node.start()")
        return self._running

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Whose announcements this node refuses because of keys that are missing, wrong or of another kind."""
        attachment = self._require_running().attachment
        return () if attachment is None else attachment.refusals

    # -- actors and hubs -----------------------------------------------------------------------------------------------

    @property
    def hub(self) -> MessageHub:
        """The node's own hub."""
        return self._require_running().hub

    def new_hub(self) -> MessageHub:
        """Make another hub, with an identity of its own."""
        return self._require_running().new_hub(self)

    @property
    def router(self) -> Router:
        """The router, for what plugs a network in."""
        return self._require_running().router

    @property
    def membership(self) -> Membership | None:
        """This node's part in its network, for those who look at it; None for a node by itself."""
        attachment = self._require_running().attachment
        return None if attachment is None else attachment.membership

    @property
    def actors(self) -> tuple[Actor, ...]:
        """The actors of this node."""
        return tuple(self._actors.values())

    @property
    def hosts(self) -> tuple[ActorHost, ...]:
        """The hosts of its actors, while it runs."""
        return tuple(self._require_running().hosts.values())

    def add(self, actor: Actor) -> None:
        """Give the node an actor. From now on messages reach it, if the node runs."""
        if not isinstance(actor, Actor):
            raise LocalError("actor", "an instance of a class derived from Actor", actor)
        if actor.identity in self._actors:
            raise LocalError("actor", "one that is not on this node already", actor)
        handler_map(actor)  # what is wrong with its handlers shows here, not when the node starts
        self._actors[actor.identity] = actor
        if self._running is not None:
            self._host(actor)

    def _host(self, actor: Actor) -> None:
        running = self._require_running()
        handlers = handler_map(actor)
        if not handlers:
            log.warning("%s handles nothing", type(actor).__qualname__)
        host = ActorHost(actor, handlers, running.services)
        running.hosts[actor.identity] = host
        running.router.directory.add_actor(host, {identifier: one.keep_local for identifier, one in handlers.items()})

    def _host_built_in(self, running: _Running) -> None:
        """Let other nodes ask this one how it is."""
        actor = Introspection(running.tables, self.report, self.set_capture_level)
        handlers = handler_map(actor)
        host = ActorHost(actor, handlers, running.services)
        running.built_in.append(host)
        running.router.directory.add_actor(host, {identifier: one.keep_local for identifier, one in handlers.items()})

    async def remove(self, actor: Actor, drain_time: float | None = None) -> None:
        """Take an actor away. No message is put before it any more; what waited goes to others who handle it, or fails.

        Handlers that are under way may end, for so many seconds.
        """
        if actor.identity not in self._actors:
            raise LocalError("actor", "an actor of this node", actor)
        running = self._running
        if running is None:
            del self._actors[actor.identity]
            return
        if running.hosts[actor.identity].runs(asyncio.current_task()):
            advice = "a call from outside the actor's handlers: asyncio.create_task(node.remove(actor))"
            raise LocalError("remove", advice, "a call from a handler")
        del self._actors[actor.identity]
        host = running.hosts.pop(actor.identity)
        running.router.remove(host.identity, host.close())
        running.leaving.append(host)
        try:
            async with asyncio.timeout(self.settings.drain_time if drain_time is None else drain_time):
                await host.idle()
        except TimeoutError:
            await host.stop(self.settings.stop_grace)
        running.leaving.remove(host)  # who gives up waiting leaves it there, for the node to stop

    # -- looking -------------------------------------------------------------------------------------------------------

    def stats(self) -> Stats:
        """Count what came in and what became of it, since the node started; of one that stopped, until then."""
        if self._running is None and self._final_stats is not None:
            return self._final_stats
        return self._count(self._require_running())

    def report(self) -> NodeReport:
        """Tell everything of this node at this moment: its stats, its actors, its part in the network."""
        running = self._require_running()
        return NodeReport(
            node=self.identity,
            uri=self.uri,
            software=software(),
            uptime=running.clock() - running.started_at,
            stats=self._count(running),
            actors=tuple(
                ActorReport(
                    identity=host.identity,
                    name=host.name,
                    handles=tuple(handler_map(host.actor)),
                    handlers=tuple(definition.method for definition in handler_map(host.actor).values()),
                    waiting=host.waiting,
                    running=host.running,
                )
                for host in running.hosts.values()
            ),
            network=running.attachment.report() if running.attachment is not None else None,
            capture=None if running.tap is None else running.tap.report(),
        )

    @property
    def known_nodes(self) -> list[KnownNode]:
        """The other nodes that this one knows, with what lives there."""
        return self._require_running().tables.external.known()

    @property
    def is_joined(self) -> bool:
        """Tell whether a rendezvous server is heard; a node without a network has none."""
        attachment = self._require_running().attachment
        return attachment is not None and attachment.is_joined

    @property
    def is_serving(self) -> bool:
        """Tell whether this node is the rendezvous of others too, because its network is embedded."""
        attachment = self._require_running().attachment
        return attachment is not None and attachment.is_serving

    @property
    def capture_level(self) -> Level:
        """How much of its traffic the node records now."""
        tap = self._require_running().tap
        return Level.OFF if tap is None else tap.level

    def set_capture_level(self, level: Level) -> None:
        """Record more or less from now on, where the node's `capture` says. What is recorded stays."""
        tap = self._require_running().tap
        if tap is None:
            raise LocalError("capture", "a node that was given a directory for it: Node(capture=...)", "none")
        tap.set_level(Level(level))

    def _count(self, running: _Running) -> Stats:
        ledger = running.router.ledger
        unsent = 0 if running.attachment is None else running.attachment.unsent
        in_mailboxes = sum(host.waiting for host in running.all_hosts)
        return Stats(
            submitted=ledger.submitted,
            received=ledger.received,
            copied=ledger.copied,
            returned=ledger.returned,
            outcomes=ledger.outcomes(unsent),
            waiting=running.router.waiting + in_mailboxes + unsent,
            handled=ledger.handled_count,
            handler_errors=ledger.handler_errors,
            unexpected=sum(hub.unexpected for hub in running.hubs),
            promised=sum(hub.waiting for hub in running.hubs),
        )
