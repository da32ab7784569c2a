"""xoscar: an actor in the pool of another process, called through its reference. Bodies travel as pickled arguments."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

import xoscar

from benchmarks.network.contender import Addresses, Channel, Options
from benchmarks.network.measuring import carry_out_orders_async, many_in_flight

NAME = "echo"


class Echo(xoscar.Actor):
    """Answers every request with its body, and counts the notes."""

    def __init__(self) -> None:
        super().__init__()
        self._notes = 0

    def answer(self, body: bytes) -> bytes:
        """Answer one."""
        return body

    def note(self, body: bytes) -> None:  # noqa: ARG002
        """Count one."""
        self._notes += 1

    def count(self) -> int:
        """Tell how many came since this was asked last."""
        count, self._notes = self._notes, 0
        return count

    def process_id(self) -> int:
        """Say where this runs."""
        return os.getpid()


def server(channel: Channel, addresses: Addresses, options: Options) -> None:  # noqa: ARG001 - the first role
    """Be the pool of the echo."""
    asyncio.run(_server(channel))


def client(channel: Channel, addresses: Addresses, options: Options) -> None:  # noqa: ARG001 - none are needed
    """Be the pool of who asks."""
    asyncio.run(_client(channel, addresses["server"]))


async def _server(channel: Channel) -> None:
    pool = await xoscar.create_actor_pool("127.0.0.1", n_process=0)
    await xoscar.create_actor(Echo, address=pool.external_address, uid=NAME)
    channel.send(pool.external_address)
    await pool.join()


async def _client(channel: Channel, address: str) -> None:
    pool = await xoscar.create_actor_pool("127.0.0.1", n_process=0)
    ref = await xoscar.actor_ref(address=address, uid=NAME)
    if await ref.process_id() == os.getpid():
        raise AssertionError("the actor is in the same process")
    channel.send(pool.external_address)
    with contextlib.suppress(EOFError):
        await carry_out_orders_async(channel, RefClient(ref))
    await pool.stop()


class RefClient:
    """Calls through a reference."""

    def __init__(self, ref: Any) -> None:
        self._ref = ref

    async def ask(self, body: bytes) -> bytes:
        """Await the call."""
        answer: bytes = await self._ref.answer(body)
        return answer

    async def tell(self, body: bytes) -> None:
        """Call without a wish for the result."""
        await self._ref.note.tell(body)

    async def count(self) -> int:
        """Ask the same actor."""
        count: int = await self._ref.count()
        return count

    async def pipelined(self, body: bytes, seconds: float, in_flight: int) -> tuple[int, float]:
        """Await calls in many tasks."""
        return await many_in_flight(self.ask, body, seconds, in_flight)
