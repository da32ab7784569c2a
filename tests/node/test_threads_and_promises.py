"""Where callers and blocking handlers run, and how promises end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from hopline import (
    Actor,
    ActorError,
    ArgumentError,
    Context,
    Node,
    NodeSettings,
    NotRunningError,
    handler,
    to_message,
)

from .links import Network
from .orders import Gated, Invoice, News, Order, Price, Pricer
from .running import on_loop, soon, started, until


# Protocol 9.24
@on_loop
async def test_what_a_caller_does_with_its_answer_does_not_run_where_the_answer_came_in() -> None:
    order: list[str] = []
    gated = Gated()
    async with started(gated) as node:

        async def ask() -> None:
            await node.hub.send(Order(), callback=Price)
            order.append("continued")

        asking = asyncio.create_task(ask())
        await until(lambda: gated.started)
        answer = to_message(Price(1)).clone(
            receiver_identity=node.hub.identity, receiver_node_identity=node.identity, callback_key=1
        )
        node.hub.try_send_one_way(answer)  # is put before the hub at once
        order.append("taken")
        await soon(asking)
        gated.gate.set()
    assert order == ["taken", "continued"]


# Protocol 9.24
@on_loop
async def test_a_caller_may_ask_again_from_within_its_answer() -> None:
    async with started(Pricer(1)) as node:
        for _ in range(3):
            promise = node.hub.try_send(Order(), callback=Price)
            await promise
            assert await soon(node.hub.send(Order(), callback=Price)) == Price(1)


# Protocol 9.25
@on_loop
async def test_promises_end_by_themselves_and_leave_nothing() -> None:
    gated = Gated()
    async with started(gated, settings=NodeSettings(request_timeout=0.02)) as node:
        forgotten = [node.hub.try_send(Order(), callback=Price) for _ in range(5)]
        assert node.hub.waiting == 5
        await until(lambda: node.hub.waiting == 0)
        assert all(promise.done() for promise in forgotten)
        gated.gate.set()


# Protocol 9.25
@on_loop
async def test_stopping_the_node_fails_what_is_still_promised() -> None:
    gated = Gated()
    node = Node(gated)
    await node.start()
    asking = asyncio.create_task(node.hub.send(Order(), callback=Price))
    await until(lambda: gated.started)
    report = await soon(node.stop(drain_timeout=0.0))
    with pytest.raises((NotRunningError, ActorError)):
        await soon(asking)
    assert report.cancelled_handlers == 1


# Protocol 9.25
@on_loop
async def test_a_request_to_another_node_is_failed_when_this_one_stops() -> None:
    network = Network()
    async with network.of(a=[], b=[Gated()]) as (a, b):
        promise = a.hub.try_send(Order(), callback=Price)
        report = await soon(a.stop(drain_timeout=0.0))
        assert report.failed_promises == 1
        with pytest.raises(NotRunningError, match="stopped before the answer came"):
            await soon(promise)
        await b.stop(drain_timeout=0.0)


# Protocol 9.26
@on_loop
async def test_a_blocking_handler_reaches_the_node_through_its_loop_only() -> None:
    class Threaded(Actor):
        def __init__(self) -> None:
            self.threads: list[threading.Thread] = []

        @handler(blocking=True)
        def bill(self, price: Price, context: Context) -> Invoice:
            self.threads.append(threading.current_thread())
            with pytest.raises(ArgumentError, match="in a blocking handler"):
                context.try_send(News())
            asked = context.wait(context.hub.send(Order(), callback=Price))
            return Invoice(price.cents + asked.cents)

    threaded = Threaded()
    async with started(threaded, Pricer(1)) as node:
        promises = [node.hub.try_send(Price(number), callback=Invoice) for number in range(20)]
        assert [(await soon(promise)).cents for promise in promises] == [number + 1 for number in range(20)]
    assert threading.main_thread() not in threaded.threads


# Protocol 9.26
@on_loop
async def test_a_handler_that_is_not_blocking_is_told_to_await() -> None:
    class Confused(Actor):
        @handler
        def price(self, order: Order, context: Context) -> Price:
            context.wait(context.send(News()))
            return Price()

    async with started(Confused()) as node:
        with pytest.raises(ActorError, match="await in a handler that is not blocking"):
            await soon(node.hub.send(Order(), callback=Price))
