"""Sends to the listener at one address, whoever it is: a DEALER."""

from __future__ import annotations

from collections import deque

from hopline.transport.interface import Frames
from hopline.transport.settings import SocketSettings
from hopline.transport.tcp.connection import Connection
from hopline.transport.tcp.dialer import Dialer
from hopline.zmtp import Connection as Protocol
from hopline.zmtp import Limits, Ready, SocketType


class TcpSender(Dialer):
    """Keeps what has not left, up to a bound, over any number of connections."""

    def __init__(self, uri: str, capacity: int, identity: bytes, settings: SocketSettings) -> None:
        self._capacity = capacity
        self._unsent: deque[Frames] = deque()
        self._up: Connection | None = None
        self._ends_at: float | None = None  # once it was closed without a connection
        limits = Limits(frame_size=settings.max_frame_size)
        super().__init__(uri, lambda: Protocol(SocketType.DEALER, identity, limits), settings)

    def send(self, frames: Frames) -> bool:
        """Send a message, now or when there is a connection, or return that there is no room."""
        connection = self._up
        if len(self._unsent) >= self._capacity and connection is not None:
            connection.flush()
        if len(self._unsent) >= self._capacity:
            return False
        self._unsent.append(frames)
        if connection is not None:
            connection.send(frames)
        return True

    def came_up(self, connection: Connection, peer: Ready) -> None:  # noqa: ARG002 - whoever it is
        """Send what waits."""
        self._up = connection
        for frames in tuple(self._unsent):
            connection.send(frames)
        if self._ends_at is not None:
            super().close(self._ends_at - self._loop.time())

    def written(self, count: int) -> None:
        """Note that messages have left."""
        for _ in range(count):
            self._unsent.popleft()

    def went_down(self, reason: str) -> None:  # noqa: ARG002 - it is tried again
        """Keep what has not left for the next connection."""
        self._up = None

    def close(self, linger: float = 0.0) -> None:
        """Send nothing more; what was sent may still leave, for so many seconds, also if there is no connection yet."""
        if self._unsent and self._up is None and linger > 0:
            self._ends_at = self._loop.time() + linger
            self._loop.call_at(self._ends_at, super().close)
        else:
            super().close(linger)
