"""Stopping a node: what is finished, what fails, and what remains."""

from __future__ import annotations

import asyncio

import pytest

from hopline import (
    Actor,
    ActorError,
    Context,
    DeliveryError,
    MessageIdentifier,
    Node,
    NotRunningError,
    Outcome,
    handler,
)

from .links import advertised
from .orders import Gated, Invoice, OneByOne, Order, Price, Pricer
from .running import in_vain, on_loop, soon, turns, until

ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")


# Protocol 9.29
@on_loop
async def test_stopping_waits_for_handlers_under_way_and_sends_what_they_return() -> None:
    gated = Gated()
    node = Node(gated)
    await node.start()
    promises = [node.hub.try_send(Order(sku), callback=Price) for sku in range(3)]
    await until(lambda: gated.started == 3)
    stopping = asyncio.create_task(node.stop())
    await turns(5)
    assert not stopping.done()
    gated.gate.set()
    report = await soon(stopping)
    assert report.is_clean
    assert [await promise for promise in promises] == [Price(0), Price(1), Price(2)]
    assert node.stats().is_balanced


# Protocol 9.29
@on_loop
async def test_what_is_not_done_in_time_is_failed_and_counted() -> None:
    slow = OneByOne()
    node = Node(slow)
    await node.start()
    first = node.hub.try_send(Order(), callback=Price)
    await until(lambda: slow.started)
    second = node.hub.try_send(Order(), callback=Price)
    report = await soon(node.stop(drain_timeout=0.01))
    assert (report.failed_messages, report.cancelled_handlers, report.is_clean) == (1, 1, False)
    with pytest.raises(ActorError, match="was stopped before it ended"):
        await soon(first)
    with pytest.raises(DeliveryError):
        await soon(second)
    assert node.stats().is_balanced


# Protocol 9.29
@on_loop
async def test_a_message_that_failed_at_the_stop_is_counted_once_however_many_could_have_handled_it() -> None:
    class Slow(Gated):
        concurrency = 1

    actors = [Slow(), Slow()]
    node = Node(*actors)
    await node.start()
    for _ in range(2 + 10):
        node.hub.try_send_one_way(Order())
    await until(lambda: all(actor.started for actor in actors))
    report = await soon(node.stop(drain_timeout=0.0))
    assert node.stats().is_balanced
    assert (report.failed_messages, report.cancelled_handlers) == (10, 2)


# Protocol 9.29
@on_loop
async def test_a_handler_that_is_stopped_before_its_first_step_is_reported_too() -> None:
    class Waiting(Actor):
        @handler
        async def price(self, order: Order) -> Price:
            await asyncio.Event().wait()
            return Price()

    node = Node(Waiting())
    await node.start()
    hub = node.hub

    async def keep_sending() -> None:
        while True:
            hub.try_send_one_way(Order())
            await asyncio.sleep(0)

    sending = asyncio.create_task(keep_sending())
    await turns(3)
    await soon(node.stop(drain_timeout=0.01))
    sending.cancel()
    stats = node.stats()
    assert stats.is_balanced
    assert stats.handled == stats.outcomes[Outcome.DELIVERED]


# Protocol 9.29
@on_loop
async def test_stopping_does_not_spin_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(discover=in_vain)
    await node.start()
    await node.hub.send_one_way(Order())  # is parked
    loop, turned = asyncio.get_running_loop(), 0
    run_once = loop._run_once  # type: ignore[attr-defined]

    def counted() -> None:
        nonlocal turned
        turned += 1
        run_once()

    monkeypatch.setattr(loop, "_run_once", counted)
    await soon(node.stop(drain_timeout=0.1))
    assert turned < 100


# Protocol 9.29
@on_loop
async def test_a_handler_may_still_ask_others_while_its_node_stops() -> None:
    class Asking(Actor):
        def __init__(self) -> None:
            self.gate = asyncio.Event()
            self.started = False

        @handler
        async def bill(self, price: Price, context: Context) -> Invoice:
            self.started = True
            await self.gate.wait()
            asked = await context.hub.send(Order(), callback=Price)
            return Invoice(asked.cents)

    asking = Asking()
    node = Node(asking, Pricer(7))
    await node.start()
    promise = node.hub.try_send(Price(), callback=Invoice)
    await until(lambda: asking.started)
    stopping = asyncio.create_task(node.stop())
    await turns(3)
    asking.gate.set()
    assert (await soon(stopping)).is_clean
    assert await promise == Invoice(7)


# Protocol 9.30
@on_loop
async def test_an_actor_can_be_taken_away_and_a_node_that_stopped_has_nothing_left() -> None:
    pricer = Pricer()
    node = Node(pricer)
    await node.start()
    hub, router = node.hub, node.router
    assert {route.receiver for route in advertised(node)} == {hub.identity, pricer.identity}
    await node.remove(pricer)
    assert {route.receiver for route in advertised(node)} == {hub.identity}
    node.add(pricer)
    await node.stop()
    assert router._tables.internal.handlers(ORDER) is None
    assert hub.waiting == 0
    with pytest.raises(NotRunningError):
        await hub.send(Order())
    assert (await node.stop()).is_clean


# Protocol 9.30
@on_loop
async def test_a_node_may_be_started_again_with_the_same_actors() -> None:
    pricer = Pricer(3)
    node = Node(pricer)
    for _ in range(3):
        async with node:
            assert await soon(node.hub.send(Order(), callback=Price)) == Price(3)
        assert not node.is_running
        assert node.stats().submitted == 2
    assert len(pricer.seen) == 3
