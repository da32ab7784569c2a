"""The connection to the rendezvous server: what it publishes comes in, and what everybody should know goes out."""

from __future__ import annotations

from collections.abc import Callable

from hopline.cluster import RendezvousAddress
from hopline.transport import (
    DEALER,
    SUB,
    Curve,
    Frames,
    Handshakes,
    Inlet,
    Outlet,
    SocketSettings,
    connect,
    open_socket,
)

_CAPACITY = 1_000


class Uplink:
    """Two sockets to one server, made anew for each."""

    def __init__(
        self,
        settings: SocketSettings,
        curve: Curve | None,
        take: Callable[[list[bytes]], None],
        broke: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._curve = curve
        self._take = take
        self._tell_broke = broke
        self._inlet: Inlet | None = None
        self._handshakes: Handshakes | None = None
        self._outlet: Outlet | None = None

    def follow(self, server: RendezvousAddress) -> None:
        """Leave the server before, and connect to another."""
        self.close()
        batch = self._settings.batch
        broadcast = open_socket(SUB, self._settings, curve=self._curve)
        broadcast.subscribe(b"")
        self._handshakes = Handshakes(broadcast, self, batch=batch)
        self._inlet = Inlet(broadcast, self._take, batch=batch)
        self._inlet.connect(server.broadcast_uri)
        unicast = open_socket(DEALER, self._settings, curve=self._curve)
        connect(unicast, server.unicast_uri)
        self._outlet = Outlet(unicast, _CAPACITY)

    def send(self, frames: Frames) -> bool:
        """Send a message to the server."""
        return self._outlet is not None and self._outlet.send(frames)

    def came_up(self, uri: str) -> None:
        """Leave it to what comes over a connection to tell that it came up."""

    def broke(self, uri: str) -> None:  # noqa: ARG002 - there is one
        """Note that the connection to the server broke."""
        self._tell_broke()

    def was_refused(self, uri: str) -> None:  # noqa: ARG002 - there is one
        """Note that no server listens there."""
        self._tell_broke()

    def close(self, linger: float = 0.0) -> None:
        """Leave the server; the last words may still be sent, for so many seconds."""
        if self._handshakes is not None:
            self._handshakes.close()
        if self._inlet is not None:
            self._inlet.close()
        if self._outlet is not None:
            self._outlet.close(linger)
        self._handshakes = self._inlet = self._outlet = None
