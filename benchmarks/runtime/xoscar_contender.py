"""xoscar with all actors in its main pool, which is this process: no worker processes, no sockets on the way.

It knows two ways to an actor next door, and both are here. The reference that ``create_actor`` returns sends messages
through the pool, in-process queues included, as to any other actor. The reference that ``actor_ref`` returns finds that
the actor is local, and calls its method under its lock: nothing is sent, nothing waits in a mailbox.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import xoscar

from benchmarks.runtime.clients import many_in_flight, one_after_the_other
from benchmarks.runtime.contender import TEXT, Answer, check, work
from benchmarks.runtime.memory import bytes_each


class Worker(xoscar.Actor):
    """Answers every request, one at a time as its lock has it."""

    def ask(self, number: int, text: str) -> Answer:
        """Answer one."""
        return work(number, text)

    def process_id(self) -> int:
        """Say where this runs."""
        return os.getpid()


@asynccontextmanager
async def started(actors: int) -> AsyncIterator[list[Any]]:
    """Start actors in a pool without worker processes; give references that send messages."""
    pool = await xoscar.create_actor_pool("127.0.0.1", n_process=0)
    try:
        refs = [await xoscar.create_actor(Worker, address=pool.external_address) for _ in range(actors)]
        if await refs[0].process_id() != os.getpid():
            raise AssertionError("the actor is in another process")
        yield refs
    finally:
        await pool.stop()


@asynccontextmanager
async def started_next_door(actors: int) -> AsyncIterator[list[Any]]:
    """Start actors; give references that call them directly."""
    async with started(actors) as refs:
        yield [await xoscar.actor_ref(ref) for ref in refs]


class XoscarMessages:
    """References that send messages."""

    name = "xoscar, messages"
    idle_actors = 10_000

    async def sequential(self, requests: int) -> list[float]:
        """Await each call."""
        async with started(1) as [ref]:
            return await one_after_the_other(ref.ask, requests)

    async def pipelined(self, requests: int, in_flight: int) -> float:
        """Await calls in many tasks."""
        async with started(1) as [ref]:
            return await many_in_flight(ref.ask, requests, in_flight)

    async def fan_out(self, actors: int, rounds: int) -> list[float]:
        """Gather a call to each actor."""
        seconds = []
        async with started(actors) as refs:
            for number in range(rounds):
                asked = perf_counter()
                answers = await asyncio.gather(*[ref.ask(number, TEXT) for ref in refs])
                seconds.append(perf_counter() - asked)
                check(answers, [number] * actors)
        return seconds

    def idle_memory(self, actors: int) -> float:
        """Count an actor and its reference."""
        return bytes_each(started, actors)


class XoscarDirectCalls:
    """References that call the actor directly, so that a request never really is in flight."""

    name = "xoscar, direct calls"
    idle_actors = 10_000

    async def sequential(self, requests: int) -> list[float]:
        """Await each call."""
        async with started_next_door(1) as [ref]:
            return await one_after_the_other(ref.ask, requests)

    async def pipelined(self, requests: int, in_flight: int) -> float:
        """Await calls in many tasks; the first to run gets all its answers before it yields."""
        async with started_next_door(1) as [ref]:
            return await many_in_flight(ref.ask, requests, in_flight)

    async def fan_out(self, actors: int, rounds: int) -> list[float]:
        """Await a call to each actor in turn: they finish at once, and tasks would only cost."""
        seconds = []
        async with started_next_door(actors) as refs:
            for number in range(rounds):
                asked = perf_counter()
                answers = [await ref.ask(number, TEXT) for ref in refs]
                seconds.append(perf_counter() - asked)
                check(answers, [number] * actors)
        return seconds

    def idle_memory(self, actors: int) -> float:
        """Count an actor and its reference."""
        return bytes_each(started_next_door, actors)
