"""The last bytes of connections that were closed.

Theory of operation. Closing a TCP socket is not enough for its last bytes to arrive: where something was received that
nobody read, a ping for instance, the system resets the connection and forgets what the peer has not acknowledged. So
the sending direction is shut down behind the last byte, and the socket is closed when the peer has closed its side, or
when the time is over.

A process may end before that. What the system has taken by then leaves anyway; what it has not is written by
`finish_all`, which runs at exit, without an event loop.
"""

from __future__ import annotations

import asyncio
import atexit
import socket
import time
from contextlib import suppress

_READ_SIZE = 64 * 1024
_under_way: set[Farewell] = set()


class Farewell:
    """Writes what is left of one connection, and closes it."""

    def __init__(self, sock: socket.socket, rest: bytes, linger: float, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = sock
        self._rest = memoryview(rest)
        self._loop = loop
        self._ends_at = time.monotonic() + linger
        self._timer: asyncio.TimerHandle | None = None
        if linger <= 0:
            self._close()
            return
        _under_way.add(self)
        self._timer = loop.call_later(linger, self._close)
        loop.add_reader(sock, self._read)
        if self._rest:
            loop.add_writer(sock, self._write)
        else:
            self._shut_down()

    def _write(self) -> None:
        try:
            self._rest = self._rest[self._socket.send(self._rest) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._close()
            return
        if not self._rest:
            self._loop.remove_writer(self._socket)
            self._shut_down()

    def _shut_down(self) -> None:
        with suppress(OSError):  # the peer may be gone, which reading will tell
            self._socket.shutdown(socket.SHUT_WR)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._close()

    def _close(self) -> None:
        _under_way.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
        self._socket.close()

    def finish(self) -> None:
        """Write the rest and close, waiting for the system: there is no event loop any more."""
        with suppress(OSError):
            self._socket.settimeout(max(0.001, self._ends_at - time.monotonic()))
            self._socket.sendall(self._rest)
        self._socket.close()


@atexit.register
def finish_all() -> None:
    """Write what is left of all connections, each within its time."""
    with suppress(KeyboardInterrupt):  # whoever is in a hurry does not wait for that
        for farewell in list(_under_way):
            farewell.finish()
