"""The connection to the rendezvous server: what it publishes comes in, and what everybody should know goes out."""

from __future__ import annotations

from collections.abc import Callable

from hopline.cluster import RendezvousAddress
from hopline.transport import Frames, Sender, Subscriber, Take, Transport

_CAPACITY = 1_000


class Uplink:
    """Two connections to one server, made anew for each."""

    def __init__(self, transport: Transport, take: Take, broke: Callable[[], None]) -> None:
        self._transport = transport
        self._take = take
        self._broke = broke
        self._inlet: Subscriber | None = None
        self._outlet: Sender | None = None

    def follow(self, server: RendezvousAddress) -> None:
        """Leave the server before, and connect to another."""
        self.close()
        self._inlet = self._transport.subscriber(self._take, self._broke)
        self._inlet.connect(server.broadcast_uri)
        self._outlet = self._transport.sender(server.unicast_uri, _CAPACITY)

    def send(self, frames: Frames) -> bool:
        """Send a message to the server."""
        return self._outlet is not None and self._outlet.send(frames)

    def close(self, linger: float = 0.0) -> None:
        """Leave the server; the last words may still be sent, for so many seconds."""
        if self._inlet is not None:
            self._inlet.close()
        if self._outlet is not None:
            self._outlet.close(linger)
        self._inlet = self._outlet = None
