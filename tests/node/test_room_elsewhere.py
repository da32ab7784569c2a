"""Waiting for room when routes and links change meanwhile: nobody is served twice, forgotten, or kept from others."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator

from hopline import Actor, DeliveryError, Message, Node, NodeSettings, Outcome, handler, to_message
from hopline.message import EXCEPTION, payload_type

from .orders import Order, Price
from .running import on_loop, until

ORDER = payload_type(Order).identifier
PRICE = payload_type(Price).identifier


class Link:
    def __init__(self, *, full: bool = False) -> None:
        self.full = full
        self.sent: list[Message] = []
        self.drained = asyncio.Event()

    def offer(self, message: Message) -> bool:
        if not self.full:
            self.sent.append(message)
        return not self.full

    async def room(self) -> None:
        await self.drained.wait()

    def drain(self) -> None:
        self.full = False
        self.drained.set()


class Hung(Actor):
    mailbox_capacity = 1
    concurrency = 1

    @handler
    async def price(self, order: Order) -> None:
        await asyncio.sleep(1000)


def node_with(links: dict[str, Link], *actors: Actor) -> Node:
    settings = NodeSettings(cancel_timeout=0.01)
    return Node(*actors, identity=b"a", connect=lambda _, uri: links[uri], settings=settings)


@on_loop
async def test_a_route_that_is_found_at_once_is_taken_once() -> None:
    links = {"b": Link(full=True), "c": Link()}
    node = node_with(links)
    node.discover = lambda _: node.router.directory.learn(b"c", "c", b"\x01c", ORDER)
    await node.start()
    node.router.directory.learn(b"b", "b", b"\x01b", ORDER)
    sending = asyncio.create_task(node.hub.send_one_way(Order(1)))
    await asyncio.sleep(0)
    node.router.directory.forget_node(b"b")
    await sending
    assert len(links["c"].sent) == 1
    assert node.stats().is_balanced
    await node.stop(0)


@on_loop
async def test_a_full_one_keeps_nobody_from_another_node() -> None:
    links = {"b": Link(full=True), "c": Link()}
    node = node_with(links, Hung())
    await node.start()
    node.router.directory.learn(b"b", "b", b"\x01b", ORDER)
    node.router.directory.learn(b"c", "c", b"\x01c", ORDER)
    async with asyncio.timeout(1):
        for sku in range(20):
            await node.hub.send_one_way(Order(sku))
    assert len(links["c"].sent) >= 18
    await node.stop(0)


@on_loop
async def test_a_node_that_moved_is_watched_where_it_is_now() -> None:
    links = {"old": Link(full=True), "new": Link(full=True)}
    node = node_with(links)
    await node.start()
    node.router.directory.learn(b"b", "old", b"\x01b", ORDER)
    sending = asyncio.create_task(node.hub.send_one_way(Order(1)))
    await asyncio.sleep(0.01)
    node.router.directory.learn(b"b", "new", b"\x01b", ORDER)
    await asyncio.sleep(0.01)
    links["new"].drain()
    async with asyncio.timeout(1):
        await sending
    assert len(links["new"].sent) == 1
    await node.stop(0)


@on_loop
async def test_who_waits_for_an_actor_that_is_removed_is_told_at_once() -> None:
    actor = Hung()
    node = node_with({}, actor)
    await node.start()
    asking = [asyncio.create_task(node.hub.send(Order(sku), callback=Price)) for sku in range(5)]
    await asyncio.sleep(0.01)
    await node.remove(actor, 0)
    async with asyncio.timeout(1):
        _, *others = await asyncio.gather(*asking, return_exceptions=True)
    assert [isinstance(one, DeliveryError) for one in others] == [True] * 4
    assert node.stats().outcomes[Outcome.UNROUTABLE] == 4
    await node.stop(0)


@on_loop
async def test_a_flood_of_one_kind_does_not_shut_out_another() -> None:
    class Both(Actor):
        mailbox_capacity = 1
        concurrency = 1

        @handler
        async def order(self, order: Order) -> None:
            await asyncio.sleep(0)

        @handler
        def price(self, price: Price) -> None: ...

    node = node_with({}, Both())
    await node.start()

    async def flood() -> None:
        for sku in itertools.count():
            await node.hub.send_one_way(Order(sku))

    floods = [asyncio.create_task(flood()) for _ in range(8)]
    await asyncio.sleep(0.01)
    await node.hub.send(Price(1), timeout=1)
    for one in floods:
        one.cancel()
    await node.stop(0)


@on_loop
async def test_nothing_waits_in_a_node_that_stopped() -> None:
    class Stubborn(Actor):
        @handler
        async def price(self, order: Order) -> Price:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1000)
            return Price(1)

    before = asyncio.all_tasks()
    node = node_with({"b": Link(full=True)}, Stubborn())
    await node.start()
    node.router.directory.learn(b"b", "b", b"\x00hub")
    asked = to_message(Order(1)).register_callback_point(b"b", b"\x00hub", [PRICE, EXCEPTION], 7)
    node.router.receive(asked.clone(hops=1))
    await asyncio.sleep(0.01)
    await node.stop(0)
    assert node.stats().waiting == 0
    await until(lambda: asyncio.all_tasks() <= before)


@on_loop
async def test_removing_an_actor_can_be_given_up_and_stopping_still_stops_it() -> None:
    actor = Hung()
    node = node_with({}, actor)
    await node.start()
    await node.hub.send_one_way(Order(1))
    await asyncio.sleep(0.01)
    removing = asyncio.create_task(node.remove(actor))
    await asyncio.sleep(0.01)
    removing.cancel()
    report = await node.stop(0.01)
    assert report.cancelled_handlers == 1


@on_loop
async def test_room_may_be_waited_for_without_end() -> None:
    seen: list[int] = []

    class Slow(Actor):
        mailbox_capacity = 1
        concurrency = 1

        @handler
        async def price(self, order: Order) -> None:
            seen.append(order.sku)
            await asyncio.sleep(0)

    async with Node(Slow(), settings=NodeSettings(backpressure_timeout=float("inf"))) as node:
        await asyncio.gather(*(node.hub.send_one_way(Order(sku)) for sku in range(5)))
    assert seen == [0, 1, 2, 3, 4]


@on_loop
async def test_a_blocking_generator_ends_with_its_handler() -> None:
    ended: list[bool] = []

    class Endless(Actor):
        @handler(blocking=True)
        def price(self, order: Order) -> Iterator[Price]:
            try:
                while True:
                    yield Price(1)
            finally:
                ended.append(True)

    node = node_with({}, Endless())
    await node.start()
    await node.hub.send_one_way(Order(1))
    await asyncio.sleep(0.01)
    await node.stop(0)
    await until(lambda: bool(ended))
