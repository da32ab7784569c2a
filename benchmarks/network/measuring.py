"""How clients measure: for a time, not a count, because some are twenty times as fast as others."""

from __future__ import annotations

import asyncio
import gc
import statistics
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Protocol

from benchmarks.network.contender import (
    IN_FLIGHT,
    ONE_WAY,
    PIPELINED,
    SEQUENTIAL,
    Channel,
    Order,
    Record,
    Taken,
    check,
)

FLUSH_EVERY = 64  # sendings between two looks at the clock and at others


class Client(Protocol):
    """Something that asks an echo in another process, and knows how to do it fast."""

    def sequential(self, body: bytes, seconds: float) -> list[float]:
        """Ask, each time after the answer before: the seconds of every request."""

    def pipelined(self, body: bytes, seconds: float, in_flight: int) -> tuple[int, float]:
        """Keep so many requests under way: how many were answered, and in which time."""

    def one_way(self, body: bytes, seconds: float) -> tuple[int, float]:
        """Send without an answer: how many messages, and in which time the receiver had them all."""


class AsyncClient(Protocol):
    """The same, on an event loop."""

    async def ask(self, body: bytes) -> bytes:
        """Ask, and wait for the answer."""

    async def tell(self, body: bytes) -> None:
        """Send, and wait for room at most."""

    async def count(self) -> int:
        """Ask how many messages came without a wish for an answer since this was asked last, after all of them."""

    async def pipelined(self, body: bytes, seconds: float, in_flight: int) -> tuple[int, float]:
        """Keep so many requests under way."""


def carry_out_orders(channel: Channel, client: Client) -> None:
    """Measure what is asked for, until nobody asks."""
    while True:
        order: Order = channel.recv()
        channel.send(_carry_out(order, client))


def _carry_out(order: Order, client: Client) -> Taken:
    body = bytes(order.size)
    gc.collect()
    if order.measure == SEQUENTIAL:
        return _quantiles(client.sequential(body, order.seconds))
    if order.measure == PIPELINED:
        count, seconds = client.pipelined(body, order.seconds, IN_FLIGHT)
    else:
        count, seconds = client.one_way(body, order.seconds)
    return Taken(seconds / count)


async def carry_out_orders_async(
    channel: Channel, client: AsyncClient, record: Callable[[str], Awaitable[None]] | None = None
) -> None:
    """Measure what is asked for on this event loop, which goes on while nobody asks; `record` if that is asked for."""
    loop = asyncio.get_running_loop()
    while True:
        order: Order | Record = await loop.run_in_executor(None, channel.recv)
        if isinstance(order, Record):
            if record is not None:
                await record(order.level)
            channel.send(Taken(0.0))
            continue
        body = bytes(order.size)
        gc.collect()
        if order.measure == SEQUENTIAL:
            taken = _quantiles(await _one_after_the_other(client.ask, body, order.seconds))
        elif order.measure == PIPELINED:
            count, seconds = await client.pipelined(body, order.seconds, IN_FLIGHT)
            taken = Taken(seconds / count)
        elif order.measure == ONE_WAY:
            count, seconds = await _one_way(client, body, order.seconds)
            taken = Taken(seconds / count)
        channel.send(taken)


async def _one_after_the_other(ask: Callable[[bytes], Awaitable[bytes]], body: bytes, seconds: float) -> list[float]:
    latencies = []
    asked = perf_counter()
    until = asked + seconds
    while asked < until:
        answer = await ask(body)
        now = perf_counter()
        latencies.append(now - asked)
        check(len(answer), len(body), "bytes came back")
        asked = perf_counter()
    return latencies


async def many_in_flight(
    ask: Callable[[bytes], Awaitable[bytes]], body: bytes, seconds: float, in_flight: int
) -> tuple[int, float]:
    """Ask in so many tasks, which each wait for their answer before they ask again."""
    answered = 0
    started = perf_counter()
    until = started + seconds

    async def caller() -> None:
        nonlocal answered
        while perf_counter() < until:
            answer = await ask(body)
            check(len(answer), len(body), "bytes came back")
            answered += 1

    await asyncio.gather(*[caller() for _ in range(in_flight)])
    return answered, perf_counter() - started


async def _one_way(client: AsyncClient, body: bytes, seconds: float) -> tuple[int, float]:
    await client.count()
    sent = 0
    started = perf_counter()
    until = started + seconds
    while perf_counter() < until:
        for _ in range(FLUSH_EVERY):
            await client.tell(body)
        sent += FLUSH_EVERY
        await asyncio.sleep(0)
    check(await client.count(), sent, "messages arrived")
    return sent, perf_counter() - started


def _quantiles(latencies: list[float]) -> Taken:
    percentiles = statistics.quantiles(latencies, n=100)
    return Taken(percentiles[49], percentiles[98])
