"""Where others connect to: a listening socket, and the connections that came in by it.

Whoever connects is nobody until its handshake is complete. Of such connections only so many are kept, and each for
`handshake_timeout`; where there are too many, the oldest goes. So a flood of connections that say nothing keeps
nobody out for longer than a moment.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable

from hopline.message import get_logger
from hopline.transport.address import parse
from hopline.transport.settings import SocketSettings
from hopline.transport.tcp.connection import Connection, Handler
from hopline.transport.tcp.sockets import listen, tune
from hopline.zmtp import Connection as Protocol

log = get_logger("hopline.transport")

_AT_ONCE = 100  # connections that are accepted before others get their turn
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LATER = 0.5  # seconds until connections are accepted again when the system has nothing left for them
_MOST_HANDSHAKES = 1_000  # connections that have not shaken hands


class Door:
    """Accepts connections and lets each begin its handshake."""

    def __init__(
        self,
        address: str,
        field: str,
        protocol: Callable[[], Protocol],
        handler: Callable[[], Handler],
        settings: SocketSettings,
    ) -> None:
        self._socket, self.uri = listen(parse(address, field), field)
        self._protocol = protocol
        self._handler = handler
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_reported = False  # that nobody can be accepted
        self._is_open = True
        self._arriving: dict[Connection, None] = {}  # handshakes that are under way, the oldest first
        self._open()

    def _open(self) -> None:
        self._timer = None
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    if not self._is_reported:
                        log.warning("no connection can be accepted at %s: %s", self.uri, error.strerror)
                    self._is_reported = True
                    self._loop.remove_reader(self._socket)
                    self._timer = self._loop.call_later(_LATER, self._open)
                return
            self._is_reported = False
            self._welcome(sock)

    def _welcome(self, sock: socket.socket) -> None:
        try:
            tune(sock, self._settings)
        except OSError:  # it is gone already
            sock.close()
            return
        if len(self._arriving) >= _MOST_HANDSHAKES:
            oldest = next(iter(self._arriving))
            del self._arriving[oldest]
            oldest.abort()
        connection = Connection(sock, self._protocol(), self._handler(), self._settings, time.monotonic)
        self._arriving[connection] = None

    def arrived(self, connection: Connection) -> None:
        """Note that a connection has shaken hands, or is gone."""
        self._arriving.pop(connection, None)

    def close(self) -> None:
        """Accept nobody more, and close the connections that have not shaken hands."""
        if not self._is_open:
            return
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for connection in list(self._arriving):
            connection.abort()
        self._arriving.clear()
