"""Metrics for Prometheus: nothing is collected until somebody asks.

Both collectors may be registered with any registry of prometheus_client; `MetricsServer` has one of its own, and asks
on the event loop that the node or server runs on.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping
from socketserver import ThreadingMixIn
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from hopline.capture.events import Level
from hopline.message import HoplineError
from hopline.node.node import Node
from hopline.node.rendezvous import RendezvousServer
from hopline.node.report import NetworkReport, NodeReport
from hopline.node.tap import CaptureReport

_ANSWER_TIME = 5.0  # seconds that a busy event loop may take
_IDLE_TIME = 10.0  # seconds that a connection may be silent


class NodeCollector(Collector):
    """The books of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterable[Metric]:
        """Ask the node how it is; one that does not run says nothing."""
        if not self._node.is_running:
            return
        report = self._node.report()
        yield InfoMetricFamily(
            "hopline_node",
            "Who this is.",
            {"node": report.node.decode("utf-8", "backslashreplace"), "uri": report.uri, "software": report.software},
        )
        yield from _of_stats(report)
        if report.network is not None:
            yield from _of_network(report.network)
        if report.capture is not None:
            yield from _of_capture(report.capture)


def _of_stats(report: NodeReport) -> Iterable[Metric]:
    stats = report.stats
    yield _gauge("hopline_uptime_seconds", "Since the node started.", report.uptime)
    outcomes = {str(outcome): count for outcome, count in stats.outcomes.items()}
    yield _counters("hopline_messages", "What became of messages.", "outcome", outcomes)
    for name, text, count in (
        ("hopline_submitted", "Messages of this node's own hubs and actors.", stats.submitted),
        ("hopline_received", "Messages that came from other nodes.", stats.received),
        ("hopline_copied", "Further copies that broadcasts made.", stats.copied),
        ("hopline_returned", "Messages that came back from peers that were gone.", stats.returned),
        ("hopline_handled", "Handlers that ended.", stats.handled),
        ("hopline_handler_errors", "Handlers that failed.", stats.handler_errors),
        ("hopline_unexpected", "Replies that nobody waited for.", stats.unexpected),
    ):
        yield CounterMetricFamily(name, text, count)
    yield _gauge("hopline_waiting", "Messages in mailboxes, parked, in links, or waiting for room.", stats.waiting)
    yield _gauge("hopline_promised", "Answers that are waited for.", stats.promised)
    waiting: dict[str, int] = {}
    for actor in report.actors:
        waiting[actor.name] = waiting.get(actor.name, 0) + actor.waiting
    yield _gauges("hopline_mailbox_waiting", "Messages in the mailboxes of actors of one class.", "actor", waiting)


def _of_network(network: NetworkReport) -> Iterable[Metric]:
    yield _gauge("hopline_joined", "Whether a rendezvous server is heard.", network.is_joined)
    yield _gauge("hopline_peers", "Nodes that are known and alive.", network.peers)
    yield _gauge("hopline_links", "Peers that something was sent to.", len(network.links))
    silent = sum(link.is_silent for link in network.links)
    yield _gauge("hopline_links_silent", "Those of them that are not connected.", silent)
    waiting = sum(link.waiting for link in network.links)
    yield _gauge("hopline_links_waiting", "Messages that wait for their peer.", waiting)
    for name, text, count in (
        ("hopline_rendezvous_changes", "How often another rendezvous server was followed.", network.rendezvous_changes),
        ("hopline_unacknowledged", "Sent messages that a broken connection lost.", network.unacknowledged),
        ("hopline_routes_published", "Messages on routes to everybody.", network.published),
        ("hopline_routes_told", "Messages on routes to one node.", network.told),
        ("hopline_routes_heard", "Messages on routes that were heard.", network.heard),
    ):
        yield CounterMetricFamily(name, text, count)
    refused = CounterMetricFamily("hopline_refused", "What was refused, by reason.", labels=["what", "reason"])
    for what, reasons in (("messages", network.refused_messages), ("routes", network.refused_routes)):
        for reason, count in reasons.items():
            refused.add_metric([what, reason], count)
    yield refused


