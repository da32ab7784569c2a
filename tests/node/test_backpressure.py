"""Full mailboxes and streams: senders wait, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from hopline import (
    Actor,
    Outcome,
    handler,
)

from .orders import Listener, News, OneByOne, Order, Price
from .running import on_loop, soon, started, turns, until


# Protocol 9.21
@on_loop
async def test_a_full_mailbox_makes_senders_wait_and_none_is_lost() -> None:
    class Small(Listener):
        mailbox_capacity = 3

    small = Small()
    async with started(small) as node:
        senders = [asyncio.create_task(node.hub.send_one_way(News(str(number)))) for number in range(50)]
        await turns(1)
        assert node.stats().waiting <= 3
        await soon(asyncio.gather(*senders))
        await until(lambda: len(small.heard) == 50)
    assert sorted(map(int, small.texts)) == list(range(50))


# Protocol 9.21
@on_loop
async def test_a_full_receiver_slows_its_senders_down() -> None:
    class Flooding(Actor):
        concurrency = 1
        sent = 0

        @handler
        async def flood(self, order: Order) -> AsyncIterator[Price]:
            for number in range(100):
                self.sent += 1
                yield Price(number)

    class Full(Actor):
        concurrency = 1
        mailbox_capacity = 2

        def __init__(self) -> None:
            self.gate = asyncio.Event()
            self.seen: list[int] = []

        @handler
        async def take(self, price: Price) -> None:
            await self.gate.wait()
            self.seen.append(price.cents)

    flooding, full = Flooding(), Full()
    async with started(flooding, full) as node:
        await node.hub.send_one_way(Order())
        await turns(50)
        assert flooding.sent <= 5
        full.gate.set()
        await until(lambda: len(full.seen) == 100)
    assert full.seen == list(range(100))


# Protocol 9.21
@on_loop
async def test_a_stream_that_nobody_reads_holds_only_so_many_answers() -> None:
    class Endless(Actor):
        @handler
        def flood(self, order: Order) -> Iterator[Price]:
            yield from map(Price, range(10_100))

    async with started(Endless()) as node:
        stream = node.hub.stream(Order(), callback=Price, timeout=60)
        assert await anext(stream) == Price(0)
        await until(lambda: node.stats().handled == 1)
        assert node.stats().outcomes[Outcome.OVERFLOW] > 0
        stream.close()


# Protocol 9.21
@on_loop
async def test_a_sender_that_gives_up_while_room_is_made_is_cancelled_and_nothing_else() -> None:
    actor = OneByOne()
    async with started(actor) as node:
        await node.hub.send_one_way(Order(0))
        await until(lambda: actor.started)
        await node.hub.send_one_way(Order(1))
        waiting = [asyncio.create_task(node.hub.send_one_way(Order(sku))) for sku in (2, 3)]
        await turns(2)
        actor.gate.set()
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        await soon(waiting[1])
        await until(lambda: actor.ended == 3)
