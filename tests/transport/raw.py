"""A peer on plain TCP that does what a test tells it, and no more: it reads only when it is asked to."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Self

from hopline.transport import parse
from hopline.wire import decode
from hopline.zmtp import Connection as Protocol
from hopline.zmtp import Event, Limits, Ready, SocketType, Version
from tests.node.running import soon

_READ_SIZE = 64 * 1024


class RawPeer:
    """One side of one connection. As ZMTP 3.0 it says so in its greeting, and is spoken to accordingly."""

    def __init__(self, socket_type: SocketType, identity: bytes = b"", version: Version = Version.V3_1) -> None:
        self.protocol = Protocol(socket_type, identity, Limits())
        self.events: list[Event] = []
        self.is_closed = False  # by the other side
        self._socket_type = socket_type
        self._identity = identity
        self._version = version
        self._listening: socket.socket | None = None
        self._socket: socket.socket | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for sock in (self._socket, self._listening):
            if sock is not None:
                sock.close()

    def listen(self, buffer: int = 0) -> str:
        """Listen at a free port, with a small buffer if so wanted, and return the address."""
        self._listening = socket.socket()
        if buffer:
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen()
        self._listening.setblocking(False)
        return f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"

    async def accept(self) -> None:
        """Wait for the other side to connect, and say nothing yet."""
        assert self._listening is not None
        self._socket = (await soon(asyncio.get_running_loop().sock_accept(self._listening)))[0]

    async def dial(self, uri: str, buffer: int = 0) -> None:
        """Connect, with a small buffer if so wanted, and say nothing yet."""
        self._socket = socket.socket()
        if buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._socket.setblocking(False)
        await soon(asyncio.get_running_loop().sock_connect(self._socket, ("127.0.0.1", parse(uri).first_port)))

    async def connect(self, uri: str) -> Ready:
        """Connect, and shake hands."""
        await self.dial(uri)
        return await self.shake()

    def write_and_reset(self, data: bytes) -> None:
        """Write what fits into the buffers, and reset the connection, before the other side can do anything."""
        assert self._socket is not None
        assert self._socket.send(data) == len(data)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def drop(self) -> None:
        """Close the connection, and be ready for the next one."""
        assert self._socket is not None
        self._socket.close()
        self.protocol = Protocol(self._socket_type, self._identity, Limits())
        self.events = []

    async def shake(self) -> Ready:
        """Exchange greetings."""
        await self._answer()
        while not any(isinstance(event, Ready) for event in self.events):
            assert not self.is_closed, "the other side closed the connection"
            await self.read()
        ready = next(event for event in self.events if isinstance(event, Ready))
        self.events.remove(ready)
        return ready

    async def read(self, size: int = _READ_SIZE) -> None:
        """Read once, and answer what has to be answered."""
        await self.read_silently(size)
        await self._answer()

    async def read_silently(self, size: int = _READ_SIZE) -> bytes:
        """Read once, and answer nothing."""
        assert self._socket is not None
        try:
            data = await soon(asyncio.get_running_loop().sock_recv(self._socket, size))
        except ConnectionError:
            data = b""
        self.is_closed = not data
        self.events += self.protocol.receive(data)
        return data

    async def _answer(self) -> None:
        output = self.protocol.take_output()
        if self._version is Version.V3_0 and output.startswith(b"\x01NULL"):
            output = b"\x00" + output[1:]  # what follows the major version
        if output:
            await self.write(output)

    async def write(self, data: bytes) -> None:
        assert self._socket is not None
        await soon(asyncio.get_running_loop().sock_sendall(self._socket, data))

    async def read_until(self, condition: Callable[[], object]) -> None:
        """Read, and answer, until a condition holds."""
        while not condition():
            assert not self.is_closed, "the other side closed the connection"
            await self.read()

    async def read_to_the_end(self) -> None:
        """Read, and answer nothing, until the other side closes the connection."""
        while not self.is_closed:
            await self.read_silently()

    @property
    def bodies(self) -> list[bytes]:
        """What was read from nodes."""
        return [decode([b"", *event]).body for event in self.events if isinstance(event, list)]
