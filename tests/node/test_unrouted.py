"""Messages without a route: how they wait for one, and how that ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hopline import (
    DeliveryError,
    Message,
    MessageIdentifier,
    MessageOutcome,
    NodeSettings,
    Outcome,
    to_message,
)

from .links import Network, introduce
from .orders import Listener, News, Order, Price, Pricer
from .running import Clock, in_vain, on_loop, soon, started, turns, until

ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")


# Protocol 5.2
@on_loop
async def test_a_message_without_a_route_is_parked_while_one_is_looked_for() -> None:
    # The reference drops it.
    sought: list[Message] = []
    async with started(discover=sought.append) as node:
        promises = [node.hub.try_send(Order(), callback=Price) for _ in range(3)]
        assert [message.identifier for message in sought] == [ORDER] * 3
        assert node.stats().waiting == 3
        node.add(Pricer(5))
        assert [await soon(promise) for promise in promises] == [Price(5)] * 3


# Protocol 5.2
@on_loop
async def test_what_is_parked_keeps_its_order() -> None:
    listener = Listener()
    async with started(discover=in_vain) as node:
        for number in range(20):
            await node.hub.send_one_way(News(str(number)))
        node.add(listener)
        await until(lambda: len(listener.heard) == 20)
    assert listener.texts == [str(number) for number in range(20)]


# Protocol 5.2
@on_loop
async def test_a_broadcast_without_a_route_is_parked_too() -> None:
    network = Network()
    listeners = [Listener(), Listener()]
    async with (
        network.node("a", discover=in_vain) as a,
        network.node("b", *listeners) as b,
    ):
        await a.hub.broadcast(News("late"))
        introduce(b, to=a)
        await until(lambda: all(listener.heard for listener in listeners))
        assert [listener.texts for listener in listeners] == [["late"], ["late"]]
        network.gone |= {b"a", b"b"}


# Protocol 5.2
@on_loop
async def test_what_is_parked_in_vain_is_failed_to_its_caller() -> None:
    settings = NodeSettings(discovery_timeout=0.02)
    async with started(discover=in_vain, settings=settings) as node:
        with pytest.raises(DeliveryError, match="unroutable: Order/1: nobody handles it"):
            await soon(node.hub.send(Order(), callback=Price))


# Protocol 5.2
@on_loop
async def test_what_expires_while_it_is_parked_is_told_so() -> None:
    async with started(discover=in_vain) as node:
        with pytest.raises(DeliveryError, match=r"expired: .* while a route was looked for"):
            await soon(node.hub.send(to_message(Order(), ttl=timedelta(seconds=0.02)), callback=Price, timeout=5))


# Protocol 5.2
@on_loop
async def test_only_so_many_messages_are_parked() -> None:
    settings = NodeSettings(unrouted_capacity=2, drain_timeout=0.0)
    async with started(discover=in_vain, settings=settings) as node:
        parked = [node.hub.try_send(Order(), callback=Price) for _ in range(2)]
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(node.hub.send(Order(), callback=Price))
        assert node.stats().waiting == 2
        node.add(Pricer(1))
        assert [await soon(promise) for promise in parked] == [Price(1), Price(1)]


# Protocol 5.2
@on_loop
async def test_what_waits_for_this_node_is_released_by_a_new_actor_of_it() -> None:
    async with started(discover=in_vain, settings=NodeSettings(discovery_timeout=0.3)) as node:
        promise = node.hub.try_send(to_message(Order()).with_receiver_node(node.identity), callback=Price)
        node.add(Pricer(5))
        assert await soon(promise) == Price(5)


# Protocol 5.2
@on_loop
async def test_what_waits_for_another_node_is_released_when_that_node_is_known() -> None:
    network = Network()
    async with network.node("a", discover=in_vain) as a, network.node("b", Pricer(2)) as b:
        introduce(a, to=b)
        promise = a.hub.try_send(to_message(Order()).with_receiver_node(b"b"), callback=Price)
        assert not promise.done()
        introduce(b, to=a)
        assert await soon(promise) == Price(2)
        network.gone |= {b"a", b"b"}


# Protocol 5.2
@on_loop
async def test_a_route_that_is_found_at_once_is_taken_at_once() -> None:
    network = Network()
    async with network.node("b", Pricer(2)) as b:

        def found(message: Message) -> None:
            introduce(b, to=a)

        async with network.node("a", discover=found) as a:
            introduce(a, to=b)
            assert await soon(a.hub.send(Order(), callback=Price)) == Price(2)
            assert a.stats().waiting == 0
            network.gone |= {b"a", b"b"}


# Protocol 5.2
@on_loop
async def test_a_route_may_be_learned_while_others_give_up_waiting() -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))  # noqa: ARG005
    listener, failed = Listener(), list[MessageOutcome]()

    def add_when_one_failed(settled: MessageOutcome) -> None:
        if settled.outcome is Outcome.UNROUTABLE:
            failed.append(settled)
            if len(failed) == 1:
                node.add(listener)

    hooks: Any = {"discover": in_vain, "on_outcome": add_when_one_failed, "clock": Clock()}  # all give up at once
    async with started(settings=NodeSettings(discovery_timeout=0.02), **hooks) as node:
        for number in range(3):
            await node.hub.send_one_way(News(str(number)))
        await until(lambda: node.stats().waiting == 0)
        await turns(5)
        assert errors == []
        assert (len(failed), listener.texts) == (1, ["1", "2"])


# Protocol 5.2
@on_loop
async def test_a_search_that_fails_leaves_every_message_with_one_outcome() -> None:
    def fail(message: Message) -> None:
        raise LookupError("no network")

    async with started(discover=fail, settings=NodeSettings(discovery_timeout=0.02)) as node:
        try:
            await node.hub.send_one_way(Order())
        except LookupError:
            assert node.stats().waiting == 0
        assert node.stats().is_balanced
