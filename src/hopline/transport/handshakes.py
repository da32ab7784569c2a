"""Which connections of a socket stand: libzmq's own account of it, instead of sleeping and hoping."""

from __future__ import annotations

from collections.abc import Callable

import zmq
from zmq.utils.monitor import parse_monitor_message

from hopline.transport.inlet import Inlet

_UP = zmq.EVENT_HANDSHAKE_SUCCEEDED
_DOWN = (
    zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)


class Handshakes:
    """Watches a socket and tells when the connection to an address came up or broke."""

    def __init__(
        self, socket: zmq.Socket[bytes], came_up: Callable[[str], None], broke: Callable[[str], None], *, batch: int
    ) -> None:
        self._socket = socket
        self._came_up = came_up
        self._broke = broke
        self._inlet = Inlet(socket.get_monitor_socket(_UP | _DOWN), self._take, batch=batch)

    def _take(self, frames: list[bytes]) -> None:
        event = parse_monitor_message(frames)
        tell = self._came_up if event["event"] == _UP else self._broke
        tell(event["endpoint"].decode())

    def close(self) -> None:
        """Stop watching."""
        self._socket.disable_monitor()
        self._inlet.close()
