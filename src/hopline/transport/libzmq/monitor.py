"""Which connections of a socket stand: libzmq's own account of it, instead of sleeping and hoping."""

from __future__ import annotations

from typing import Protocol

import zmq
from zmq.utils.monitor import parse_monitor_message

from hopline.transport.libzmq.reader import SocketReader

_UP = zmq.EVENT_HANDSHAKE_SUCCEEDED
_REFUSED = zmq.EVENT_CONNECT_RETRIED
_DOWN = (
    zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)


class Listener(Protocol):
    """Who wants to know how the connections of a socket are."""

    def came_up(self, uri: str) -> None:
        """Note that somebody shook hands at an address."""
        ...

    def broke(self, uri: str) -> None:
        """Note that the connection to an address broke."""
        ...

    def was_refused(self, uri: str) -> None:
        """Note that nobody listens at an address."""
        ...


class ConnectionMonitor:
    """Watches a socket, and tells its listener."""

    def __init__(self, socket: zmq.Socket[bytes], listener: Listener, *, batch: int) -> None:
        self._socket = socket
        self._listener = listener
        self._reader = SocketReader(socket.get_monitor_socket(_UP | _DOWN | _REFUSED), self._take, batch=batch)

    def _take(self, frames: list[bytes]) -> None:
        event = parse_monitor_message(frames)
        uri = event["endpoint"].decode()
        if event["event"] == _UP:
            self._listener.came_up(uri)
        elif event["event"] == _REFUSED:
            self._listener.was_refused(uri)
        else:
            self._listener.broke(uri)

    def close(self) -> None:
        """Stop watching."""
        self._socket.disable_monitor()
        self._reader.close()
