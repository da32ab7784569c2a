"""Under pressure: waiting for room among siblings, order, stopping that is given up, handlers that panic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import ContextVar

import pytest

from hopline import (
    Actor,
    ActorError,
    DeliveryError,
    Message,
    Node,
    NodeSettings,
    NoRoomError,
    NotRunningError,
    handler,
    to_message,
)
from hopline.message import PeerGoneError

from .orders import Gated, Listener, News, OneByOne, Order, Price, Pricer
from .running import on_loop, soon, started, until


@on_loop
async def test_a_sender_waits_for_whichever_sibling_has_room_first() -> None:
    stuck, free = OneByOne(), OneByOne()
    free.gate.set()
    async with Node(stuck, free) as node:
        await soon(asyncio.gather(*(node.hub.send_one_way(Order(number)) for number in range(20))))
        await until(lambda: free.ended >= 18)
        await node.stop(0.0)


@on_loop
async def test_room_that_was_not_used_is_given_to_the_next_who_waits() -> None:
    one, other = OneByOne(), OneByOne()
    async with started(one, other) as node:
        sending = asyncio.gather(*(node.hub.send_one_way(Order(number)) for number in range(20)))
        await until(lambda: one.started + other.started == 2)
        one.gate.set()
        other.gate.set()
        await soon(sending)
        await until(lambda: one.ended + other.ended == 20)


@on_loop
async def test_giving_up_to_wait_for_the_end_leaves_no_half_of_a_node() -> None:
    node = Node(Gated())
    await node.start()
    asking = asyncio.create_task(node.hub.send(Order(), callback=Price))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(node.stop(60), 0.01)
    with pytest.raises((ActorError, NotRunningError)):
        await soon(asking)
    await until(lambda: not node.is_running)


@on_loop
async def test_a_panic_reaches_its_caller_and_the_next_message_is_handled() -> None:
    class Panic(BaseException):
        pass

    class Panicking(Actor):
        @handler
        def price(self, order: Order) -> Price:
            if not order.sku:
                raise Panic
            return Price(order.sku)

    async with started(Panicking()) as node:
        asking = (node.hub.send(Order(sku), callback=Price) for sku in (0, 1))
        failed, price = await soon(asyncio.gather(*asking, return_exceptions=True))
        assert isinstance(failed, ActorError)
        assert price == Price(1)


@on_loop
async def test_what_a_handler_sets_in_its_context_is_not_for_the_next() -> None:
    mood = ContextVar("mood", default=0)

    class Moody(Actor):
        @handler
        def price(self, order: Order) -> Price:
            before = mood.get()
            mood.set(1)
            return Price(before)

    async with started(Moody()) as node:
        assert [(await node.hub.send(Order(), callback=Price)).cents for _ in range(2)] == [0, 0]


@on_loop
async def test_a_link_that_fails_while_one_waits_for_it_is_a_peer_that_is_gone() -> None:
    class Broken:
        def offer(self, message: Message) -> bool:
            return False

        async def room(self) -> None:
            raise OSError

    async with started(identity=b"a", connect=lambda *_: Broken()) as node:
        node.router.directory.learn(b"b", "tcp://b:1", b"\x01x", to_message(Order()).identifier)
        node.router.receive(to_message(Order()).clone(hops=1))
        await until(lambda: not node.stats().waiting)


@on_loop
async def test_a_route_that_is_always_dead_keeps_nothing_parked_for_ever() -> None:
    def refuse(node: bytes, _: str) -> None:
        raise PeerGoneError(node)

    def find(message: Message) -> None:
        node.router.directory.learn(b"b", "tcp://b:1", b"\x01x", message.identifier)

    settings = NodeSettings(discovery_timeout=0.05)
    async with started(identity=b"a", connect=refuse, discover=find, settings=settings) as node:
        await node.hub.send_one_way(Order())
        assert node.stats().is_balanced
        while node.stats().waiting:  # found again and again, and always dead
            find(to_message(Order()))
            await asyncio.sleep(0.001)


@on_loop
async def test_results_to_a_full_receiver_keep_their_order() -> None:
    class Source(Actor):
        @handler
        def pass_on(self, news: News) -> Order:
            return Order(int(news.text))

    class Sink(Actor):
        mailbox_capacity = 1
        concurrency = 1

        def __init__(self) -> None:
            self.seen: list[int] = []

        @handler
        async def take(self, order: Order) -> None:
            self.seen.append(order.sku)
            await asyncio.sleep(0)

    sink = Sink()
    async with started(Source(), sink) as node:
        for number in range(50):
            await node.hub.send_one_way(News(str(number)))
        await until(lambda: len(sink.seen) == 50)
    assert sink.seen == list(range(50))


@on_loop
async def test_those_who_will_not_wait_do_not_overtake_those_who_do() -> None:
    actor = OneByOne()
    async with started(actor) as node:
        await node.hub.send_one_way(Order(0))
        await until(lambda: actor.started)
        await node.hub.send_one_way(Order(1))
        waiting = asyncio.create_task(node.hub.send_one_way(Order(2)))
        await asyncio.sleep(0)
        actor.gate.set()
        while not waiting.done():
            with suppress(NoRoomError):
                node.hub.try_send_one_way(Order(3))
            await asyncio.sleep(0)


@on_loop
async def test_a_flood_of_results_leaves_the_loop_to_others() -> None:
    class Flood(Actor):
        @handler
        async def flood(self, news: News) -> AsyncIterator[Price]:
            for cents in range(30_000):
                yield Price(cents)

    async with started(Flood()) as node:
        stream = node.hub.stream(News("go"), callback=Price, timeout=50, limit=30_000)
        assert [price.cents async for price in stream] == list(range(30_000))


@on_loop
async def test_who_awaits_broadcasts_lets_the_others_hear() -> None:
    listener = Listener()
    async with started(listener, settings=NodeSettings(mailbox_capacity=100)) as node:
        for number in range(1_000):
            await node.hub.broadcast(News(str(number)))
        await until(lambda: len(listener.heard) == 1_000)


@on_loop
async def test_many_dead_nodes_are_tried_one_after_the_other() -> None:
    def refuse(node: bytes, _: str) -> None:
        raise PeerGoneError(node)

    async with started(identity=b"a", connect=refuse) as node:
        for number in range(1_500):
            node.router.directory.learn(
                b"%d" % number, f"tcp://{number}:1", b"\x01x%d" % number, to_message(Order()).identifier
            )
        with pytest.raises(DeliveryError, match="every node that handles it is unreachable"):
            await node.hub.send(Order(), callback=Price)


@on_loop
async def test_a_removed_actor_that_still_drains_is_stopped_with_its_node() -> None:
    gated = Gated()
    node = Node(gated)
    await node.start()
    asking = asyncio.create_task(node.hub.send(Order(), callback=Price))
    await until(lambda: gated.started)
    removing = asyncio.create_task(node.remove(gated, drain_timeout=60))
    await asyncio.sleep(0)
    report = await soon(node.stop(drain_timeout=0.01))
    assert report.cancelled_handlers == 1
    with pytest.raises(ActorError, match="was stopped before it ended"):
        await soon(asking)
    await soon(removing)


@on_loop
async def test_long_timeouts_that_ended_early_leave_no_timers() -> None:
    async with started(Pricer()) as node:
        for number in range(200):
            await node.hub.send(Order(), callback=Price, timeout=1_000 + number)
        await node.hub.send(Order(), callback=Price, timeout=1e308)
        loop = asyncio.get_running_loop()
        timers = loop._scheduled  # type: ignore[attr-defined]
        assert not [timer for timer in timers if timer.when() > loop.time() + 500 and not timer.cancelled()]
