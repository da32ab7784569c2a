"""Sending to nodes that are gone or full: what is tried next, and what the caller learns."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hopline import (
    DeliveryError,
    Message,
    MessageIdentifier,
    NodeSettings,
    Outcome,
    WireFormat,
    to_message,
)

from .links import Network, introduce, uri_of
from .orders import Listener, News, Order, Price, Pricer
from .running import on_loop, soon, started, turns

ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")


ACTOR = b"\x01actor"


# Protocol 5.2
@on_loop
async def test_a_failed_sending_goes_to_the_next_node() -> None:
    # The reference reports success, and the message is lost.
    network = Network()
    async with network.of(a=[], b=[Pricer(2)], c=[Pricer(3)]) as (a, _, _):
        network.gone.add(b"b")
        for _ in range(4):
            assert await soon(a.hub.send(Order(), callback=Price)) == Price(3)


# Protocol 5.2
@on_loop
async def test_when_every_node_is_gone_the_caller_is_told() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer(2)], c=[Pricer(3)]) as (a, _, _):
        network.gone |= {b"b", b"c"}
        with pytest.raises(DeliveryError, match="failed: Order/1: every node that handles it is unreachable"):
            await soon(a.hub.send(Order(), callback=Price))
        assert a.stats().outcomes[Outcome.FAILED] == 1


# Protocol 5.2
@on_loop
async def test_a_failed_sending_comes_back_to_an_actor_of_this_node() -> None:
    network = Network()
    async with network.of(a=[Pricer(1)], b=[Pricer(2)]) as (a, _):
        network.gone.add(b"b")
        for _ in range(4):
            assert await soon(a.hub.send(Order(), callback=Price)) == Price(1)


# Protocol 5.2
@on_loop
async def test_what_a_dead_peer_never_got_is_taken_back_and_goes_to_the_next() -> None:
    network = Network()
    async with network.of(a=[], b=[Listener()], c=[Pricer(3)]) as (a, _, _):
        a.router.directory.learn(b"b", uri_of(b"b"), ACTOR, ORDER)
        network.deaf.add(b"b")
        a.router.directory.forget(b"c", next(iter(a.router.directory.elsewhere._nodes[b"c"].actors)), ORDER)
        promise = a.hub.try_send(Order(), callback=Price)
        (lost,) = network.sent_to(b"b")
        a.router.directory.learn(b"c", uri_of(b"c"), ACTOR, ORDER)
        a.router.take_back(lost, b"b", 0.0)
        assert await soon(promise) == Price(3)
        (again,) = network.sent_to(b"c")
        assert (again.hops, [entry.identity for entry in again.routing]) == (1, [b"a"])
        assert a.stats().returned == 1


# Protocol 5.2
@on_loop
async def test_the_time_that_a_peer_kept_a_message_is_taken_from_its_lifetime() -> None:
    async with started(Listener()) as node:
        message = to_message(News(), ttl=timedelta(seconds=5)).add_hop().push_router_address("tcp://here:1", b"here")
        node.router.take_back(message, b"gone", 6.0)
        assert node.stats().outcomes[Outcome.EXPIRED] == 1


# Protocol 5.2
@on_loop
async def test_a_message_waits_for_room_on_the_way_to_its_node() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer(2)]) as (a, _):
        network.full.add(b"b")
        asking = asyncio.create_task(a.hub.send(Order(), callback=Price))
        await turns(10)
        assert network.travelled == []
        network.full.clear()
        network.change()
        assert await soon(asking) == Price(2)


# Protocol 5.2
@on_loop
async def test_a_message_that_waits_for_room_goes_elsewhere_when_its_node_goes_away() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer(2)], c=[Pricer(3)]) as (a, _, _):
        network.full |= {b"b", b"c"}
        asking = asyncio.create_task(a.hub.send(Order(), callback=Price))
        await turns(10)
        network.full.clear()
        network.gone.add(b"b")
        a.router.directory.forget_node(b"b")
        network.change()
        assert await soon(asking) == Price(3)


# Protocol 5.2
@on_loop
async def test_a_message_that_the_format_of_its_peer_cannot_carry_fails_and_is_counted() -> None:
    # A version of text comes in the first format; the later ones have a number there.
    network = Network(WireFormat.V5)
    async with network.of(a=[], b=[Listener()]) as (a, _):
        textual = Message(b"Order", version=b"1.1", hops=1, wire_format=WireFormat.FIRST)
        a.router.directory.learn(b"b", uri_of(b"b"), ACTOR, textual.identifier)
        a.router.receive(textual)
        assert sum(a.stats().outcomes.values()) == 1


# Protocol 5.2
@on_loop
async def test_there_is_never_room_and_the_caller_is_told() -> None:
    network = Network()
    async with (
        network.node("a", settings=NodeSettings(backpressure_timeout=0.02)) as a,
        network.node("b", Pricer()) as b,
    ):
        introduce(b, to=a)
        network.full.add(b"b")
        with pytest.raises(DeliveryError, match=r"overflow: Order/1: no room for it within 0.02 s"):
            await soon(a.hub.send(Order(), callback=Price))
        network.gone |= {b"a", b"b"}
