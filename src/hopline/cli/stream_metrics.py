"""The metrics of a stream, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hopline.cli.errors import UsageError
from hopline.cli.stream_display import StreamDisplay, lag_s
from hopline.metrics import MetricsError

_PREFIX = "hopline_stream"


class StreamCollector(Collector):
    """Collects what the last batch of a stream has reported."""

    def __init__(self, display: StreamDisplay) -> None:
        self._display = display

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics; none before the first batch has ended."""
        report = self._display.last
        if report is None:
            return
        state = report.state
        for name in ("segments", "skipped", "records", "messages", "rejects", "late", "flows"):
            value = getattr(state.totals, name)
            yield CounterMetricFamily(f"{_PREFIX}_{name}", _MEANINGS[name], value=value)
        yield GaugeMetricFamily(f"{_PREFIX}_pending_records", "Records of flows that are open.", value=state.pending)
        yield GaugeMetricFamily(f"{_PREFIX}_pending_flows", "Flows that are open.", value=state.pending_units)
        yield GaugeMetricFamily(f"{_PREFIX}_batch", "Number of the last whole batch.", value=report.number)
        yield GaugeMetricFamily(f"{_PREFIX}_batch_seconds", "Duration of the last whole batch.", value=report.seconds)
        lag = lag_s(state, time.time())
        if lag is not None:
            yield GaugeMetricFamily(f"{_PREFIX}_lag_seconds", "Age of the newest message in the tables.", value=lag)


_MEANINGS = {
    "segments": "Segments read.",
    "skipped": "Segments that cannot be read, or were deleted before they were.",
    "records": "Records read.",
    "messages": "Records that are messages.",
    "rejects": "Records that could not be decoded.",
    "late": "Records that came too late.",
    "flows": "Flows that were closed.",
}


@contextmanager
def serve_metrics(address: str, display: StreamDisplay) -> Iterator[None]:
    """Serve the metrics at ``host:port`` for as long as the block runs.

    Raises:
        MetricsError: Nothing can listen there.
        UsageError: It is no such address.
    """
    host, _, port_text = address.rpartition(":")
    if not (host and port_text.isdigit()):
        raise UsageError(f"--metrics: expected host:port, such as 127.0.0.1:9108, found {address!r}")
    host, port = host.strip("[]"), int(port_text)
    registry = CollectorRegistry()
    registry.register(StreamCollector(display))
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        raise MetricsError(host, port, str(error)) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
