"""The metrics of a node and of a rendezvous server, for any registry of prometheus_client.

Metrics are read from the node or server when they are scraped. Only the durations of handlers and requests are measured
in between, from when the collector of a node is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from hopline.capture.events import Level
from hopline.node.node import Node
from hopline.node.report import NetworkReport, NodeReport
from hopline.observers.recorder import CaptureReport
from hopline.observers.timings import Timings
from hopline.rendezvous.server import RendezvousServer


class NodeCollector(Collector):
    """Collects the metrics of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.measure_times()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of the node; none while it is not running."""
        if not self._node.is_running:
            return
        report = self._node.report()
        identity = report.node.decode("utf-8", "backslashreplace")
        labels = {"node": identity, "uri": report.uri, "software": report.software}
        yield InfoMetricFamily("hopline_node", "Identity, address and software of the node.", labels)
        yield from _of_stats(report)
        if self._node.timings is not None:
            yield from _of_timings(self._node.timings)
        if report.network is not None:
            yield from _of_network(report.network)
        if report.capture is not None:
            yield from _of_capture(report.capture)


def _of_stats(report: NodeReport) -> Iterable[Metric]:
    stats = report.stats
    yield _gauge("hopline_uptime_seconds", "Seconds since the node started.", report.uptime)
    outcomes = {str(outcome): count for outcome, count in stats.outcomes.items()}
    yield _counters("hopline_messages", "Messages by outcome.", "outcome", outcomes)
    yield _counter("hopline_submitted", "Messages submitted by hubs and actors of this node.", stats.submitted)
    yield _counter("hopline_received", "Messages received from other nodes.", stats.received)
    yield _counter("hopline_copied", "Additional copies made by broadcasts.", stats.copied)
    yield _counter("hopline_returned", "Messages returned because their peer was gone.", stats.returned)
    yield _counter("hopline_handled", "Handler calls that ended.", stats.handled)
    yield _counter("hopline_handler_errors", "Handler calls that failed.", stats.handler_errors)
    yield _counter("hopline_unexpected", "Replies for which no caller was waiting.", stats.unexpected)
    yield _gauge(
        "hopline_waiting",
        "Messages in mailboxes, in links, without a route, or held by backpressure.",
        stats.waiting,
    )
    yield _gauge("hopline_promised", "Answers that callers are waiting for.", stats.promised)
    waiting: dict[str, int] = {}
    for actor in report.actors:
        waiting.setdefault(actor.name, 0)
        waiting[actor.name] += actor.waiting
    yield _gauges("hopline_mailbox_waiting", "Messages in mailboxes, by class of actor.", "actor", waiting)


def _of_timings(timings: Timings) -> Iterable[Metric]:
    handler_labels = ["message", "actor"]
    handlers = HistogramMetricFamily("hopline_handler_seconds", "Durations of handlers.", labels=handler_labels)
    running = GaugeMetricFamily("hopline_handlers_in_flight", "Handlers that run.", labels=handler_labels)
    failed = CounterMetricFamily("hopline_handler_failures", "Handlers that failed.", labels=handler_labels)
    for labels, series in timings.handlers.items():
        handlers.add_metric(labels, series.cumulative(), series.seconds)
        running.add_metric(labels, series.running)
        failed.add_metric(labels, series.failed)
    yield from (handlers, running, failed)

    in_flight = timings.requests_in_flight()
    requests = HistogramMetricFamily(
        "hopline_request_seconds", "Times from sending a request to its answer, failure or timeout.", labels=["message"]
    )
    waiting = GaugeMetricFamily("hopline_requests_in_flight", "Requests that wait for an answer.", labels=["message"])
    unanswered = CounterMetricFamily(
        "hopline_request_failures", "Requests without an answer, by reason.", labels=["message", "reason"]
    )
    for labels, series in timings.requests.items():
        requests.add_metric(labels, series.cumulative(), series.seconds)
        waiting.add_metric(labels, in_flight[labels])
        unanswered.add_metric((*labels, "failed"), series.failed)
        unanswered.add_metric((*labels, "timeout"), series.timed_out)
    yield from (requests, waiting, unanswered)


def _of_network(network: NetworkReport) -> Iterable[Metric]:
    yield _gauge("hopline_joined", "1 if the node is connected to a rendezvous server.", network.is_joined)
    yield _gauge("hopline_peers", "Other nodes that are known and alive.", network.peers)
    yield _gauge("hopline_links", "Links to peers.", len(network.links))
    silent = sum(link.is_silent for link in network.links)
    yield _gauge("hopline_links_silent", "Links that are not connected.", silent)
    waiting = sum(link.waiting for link in network.links)
    yield _gauge("hopline_links_waiting", "Messages waiting in links.", waiting)
    yield _counter("hopline_rendezvous_changes", "Changes of the rendezvous server.", network.rendezvous_changes)
    yield _counter("hopline_unacknowledged", "Sent messages lost by a broken connection.", network.unacknowledged)
    yield _counter("hopline_routes_published", "Route announcements published to all nodes.", network.published)
    yield _counter("hopline_routes_told", "Route announcements sent to one node.", network.told)
    yield _counter("hopline_routes_heard", "Route announcements received.", network.heard)
    refused = CounterMetricFamily(
        "hopline_refused",
        "Refused messages and routes, by reason.",
        labels=["what", "reason"],
    )
    for reason, count in network.refused_messages.items():
        refused.add_metric(["messages", reason], count)
    for reason, count in network.refused_routes.items():
        refused.add_metric(["routes", reason], count)
    yield refused


def _of_capture(capture: CaptureReport) -> Iterable[Metric]:
    levels = {str(level): int(level is capture.level) for level in Level}
    yield _gauges("hopline_capture_level", "1 for the current level of the capture.", "level", levels)
    yield _gauge("hopline_capture_failing", "1 if the capture cannot write.", bool(capture.problem))
    yield _counter("hopline_capture_records", "Records written.", capture.records)
    yield _counter("hopline_capture_dropped", "Records dropped because memory or disk was full.", capture.dropped)
    yield _counter("hopline_capture_segments", "Segments closed.", capture.segments)
    yield _counter("hopline_capture_segment_bytes", "Bytes of closed segments.", capture.segment_bytes)


class RendezvousCollector(Collector):
    """Collects the metrics of a rendezvous server."""

    def __init__(self, server: RendezvousServer) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of the server; none while it is not running."""
        if not self._server.is_running:
            return
        server = self._server
        statistics = server.statistics
        yield _gauge("hopline_rendezvous_leader", "1 if this server is the leader.", server.is_leader)
        yield _gauge("hopline_rendezvous_held", "Messages held until there is a leader.", server.held)
        yield _counter("hopline_rendezvous_received", "Messages received.", statistics.received)
        yield _counter("hopline_rendezvous_relayed", "Messages relayed to all nodes.", statistics.relayed)
        yield _counter("hopline_rendezvous_pings", "Pings answered.", statistics.pings)
        yield _counter("hopline_rendezvous_heartbeats", "Heartbeats published.", statistics.heartbeats)
        yield _counter("hopline_rendezvous_not_leaders", "Nodes redirected to the leader.", statistics.not_leaders)
        refused = {str(reason): count for reason, count in statistics.refused.items()}
        yield _counters("hopline_rendezvous_refused", "Messages refused, by reason.", "reason", refused)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _gauges(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counter(name: str, text: str, count: int) -> Metric:
    return CounterMetricFamily(name, text, count)


def _counters(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
