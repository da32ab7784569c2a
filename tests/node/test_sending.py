"""Sending through a hub: requests, one-way messages, broadcasts, streams."""

from __future__ import annotations

import pytest

from hopline import (
    ActorError,
    ArgumentError,
    DeliveryError,
    Distribution,
    Node,
    NoRoomError,
    NotRunningError,
    to_message,
)

from .links import advertised
from .orders import Failing, Gated, Listener, News, OneByOne, Order, Price, Pricer
from .running import on_loop, started, turns, until

# -- lifecycle ---------------------------------------------------------------------------------------------------------


# Protocol 4.1
@on_loop
async def test_a_hub_has_an_identity_of_its_own_of_00_and_a_guid() -> None:
    async with started() as node:
        hubs = [node.hub, node.new_hub(), node.new_hub()]
        assert {hub.identity[:1] for hub in hubs} == {b"\x00"}
        assert {len(hub.identity) for hub in hubs} == {37}
        assert len({hub.identity for hub in hubs}) == 3
        assert {hub.identity for hub in hubs} <= {route.receiver for route in advertised(node)}


# Protocol 4.1
@on_loop
async def test_there_is_no_hub_before_the_node_starts_and_none_that_sends_after_it_stopped() -> None:
    # The reference queues what is sent before the start; here there is nothing to queue it.
    node = Node(Pricer())
    with pytest.raises(NotRunningError):
        _ = node.hub
    await node.start()
    hub = node.hub
    assert await hub.send(Order(), callback=Price) == Price(100)
    await node.stop()
    with pytest.raises(NotRunningError):
        await hub.send(Order(), callback=Price)
    with pytest.raises(NotRunningError):
        await hub.send_one_way(Order())
    with pytest.raises(NotRunningError):
        hub.try_send(Order())
    await node.start()
    assert await node.hub.send(Order(), callback=Price) == Price(100)
    await node.stop()


# -- send variants -----------------------------------------------------------------------------------------------------


# Protocol 4.2
@on_loop
async def test_a_request_with_a_callback_may_have_any_distribution() -> None:
    async with started(Pricer(1), Pricer(2)) as node:
        assert await node.hub.send(Order(), callback=Price) == Price(1)
        everyone = to_message(Order(), distribution=Distribution.BROADCAST)
        assert await node.hub.send(everyone, callback=Price) in (Price(1), Price(2))
        await until(lambda: node.stats().unexpected == 1)


# Protocol 4.2
@on_loop
async def test_a_broadcast_has_no_receipt() -> None:
    async with started(Listener()) as node:
        with pytest.raises(ArgumentError, match="a broadcast has no receipt"):
            await node.hub.send(to_message(News(), distribution=Distribution.BROADCAST))
        assert node.hub.waiting == 0


# Protocol 4.2
@on_loop
async def test_one_way_carries_no_callback_data() -> None:
    listener = Listener()
    async with started(listener) as node:
        await node.hub.send_one_way(News())
        node.hub.try_send_one_way(News())
        await until(lambda: len(listener.heard) == 2)
        assert node.hub.waiting == 0
    for message in listener.heard:
        assert (message.callback_point, message.callback_key) == ((), 0)
        assert (message.callback_receiver_identity, message.callback_receiver_node_identity) == (b"", b"")
        assert message.distribution == Distribution.UNICAST


# Protocol 4.2
@on_loop
async def test_a_broadcast_reaches_every_actor_once() -> None:
    listeners = [Listener() for _ in range(5)]
    async with started(*listeners) as node:
        await node.hub.broadcast(News("all"))
        await until(lambda: all(listener.heard for listener in listeners))
    assert [listener.texts for listener in listeners] == [["all"]] * 5


# Protocol 4.2
@on_loop
async def test_a_message_with_a_receiver_cannot_be_broadcast() -> None:
    async with started(Listener()) as node:
        with pytest.raises(ArgumentError, match="no receiver on a broadcast"):
            await node.hub.broadcast(to_message(News()).with_receiver_node(node.identity))


# Protocol 4.2
@on_loop
async def test_a_stream_gives_the_answers_of_all_and_the_errors_apart() -> None:
    async with started(Pricer(1), Failing(), Pricer(2), Pricer(3)) as node:
        stream = node.hub.stream(Order(7), callback=Price, limit=4, timeout=5)
        assert sorted([price.cents async for price in stream]) == [1, 2, 3]
        assert [error.text for error in stream.errors if isinstance(error, ActorError)] == ["no article 7"]
        assert node.hub.waiting == 0


# Protocol 4.2
@on_loop
async def test_a_stream_ends_when_its_time_is_over() -> None:
    async with started(Pricer(1), Pricer(2)) as node:
        assert len([price async for price in node.hub.stream(Order(), callback=Price, timeout=0.05)]) == 2
        assert node.hub.waiting == 0


# Protocol 4.2
@on_loop
async def test_what_comes_after_the_time_of_a_stream_is_no_part_of_it() -> None:
    slow = Gated()
    async with started(Pricer(1), slow) as node:
        stream = node.hub.stream(Order(2), callback=Price, timeout=0.05)
        assert await anext(stream) == Price(1)
        await until(lambda: stream._state.is_over)
        slow.gate.set()
        await until(lambda: slow.ended)
        await turns(5)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert node.stats().unexpected == 1


# Protocol 4.2
@on_loop
async def test_a_stream_that_reaches_nobody_raises() -> None:
    async with started() as node:
        with pytest.raises(DeliveryError, match="unroutable"):
            await anext(node.hub.stream(Order(), callback=Price, timeout=5))
        assert node.hub.waiting == 0


# Protocol 4.2
@on_loop
async def test_try_send_says_no_instead_of_waiting_and_leaves_nothing_behind() -> None:
    actor = OneByOne()
    async with started(actor) as node:
        first = node.hub.try_send(Order(1), callback=Price)
        await until(lambda: actor.started)
        second = node.hub.try_send(Order(2), callback=Price)
        with pytest.raises(NoRoomError):
            node.hub.try_send(Order(3), callback=Price)
        with pytest.raises(NoRoomError):
            node.hub.try_send_one_way(Order(4))
        assert (node.hub.waiting, node.stats().submitted) == (2, 2)
        actor.gate.set()
        assert [await first, await second] == [Price(1), Price(2)]
