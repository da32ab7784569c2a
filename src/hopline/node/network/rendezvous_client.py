"""The connections to the rendezvous server: one for what it publishes, one for what this node sends."""

from __future__ import annotations

from collections.abc import Callable

from hopline.cluster import RendezvousAddress
from hopline.transport import Frames, Sender, Subscriber, Take, Transport

_CAPACITY = 1_000  # messages that may wait for the server


class RendezvousClient:
    """Follows one rendezvous server at a time, over connections that are opened anew for each.

    Args:
        transport: Opens the connections.
        take: Called with the frames of each message that the server publishes.
        on_disconnected: Called when the connection to the server is lost.
    """

    def __init__(
        self,
        transport: Transport,
        take: Take,
        on_disconnected: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._take = take
        self._on_disconnected = on_disconnected
        self._subscriber: Subscriber | None = None
        self._sender: Sender | None = None

    def follow(self, server: RendezvousAddress) -> None:
        """Disconnect from the current server, and connect to another one."""
        self.close()
        subscriber = self._transport.subscriber(self._take, self._on_disconnected)
        subscriber.connect(server.broadcast_uri)
        self._subscriber = subscriber
        self._sender = self._transport.sender(server.unicast_uri, _CAPACITY)

    def send(self, frames: Frames) -> bool:
        """Send a message to the server. Return False if there is no server, or no room."""
        if self._sender is None:
            return False
        return self._sender.send(frames)

    def close(self, linger: float = 0.0) -> None:
        """Disconnect from the server. What was sent has `linger` seconds to leave."""
        if self._subscriber is not None:
            self._subscriber.close()
        if self._sender is not None:
            self._sender.close(linger)
        self._subscriber = None
        self._sender = None
