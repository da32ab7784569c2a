"""Hears what others publish: a SUB at any number of addresses."""

from __future__ import annotations

from collections.abc import Callable

from hopline.transport.interface import Take
from hopline.transport.settings import SocketSettings
from hopline.transport.tcp.connection import Connection
from hopline.transport.tcp.dialer import Dialer
from hopline.zmtp import Connection as Protocol
from hopline.zmtp import Limits, Ready, SocketType

_EVERYTHING = b""


class TcpSubscriber:
    """Listens to everything that is published at some addresses."""

    def __init__(self, take: Take, broke: Callable[[], None] | None, settings: SocketSettings) -> None:
        self.take = take
        self.broke = broke
        self._settings = settings
        self._subscriptions: dict[str, _Subscription] = {}

    def connect(self, uri: str) -> None:
        """Listen there too."""
        if uri not in self._subscriptions:
            self._subscriptions[uri] = _Subscription(self, uri, self._settings)

    def disconnect(self, uri: str) -> None:
        """Listen there no longer."""
        subscription = self._subscriptions.pop(uri, None)
        if subscription is not None:
            subscription.close()

    def close(self) -> None:
        """Listen nowhere."""
        for uri in list(self._subscriptions):
            self.disconnect(uri)


class _Subscription(Dialer):
    def __init__(self, subscriber: TcpSubscriber, uri: str, settings: SocketSettings) -> None:
        self._subscriber = subscriber
        limits = Limits(frame_size=settings.max_frame_size)
        super().__init__(uri, lambda: Protocol(SocketType.SUB, limits=limits), settings)

    def came_up(self, connection: Connection, peer: Ready) -> None:  # noqa: ARG002 - whoever it is
        connection.subscribe(_EVERYTHING)

    def message(self, frames: list[bytes]) -> None:
        self._subscriber.take(frames)

    def unreachable(self, reason: str) -> None:  # noqa: ARG002 - it is tried again
        if self._subscriber.broke is not None:
            self._subscriber.broke()
