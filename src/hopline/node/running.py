"""The parts of a node that exist only while it runs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context as VariableContext
from typing import TYPE_CHECKING

from hopline.capture.settings import CaptureSettings
from hopline.client import Deadlines, MessageHub
from hopline.message import WireFormat
from hopline.node.context import Context, NodeRuntime
from hopline.node.lifespan import HeldContext
from hopline.node.network.connection import NetworkConnection
from hopline.node.report import StopReport
from hopline.node.routing.router import Router
from hopline.node.running_actors import RunningActors
from hopline.observers.dead_letters import DeadLetters
from hopline.observers.observer import Observers
from hopline.observers.outcomes import FailureLog, OutcomeHook
from hopline.observers.recorder import TrafficRecorder
from hopline.observers.tail import NodeTail
from hopline.observers.telemetry import telemetry_for
from hopline.observers.timings import Timings
from hopline.routing import Tables
from hopline.security.services import is_question
from hopline.wire import DEFAULT_LIMITS

if TYPE_CHECKING:
    from hopline.node.node import Node


class RunningNode:
    """The router, the hubs, the actors and the connection of one run of a node."""

    def __init__(self, node: Node) -> None:
        self.loop = asyncio.get_running_loop()
        settings, clock = node.settings, node.clock or time.monotonic
        self.clock = clock
        hook = node.on_dead_letter
        self.dead_letters = None if hook is None else DeadLetters(hook, self.loop)
        self.observers = _observers_of(node, self.dead_letters, clock)  # first: it may fail, and binds nothing
        self.connection = (
            None
            if node.network is None
            else NetworkConnection(node.identity, node.network, node.schemas, self.observers, clock)
        )
        self.tables = Tables(node.identity, hop_limit=settings.hop_limit)
        self.deadlines = Deadlines(self.loop, clock)
        self.router = self._new_router(node)
        self.threads = ThreadPoolExecutor(settings.blocking_threads, thread_name_prefix="hopline-blocking")
        self.hubs: list[MessageHub] = []
        self.timings: Timings | None = None
        if node.is_timed:
            self.measure_times()
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
        refused = Counter[str]() if self.connection is None else self.connection.inbound.refused
        self.tail = NodeTail(self.observers, self.router.directory.label, is_question, clock, time.time, refused)
        self.observers.add(self.tail)
        self.recorder = None if node.capture is None else self._new_recorder(node, node.capture)
        self.started_at = clock()
        self.held = None if node.lifespan is None else HeldContext(node.lifespan(node))
        self.actors = RunningActors(node, self.router, self.runtime, lambda: self.stopping is not None)
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
        """Return another hub, which the router knows."""
        hub = MessageHub(
            self.router,
            self.deadlines,
            self.loop,
            node_identity=node.identity,
            request_timeout=node.settings.request_timeout,
            sent=node.schemas.sent,
        )
        self.router.directory.add_hub(hub)
        self.hubs.append(hub)
        if self.timings is not None:
            self.timings.add_hub(hub)
        return hub

    def measure_times(self) -> None:
        """Measure from now on how long handlers and requests take."""
        timings = self.timings = Timings(self.router.directory.label, is_question, self.clock)
        self.observers.add(timings)
        for hub in self.hubs:
            timings.add_hub(hub)

    def is_idle(self) -> bool:
        """Return whether nothing waits and nothing runs."""
        return not self.router.waiting and all(host.is_idle() for host in self.actors.all_hosts)

    async def idle(self) -> None:
        """Wait until nothing waits or runs. Repeat, because one actor may have given work to another meanwhile."""
        while not self.is_idle():
            await self.router.nothing_waits()
            for host in self.actors.all_hosts:
                await host.idle()


def _observers_of(node: Node, dead_letters: DeadLetters | None, clock: Callable[[], float]) -> Observers:
    """Return the observers that a node has as long as it runs. Capture is added once there is a router."""
    telemetry = telemetry_for(node.identity, node.tracer_provider)
    observers = Observers()
    observers.add(FailureLog(clock))
    if dead_letters is not None:
        observers.add(dead_letters)
    if node.on_outcome is not None:
        observers.add(OutcomeHook(node.on_outcome, clock))
    if telemetry is not None:
        observers.add(telemetry)
    for observer in node.observers:
        observers.add(observer)
    return observers
