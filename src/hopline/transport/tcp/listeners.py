"""Takes messages from anybody, at an address: a ROUTER that has many peers, each with its identity."""

from __future__ import annotations

import itertools
import os

from hopline.message import get_logger
from hopline.transport.interface import Take
from hopline.transport.settings import SocketSettings
from hopline.transport.tcp.acceptor import Door
from hopline.transport.tcp.connection import Connection, Handler
from hopline.zmtp import Connection as Protocol
from hopline.zmtp import Limits, Ready, SocketType

log = get_logger("hopline.transport")

_GIVEN_IDENTITY = b"\0"  # identities that peers choose themselves do not begin so
_FOUR_BYTES = 0xFFFFFFFF


class TcpListener:
    """Hands every message over with the identity of its sender in front.

    An identity belongs to the connection that presented it first, until that one is gone.
    """

    def __init__(self, address: str, field: str, identity: bytes, settings: SocketSettings) -> None:
        limits = Limits(frame_size=settings.max_frame_size)
        self.take: Take = _drop
        self._is_paused = True  # until it is read
        self._by_identity: dict[bytes, Connection] = {}
        self._numbers = itertools.count(int.from_bytes(os.urandom(4)))
        self.door = Door(
            address,
            field,
            lambda: Protocol(SocketType.ROUTER, identity, limits),
            lambda: _Sender(self),
            settings,
        )
        self.uri = self.door.uri

    def read(self, take: Take) -> None:
        """Begin to take what came, and what comes."""
        self.take = take
        self.resume()

    def pause(self) -> None:
        """Take nothing more for now; those who send are held up when the system's buffers are full."""
        self._is_paused = True
        for connection in self._by_identity.values():
            connection.pause()

    def resume(self) -> None:
        """Take messages again."""
        self._is_paused = False
        for connection in tuple(self._by_identity.values()):
            if not self._is_paused:  # by what another one has brought
                connection.resume()

    def enter(self, connection: Connection, identity: bytes) -> bytes | None:
        """Return the identity by which a new connection is known, or None if another one has it."""
        if not identity:
            identity = _GIVEN_IDENTITY + (next(self._numbers) & _FOUR_BYTES).to_bytes(4)
        if identity in self._by_identity:
            log.warning("refused a peer whose identity another connection has: %r", identity[:64])
            return None
        self._by_identity[identity] = connection
        if self._is_paused:
            connection.pause()
        return identity

    def leave(self, identity: bytes) -> None:
        """Note that a connection is gone."""
        self._by_identity.pop(identity, None)

    def close(self) -> None:
        """Take nothing more."""
        self.door.close()
        self.take = _drop
        for connection in self._by_identity.values():
            connection.abort()
        self._by_identity.clear()


def _drop(frames: list[bytes]) -> None:
    """Take a message that nobody reads: the listener is closed, or paused and not read yet."""


class _Sender(Handler):
    """Whoever is at the other end of one connection."""

    def __init__(self, listener: TcpListener) -> None:
        self._listener = listener
        self._identity: bytes | None = None

    def ready(self, connection: Connection, peer: Ready) -> None:
        self._listener.door.arrived(connection)
        self._identity = self._listener.enter(connection, peer.identity)
        if self._identity is None:
            connection.abort()
        else:
            self._prefix = self._identity

    def message(self, frames: list[bytes]) -> None:
        frames.insert(0, self._prefix)
        self._listener.take(frames)

    def closed(self, connection: Connection, reason: str) -> None:  # noqa: ARG002
        self._listener.door.arrived(connection)
        if self._identity is not None:
            self._listener.leave(self._identity)
