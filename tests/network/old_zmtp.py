"""Sockets of ZMTP 2.0 on plain TCP: what the reference's own implementation of ZeroMQ speaks, written by hand."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

PATIENCE = 5.0
PUB, SUB, DEALER, ROUTER = 1, 2, 5, 6

_SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
_REVISION = b"\x01"
_MORE, _LONG = 1, 2


def _frame(content: bytes, flags: int = 0) -> bytes:
    if len(content) > 0xFF:
        return bytes((flags | _LONG,)) + struct.pack(">Q", len(content)) + content
    return bytes((flags, len(content))) + content


class OldConnection:
    """One connection after the handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.identity = b""  # of the other side

    async def shake(self, kind: int, identity: bytes = b"") -> Self:
        """Exchange greetings."""
        self._writer.write(_SIGNATURE + _REVISION + bytes((kind,)) + _frame(identity))
        signature = await self._read(10)
        assert signature[0] == 0xFF
        assert signature[9] & 1
        assert (await self._read(1))[0] >= 1
        await self._read(1)  # its kind
        (self.identity,) = await self.receive()
        return self

    async def _read(self, size: int) -> bytes:
        return await asyncio.wait_for(self._reader.readexactly(size), PATIENCE)

    async def receive(self) -> list[bytes]:
        frames = []
        while True:
            flags = (await self._read(1))[0]
            assert flags in (0, _MORE, _LONG, _MORE | _LONG), "ZMTP 2.0 has no commands"
            size = struct.unpack(">Q", await self._read(8))[0] if flags & _LONG else (await self._read(1))[0]
            frames.append(await self._read(size))
            if not flags & _MORE:
                return frames

    async def send(self, frames: Sequence[bytes]) -> None:
        self._writer.write(b"".join(_frame(frame, _MORE) for frame in frames[:-1]) + _frame(frames[-1]))
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


class OldSockets:
    """Connections and listeners that end together."""

    def __init__(self) -> None:
        self._listeners: list[asyncio.Server] = []
        self._connections: list[OldConnection] = []

    async def connect(self, uri: str, kind: int) -> OldConnection:
        host, port = uri.removeprefix("tcp://").split(":")
        connection = OldConnection(*await asyncio.open_connection(host, int(port)))
        self._connections.append(connection)
        return await connection.shake(kind)

    async def listen(self, kind: int, identity: bytes, take: Callable[[OldConnection], Awaitable[None]]) -> str:
        """Listen at a free port, and shake hands with whoever comes."""

        async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = OldConnection(reader, writer)
            self._connections.append(connection)
            try:
                await take(await connection.shake(kind, identity))
            except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                await connection.close()

        listener = await asyncio.start_server(welcome, "127.0.0.1", 0)
        self._listeners.append(listener)
        return f"tcp://127.0.0.1:{listener.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections:
            await connection.close()
        for listener in self._listeners:
            listener.close()
            await listener.wait_closed()
