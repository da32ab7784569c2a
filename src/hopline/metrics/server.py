"""An HTTP endpoint: metrics for Prometheus, and two probes for whatever runs the process.

``/metrics`` has the metrics, ``/health`` tells whether the event loop still runs, and ``/ready`` whether others can
reach what runs on it. Every other path is not found.

Requests are served by threads, but everything is read on the event loop of the node or server, which is not safe to
read from another thread. A loop that does not answer within `_LOOP_TIMEOUT` is not healthy.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from hopline.message import HoplineError
from hopline.metrics.readiness import Readiness, always_ready

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

Result = TypeVar("Result")

_LOOP_TIMEOUT = 5.0  # seconds for a busy event loop to answer
_IDLE_TIMEOUT = 10.0  # seconds after which an idle connection is closed


class _Loop:
    """Calls functions on the event loop, from other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, function: Callable[[], Result]) -> Result:
        """Return what a function returns on the loop; raise `TimeoutError` if the loop is too busy."""

        async def call() -> Result:
            return function()

        called = asyncio.run_coroutine_threadsafe(call(), self._loop)
        return called.result(_LOOP_TIMEOUT)


class _OnLoop(Collector):
    """Runs a collector on the event loop, whichever thread calls it."""

    def __init__(self, collector: Collector, loop: _Loop) -> None:
        self._collector = collector
        self._loop = loop

    def collect(self) -> Iterable[Metric]:
        return self._loop.call(lambda: list(self._collector.collect()))


class _Pages:
    """The WSGI application: one page for each path."""

    def __init__(self, collector: Collector, readiness: Readiness, loop: _Loop) -> None:
        registry = CollectorRegistry()
        registry.register(_OnLoop(collector, loop))
        self._metrics: WSGIApplication = make_wsgi_app(registry)
        self._readiness = readiness
        self._loop = loop

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match environ.get("PATH_INFO"):
            case "/metrics":
                page = self._metrics
            case "/health":
                page = self._health
            case "/ready":
                page = self._ready
            case _:
                page = _not_found
        try:
            return page(environ, start_response)
        except TimeoutError:
            busy = f"the event loop has not answered for {_LOOP_TIMEOUT:g} s"
            return _text(start_response, HTTPStatus.SERVICE_UNAVAILABLE, busy)

    def _health(self, _: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        self._loop.call(always_ready)
        return _text(start_response, HTTPStatus.OK, "ok")

    def _ready(self, _: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        problem = self._loop.call(self._readiness)
        if problem:
            return _text(start_response, HTTPStatus.SERVICE_UNAVAILABLE, problem)
        return _text(start_response, HTTPStatus.OK, "ok")


def _not_found(_: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    return _text(start_response, HTTPStatus.NOT_FOUND, "not found: try /metrics, /health or /ready")


def _text(start_response: StartResponse, status: HTTPStatus, text: str) -> Iterable[bytes]:
    start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]


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
    """An HTTP endpoint for one collector.

    ``async with MetricsServer(NodeCollector(node), "127.0.0.1", 9100, readiness=node_readiness(node)): ...``

    Args:
        collector: What to serve.
        readiness: Returns why the page ``/ready`` is to say no; an empty text for yes. Default: always yes.
        host: The address to listen on.
        port: The port; 0 for any free one, see `uri`.
        idle_time: Seconds after which an idle connection is closed.
    """

    def __init__(
        self,
        collector: Collector,
        host: str,
        port: int,
        *,
        readiness: Readiness = always_ready,
        idle_time: float = _IDLE_TIMEOUT,
    ) -> None:
        self._handler = type("Handler", (_Handler,), {"timeout": idle_time})
        self._collector = collector
        self._readiness = readiness
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
        loop = _Loop(asyncio.get_running_loop())
        try:
            self._server = make_server(
                self._host,
                self._port,
                _Pages(self._collector, self._readiness, loop),
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