def _of_capture(capture: CaptureReport) -> Iterable[Metric]:
    levels = {str(level): int(level is capture.level) for level in Level}
    yield _gauges("hopline_capture_level", "Which level the capture is at.", "level", levels)
    yield _gauge("hopline_capture_failing", "Whether the capture cannot write now.", bool(capture.problem))
    for name, text, count in (
        ("hopline_capture_records", "Records that were written.", capture.records),
        ("hopline_capture_dropped", "Records that found no room, in memory or on the disk.", capture.dropped),
        ("hopline_capture_segments", "Segments that were closed.", capture.segments),
        ("hopline_capture_segment_bytes", "What these take on the disk.", capture.segment_bytes),
    ):
        yield CounterMetricFamily(name, text, count)


class RendezvousCollector(Collector):
    """The books of a rendezvous server."""

    def __init__(self, server: RendezvousServer) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        """Ask the server how it is; one that does not run says nothing."""
        if not self._server.is_running:
            return
        server, statistics = self._server, self._server.statistics
        yield _gauge("hopline_rendezvous_leader", "Whether this server leads.", server.is_leader)
        yield _gauge("hopline_rendezvous_held", "Messages that wait for a leader.", server.held)
        for name, text, count in (
            ("hopline_rendezvous_received", "Messages that came.", statistics.received),
            ("hopline_rendezvous_relayed", "Messages that were published to all nodes.", statistics.relayed),
            ("hopline_rendezvous_pings", "Pings that were answered.", statistics.pings),
            ("hopline_rendezvous_heartbeats", "Signs of life that were published.", statistics.heartbeats),
            ("hopline_rendezvous_not_leaders", "How often nodes were sent to the leader.", statistics.not_leaders),
        ):
            yield CounterMetricFamily(name, text, count)
        refused = {str(reason): count for reason, count in statistics.refused.items()}
        yield _counters("hopline_rendezvous_refused", "Messages that were refused.", "reason", refused)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _gauges(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counters(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


class _OnLoop(Collector):
    """Collects on the event loop, wherever it is asked."""

    def __init__(self, collector: Collector, loop: asyncio.AbstractEventLoop) -> None:
        self._collector = collector
        self._loop = loop

    def collect(self) -> Iterable[Metric]:
        async def ask() -> list[Metric]:
            return list(self._collector.collect())

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result(_ANSWER_TIME)


class _Handler(WSGIRequestHandler):
    """Answers one request. Whoever connects and asks for nothing is sent away: each connection has a thread."""

    def handle(self) -> None:
        try:
            super().handle()
        except TimeoutError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Log nothing: a scrape every few seconds is not news."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class MetricsServer:
    """An HTTP endpoint for one collector: ``async with MetricsServer(NodeCollector(node), "127.0.0.1", 9100)``.

    A connection on which nothing comes or goes for `idle_time` seconds is closed.
    """

    def __init__(self, collector: Collector, host: str, port: int, *, idle_time: float = _IDLE_TIME) -> None:
        self._handler = type("Handler", (_Handler,), {"timeout": idle_time})
        self._collector = collector
        self._host = host
        self._port = port
        self._server: WSGIServer | None = None
        self._thread: Thread | None = None

    @property
    def uri(self) -> str:
        """Where to ask."""
        port = self._port if self._server is None else self._server.server_port
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{port}/metrics"

    async def __aenter__(self) -> MetricsServer:
        registry = CollectorRegistry()
        registry.register(_OnLoop(self._collector, asyncio.get_running_loop()))
        try:
            self._server = make_server(
                self._host, self._port, make_wsgi_app(registry), _server_for(self._host, self._port), self._handler
            )
        except (OSError, OverflowError) as error:
            raise MetricsError(self._host, self._port, str(error)) from None
        self._thread = Thread(target=self._server.serve_forever, name="hopline metrics", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        server, thread = self._server, self._thread
        if server is not None and thread is not None:
            await asyncio.to_thread(server.shutdown)  # it may be asking this very loop
            server.server_close()
            thread.join()
        self._server = self._thread = None


def _server_for(host: str, port: int) -> type[_Server]:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    return type("Server", (_Server,), {"address_family": family})


class MetricsError(HoplineError):
    """The metrics cannot be served there."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(host, port, problem)
        self.host = host
        self.port = port
        self.problem = problem

    def __str__(self) -> str:
        found = f"{self.host}:{self.port} ({self.problem})"
        return f"metrics.address: expected an address of this machine that is free, found {found}"
