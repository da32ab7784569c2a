"""Hopline: typed payloads that are values, callbacks, lifetimes, outcomes; only what nobody looks at is not done."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import msgspec

from benchmarks.runtime.clients import many_in_flight, one_after_the_other
from benchmarks.runtime.contender import TEXT, Answer, check, work
from benchmarks.runtime.memory import bytes_each
from hopline import Actor, MessageHub, Node, NodeSettings, Promise, handler, payload


@payload
class Ask(msgspec.Struct, frozen=True):
    """The request."""

    number: int
    text: str


@payload
class Told(msgspec.Struct, frozen=True):
    """The answer."""

    number: int
    text: str


class Worker(Actor):
    """Answers every request."""

    @handler
    def answer(self, ask: Ask) -> Told:
        """Answer one."""
        return Told(*work(ask.number, ask.text))


@asynccontextmanager
async def started(actors: int) -> AsyncIterator[MessageHub]:
    """Start a node with so many actors, and give its hub."""
    async with Node(*[Worker() for _ in range(actors)], settings=NodeSettings()) as node:
        yield node.hub


class Hopline:
    """Requests as a service sends them: through the hub, each with a promise and a lifetime."""

    name = "Hopline"
    idle_actors = 10_000

    async def sequential(self, requests: int) -> list[float]:
        """Await each answer."""
        async with started(1) as hub:

            async def ask(number: int, text: str) -> Answer:
                told = await hub.send(Ask(number, text), callback=Told)
                return told.number, told.text

            return await one_after_the_other(ask, requests)

    async def pipelined(self, requests: int, in_flight: int) -> float:
        """Keep a window of promises, and replace each as its answer comes."""
        promises: deque[Promise[Told]] = deque()
        received: list[Told] = []
        async with started(1) as hub:
            asked = perf_counter()
            for number in range(requests):
                if len(promises) == in_flight:
                    received.append(await promises.popleft())
                promises.append(hub.try_send(Ask(number, TEXT), callback=Told))
            while promises:
                received.append(await promises.popleft())
            seconds = perf_counter() - asked
        check([(told.number, told.text) for told in received], range(requests))
        return seconds

    async def fan_out(self, actors: int, rounds: int) -> list[float]:
        """Broadcast, and gather what comes."""
        seconds = []
        async with started(actors) as hub:
            for number in range(rounds):
                asked = perf_counter()
                answers = [told async for told in hub.stream(Ask(number, TEXT), callback=Told, limit=actors)]
                seconds.append(perf_counter() - asked)
                check([(told.number, told.text) for told in answers], [number] * actors)
        return seconds

    def idle_memory(self, actors: int) -> float:
        """Count an actor, its mailbox and its routes."""
        return bytes_each(started, actors)


class HoplineTasks(Hopline):
    """The same with a task for every caller, which is how most services look."""

    name = "Hopline, a task a caller"

    async def pipelined(self, requests: int, in_flight: int) -> float:
        """Await answers in many tasks."""
        async with started(1) as hub:

            async def ask(number: int, text: str) -> Answer:
                told = await hub.send(Ask(number, text), callback=Told)
                return told.number, told.text

            return await many_in_flight(ask, requests, in_flight)
