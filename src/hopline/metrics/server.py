"""An HTTP endpoint for Prometheus, which collects on the event loop that the node or server runs on."""

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

_REQUEST_TIMEOUT = 5.0  # seconds that a busy event loop may take
_IDLE_TIME = 10.0  # seconds that a connection may be silent


class _OnLoop(Collector):
    """Collects on the event loop, wherever it is asked."""

    def __init__(self, collector: Collector, loop: asyncio.AbstractEventLoop) -> None:
        self._collector = collector
        self._loop = loop

    def collect(self) -> Iterable[Metric]:
        async def ask() -> list[Metric]:
            return list(self._collector.collect())

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result(_REQUEST_TIMEOUT)


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
