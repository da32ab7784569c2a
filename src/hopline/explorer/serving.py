"""Serves the explorer until a signal stops it."""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from hopline.explorer import charts
from hopline.explorer.app import Explorer, create_app
from hopline.explorer.pages import overview
from hopline.message import HoplineError, get_logger

USUAL_PORT = 8000
_PORTS_TRIED = 20
_LOGGER = get_logger(__name__)
_STOP_SECONDS = 2
_WARM_UP_SECONDS = 60.0


class AddressError(HoplineError):
    """The explorer cannot listen at the given address."""


def listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens: at a port that is given, or at the usual one or the first free one after it.

    Raises:
        AddressError: The port is taken, or the host is none of this machine.

    """
    ports = [port] if port is not None else [*range(USUAL_PORT, USUAL_PORT + _PORTS_TRIED), 0]
    for candidate in ports:
        try:
            return _bound(host, candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port is None:
                continue
            reason = error.strerror or str(error)
            raise AddressError(f"cannot listen at {host}:{candidate}: {reason}; --port 0 takes any free port") from None
    raise AddressError(f"cannot listen at {host}: no free port")


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the address that a browser opens."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}/"


def serve(explorer: Explorer, listener: socket.socket, *, on_start: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGINT or SIGTERM; a second one does not wait for pages under way."""
    config = uvicorn.Config(
        create_app(explorer),
        access_log=False,
        lifespan="off",
        log_config=None,
        loop="asyncio",
        server_header=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        ws="none",
    )
    server = _Server(config)
    warming = threading.Thread(target=_warm_up, args=(explorer,), daemon=True)
    warming.start()
    with _stopped_by_signals(server):
        on_start()
        server.run(sockets=[listener])
    warming.join(_WARM_UP_SECONDS)  # a process that ends while libraries are at work in a thread is aborted


class _Server(uvicorn.Server):
    """A server that leaves signals to `_stopped_by_signals`; it would raise them again when it has ended."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Stop a server on SIGINT and SIGTERM, also when they come before it runs. Only the main thread has signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_: int, __: FrameType | None) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _warm_up(explorer: Explorer) -> None:
    """Make the overview, whose template is then compiled, and whose rows and pictures are then kept."""
    try:
        charts.warm_up()
        explorer.tables.read(lambda snapshot: overview.page(explorer.context("/", snapshot)))
    except HoplineError as problem:  # the page shows it
        _LOGGER.debug("the overview could not be prepared: %s", problem)
