"""An HTTP endpoint for Prometheus.

Requests are served by threads, but the metrics are collected on the event loop of the node or server, which is not
safe to read from another thread.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from hopline.message import HoplineError

_COLLECT_TIMEOUT = 5.0  # seconds for a busy event loop to collect
_IDLE_TIMEOUT = 10.0  # seconds after which an idle connection is closed


class _OnLoop(Collector):
    """Runs a collector on the event loop, whichever thread calls it."""

    def __init__(self, collector: Collector, loop: asyncio.AbstractEventLoop) -> None:
        self._collector = collector
        self._loop = loop

    def collect(self) -> Iterable[Metric]:
        async def collect() -> list[Metric]:
            return list(self._collector.collect())

        collected = asyncio.run_coroutine_threadsafe(collect(), self._loop)
        return collected.result(_COLLECT_TIMEOUT)


class _Handler(WSGIRequestHandler):
    """Handles one connection, and closes it when it is idle, because each connection occupies a thread."""

    def handle(self) -> None:
        try:
            super().handle()
        except TimeoutError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Log nothing: requests come every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class MetricsServer:
    """An HTTP endpoint for one collector: ``async with MetricsServer(NodeCollector(node), "127.0.0.1", 9100)``.

    Args:
        collector: What to serve.
        host: The address to listen on.
        port: The port; 0 for any free one, see `uri`.
        idle_time: Seconds after which an idle connection is closed.
    """

    def __init__(self, collector: Collector, host: str, port: int, *, idle_time: float = _IDLE_TIMEOUT) -> None:
        self._handler = type("Handler", (_Handler,), {"timeout": idle_time})
        self._collector = collector
        self._host = host
        self._port = port
        self._server: WSGIServer | None = None
        self._thread: Thread | None = None

    @property
    def uri(self) -> str:
        """The address of the endpoint."""
        port = self._port if self._server is None else self._server.server_port
        is_ipv6 = ":" in self._host
        host = f"[{self._host}]" if is_ipv6 else self._host
        return f"http://{host}:{port}/metrics"

    async def __aenter__(self) -> MetricsServer:
        registry = CollectorRegistry()
        collector = _OnLoop(self._collector, asyncio.get_running_loop())
        registry.register(collector)
        try:
            self._server = make_server(
                self._host,
                self._port,
                make_wsgi_app(registry),
                _server_for(self._host, self._port),
                self._handler,
            )
        except (OSError, OverflowError) as error:
            raise MetricsError(self._host, self._port, str(error)) from None
        self._thread = Thread(target=self._server.serve_forever, name="hopline metrics", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        server = self._server
        thread = self._thread
        if server is not None and thread is not None:
            await asyncio.to_thread(server.shutdown)  # a request may be waiting for this loop
            server.server_close()
            thread.join()
        self._server = self._thread = None


def _server_for(host: str, port: int) -> type[_Server]:
    addresses = socket.getaddrinfo(
        host,
        port,
        type=socket.SOCK_STREAM,
        flags=socket.AI_PASSIVE,
    )
    family, *_ = addresses[0]
    return type("Server", (_Server,), {"address_family": family})


class MetricsError(HoplineError):
    """The endpoint cannot listen on its address."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(host, port, problem)
        self.host = host
        self.port = port
        self.problem = problem

    def __str__(self) -> str:
        address = f"{self.host}:{self.port}"
        return f"metrics.address: expected an address of this machine that is free, found {address} ({self.problem})"
