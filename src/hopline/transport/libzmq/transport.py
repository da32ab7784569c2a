"""Sockets of libzmq, behind the interface that nodes and servers use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq

from hopline.message import ArgumentError, BindError, Message
from hopline.transport.address import can_connect, parse, resolved
from hopline.transport.curve import Curve
from hopline.transport.interface import GaveUp, Listener, Peers, Sender, Subscriber, Take, Write
from hopline.transport.libzmq.authenticator import zap_authenticator
from hopline.transport.libzmq.monitor import ConnectionMonitor
from hopline.transport.libzmq.peers import Backend
from hopline.transport.libzmq.reader import SocketReader
from hopline.transport.libzmq.sockets import bind, connect, open_socket
from hopline.transport.libzmq.writer import SocketWriter
from hopline.transport.settings import SocketSettings


class ZmqTransport:
    """Sockets of libzmq."""

    def __init__(self, settings: SocketSettings, curve: Curve | None) -> None:
        self._settings = settings
        self._curve = curve
        if curve is not None:
            zap_authenticator.add(curve)

    def listener(self, address: str, field: str, *, identity: bytes = b"") -> Listener:
        """Bind a ROUTER socket."""
        return _ZmqListener(self._settings, self._curve, address, field, identity)

    def publisher(self, address: str, field: str, capacity: int) -> tuple[Sender, str]:
        """Bind a PUB socket."""
        socket = open_socket(zmq.PUB, self._settings, curve=self._curve, is_server=True)
        socket.sndhwm = capacity
        try:
            uri = bind(socket, parse(address, field), field)
        except (ArgumentError, BindError):
            socket.close(0)
            raise
        return SocketWriter(socket, capacity), uri

    def subscriber(self, take: Take, broke: Callable[[], None] | None = None) -> Subscriber:
        """Open a SUB socket that hears everything."""
        return _ZmqSubscriber(self._settings, self._curve, take, broke)

    def sender(self, uri: str, capacity: int, *, identity: bytes = b"") -> Sender:
        """Connect a DEALER socket."""
        socket = open_socket(zmq.DEALER, self._settings, identity=identity, curve=self._curve)
        connect(socket, uri)
        return SocketWriter(socket, capacity)

    def peers(
        self,
        prepare: Callable[[Message], Message],
        write: Write,
        gave_up: GaveUp,
        clock: Callable[[], float],
    ) -> Peers:
        """Open a ROUTER socket that connects to peers."""
        return Backend(self._settings, prepare, write, gave_up, clock, curve=self._curve)

    def can_connect(self, uri: str) -> bool:
        """Refuse what is not one place, and names: libzmq looks them up in the one thread that serves every socket."""
        return can_connect(uri)

    async def resolve(self, uri: str) -> str:
        """Look a name up, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(None, resolved, uri)

    def close(self) -> None:
        """Take the keys away again."""
        if self._curve is not None:
            zap_authenticator.remove(self._curve)


class _ZmqListener:
    def __init__(
        self, settings: SocketSettings, curve: Curve | None, address: str, field: str, identity: bytes
    ) -> None:
        self._batch = settings.batch
        self._socket = open_socket(zmq.ROUTER, settings, identity=identity, curve=curve, is_server=True)
        self._reader: SocketReader | None = None
        try:
            self.uri = bind(self._socket, parse(address, field), field)
        except (ArgumentError, BindError):
            self._socket.close(0)
            raise

    def read(self, take: Take) -> None:
        self._reader = SocketReader(self._socket, take, batch=self._batch)

    def pause(self) -> None:
        if self._reader is not None:
            self._reader.pause()

    def resume(self) -> None:
        if self._reader is not None:
            self._reader.resume()

    def close(self) -> None:
        if self._reader is None:
            self._socket.close(0)
        else:
            self._reader.close()


class _ZmqSubscriber:
    def __init__(
        self, settings: SocketSettings, curve: Curve | None, take: Take, broke: Callable[[], None] | None
    ) -> None:
        socket = open_socket(zmq.SUB, settings, curve=curve)
        socket.subscribe(b"")
        batch = settings.batch
        self._tell_broke = broke
        self._handshakes = None if broke is None else ConnectionMonitor(socket, self, batch=batch)
        self._reader = SocketReader(socket, take, batch=batch)
        self.connect = self._reader.connect
        self.disconnect = self._reader.disconnect

    def came_up(self, uri: str) -> None:
        """Leave it to what comes over a connection to tell that it came up."""

    def broke(self, uri: str) -> None:  # noqa: ARG002 - who asks to be told has one
        if self._tell_broke is not None:
            self._tell_broke()

    def was_refused(self, uri: str) -> None:
        self.broke(uri)

    def close(self) -> None:
        if self._handshakes is not None:
            self._handshakes.close()
        self._reader.close()
