"""What waits for room: messages from elsewhere, in their order, and what becomes of them when the node stops."""

from __future__ import annotations

import asyncio

import pytest

from hopline import Actor, Context, DeliveryError, Node, NodeSettings, NoRoomError, Outcome, handler, to_message

from .orders import Order, Price
from .running import on_loop, soon, started, until


class Narrow(Actor):
    mailbox_capacity = 1
    concurrency = 1

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.seen: list[int] = []

    @handler
    async def price(self, order: Order) -> Price:
        self.seen.append(order.sku)
        await self.gate.wait()
        return Price(order.sku)


def arrive(node: Node, count: int) -> None:
    for sku in range(count):
        node.router.receive(to_message(Order(sku)).clone(hops=1))


@on_loop
async def test_messages_from_elsewhere_wait_in_their_order() -> None:
    actor = Narrow()
    async with started(actor) as node:
        arrive(node, 6)
        assert node.stats().waiting == 6
        actor.gate.set()
        await until(lambda: len(actor.seen) == 6)
        assert actor.seen == [0, 1, 2, 3, 4, 5]


@on_loop
async def test_only_so_many_may_wait() -> None:
    actor = Narrow()
    async with started(actor, settings=NodeSettings(backpressure_capacity=2, drain_timeout=0.01)) as node:
        arrive(node, 6)
        assert node.stats().outcomes[Outcome.OVERFLOW] == 3
        actor.gate.set()


@on_loop
async def test_each_waits_no_longer_than_the_room_time_whoever_is_before_it() -> None:
    actor = Narrow()
    async with started(actor, settings=NodeSettings(backpressure_timeout=0.05, drain_timeout=0.01)) as node:
        arrive(node, 5)
        begun = asyncio.get_running_loop().time()
        await until(lambda: node.stats().outcomes[Outcome.OVERFLOW] == 3)
        assert asyncio.get_running_loop().time() - begun < 0.15  # not three times as long
        actor.gate.set()


@on_loop
async def test_what_waits_fails_when_the_node_stops() -> None:
    node = Node(Narrow(), settings=NodeSettings(drain_timeout=0.01))
    await node.start()
    arrive(node, 4)
    report = await node.stop()
    assert report.failed_messages == 3
    assert report.cancelled_handlers == 1
    stats = node.stats()
    assert stats.outcomes[Outcome.FAILED] == 3
    assert stats.is_balanced
    assert stats.waiting == 0


@on_loop
async def test_two_who_stop_a_node_get_the_same_report() -> None:
    node = Node(Narrow(), settings=NodeSettings(drain_timeout=0.01))
    await node.start()
    arrive(node, 1)
    first, second = await asyncio.gather(node.stop(), node.stop())
    assert first is second
    assert first.cancelled_handlers + first.failed_messages == 1


@on_loop
async def test_a_plain_handler_may_send_before_it_returns_if_there_is_room() -> None:
    class Eager(Actor):
        refused = 0

        @handler
        def split(self, price: Price, context: Context) -> None:
            try:
                for sku in range(price.cents):
                    context.try_send(Order(sku))
            except NoRoomError:
                self.refused += 1

    eager, actor = Eager(), Narrow()
    async with started(eager, actor) as node:
        await node.hub.send_one_way(Price(5))
        await until(lambda: eager.refused)
        assert actor.seen in ([], [0])
        actor.gate.set()
        await until(lambda: node.stats().handled >= 2)
    assert actor.seen == [0]


@on_loop
async def test_a_message_that_waits_for_room_too_long_fails_at_its_caller() -> None:
    actor = Narrow()
    async with started(actor, settings=NodeSettings(backpressure_timeout=0.02, drain_timeout=0.01)) as node:
        first = node.hub.try_send(Order(0), callback=Price)
        await until(lambda: actor.seen)
        second = node.hub.try_send(Order(1), callback=Price)
        with pytest.raises(DeliveryError, match="overflow"):
            await soon(node.hub.send(Order(2), callback=Price))
        actor.gate.set()
        assert [await first, await second] == [Price(0), Price(1)]


@on_loop
async def test_a_broadcast_waits_for_nobody_not_even_for_the_only_one() -> None:
    actor = Narrow()
    async with started(actor, settings=NodeSettings(drain_timeout=0.01)) as node:
        await node.hub.send_one_way(Order(0))
        await until(lambda: actor.seen)
        await node.hub.broadcast(Order(1))
        await soon(node.hub.broadcast(Order(2)))
        assert node.stats().outcomes[Outcome.OVERFLOW] == 1
        with pytest.raises(DeliveryError, match="a receiver of the broadcast has no room"):
            await anext(node.hub.stream(Order(3), callback=Price, timeout=1))
        actor.gate.set()
