"""Receivers come and go, on this node and on others."""

from __future__ import annotations

import asyncio

import pytest

from hopline import (
    ArgumentError,
    DeliveryError,
    Message,
    MessageIdentifier,
    MessageOutcome,
    Outcome,
    to_message,
)

from .links import Network, advertised, introduce, uri_of
from .orders import Listener, News, OneByOne, Order, Price, Pricer
from .running import on_loop, soon, started, until

ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")


ACTOR = b"\x01actor"


# -- what lives here ---------------------------------------------------------------------------------------------------


# Protocol 5.5
@on_loop
async def test_a_hub_gets_whatever_is_addressed_to_it_and_an_actor_only_what_it_handles() -> None:
    outcomes: list[MessageOutcome] = []
    pricer = Pricer()
    async with started(pricer, on_outcome=outcomes.append) as node:
        to_hub = Message.create(b"Anything").with_receiver_actor(node.identity, node.hub.identity)
        await node.hub.send_one_way(to_hub)
        to_actor = Message.create(b"Anything").with_receiver_actor(node.identity, pricer.identity)
        await node.hub.send_one_way(to_actor)
        to_nothing = to_message(Order()).with_receiver_actor(node.identity, b"\x07what")
        await node.hub.send_one_way(to_nothing)
    assert [settled.outcome for settled in outcomes] == [Outcome.DELIVERED, Outcome.UNROUTABLE, Outcome.UNROUTABLE]
    assert pricer.seen == []


# Protocol 5.5
@on_loop
async def test_an_actor_gets_messages_from_the_moment_it_is_added_until_it_is_removed() -> None:
    pricer = Pricer(1)
    async with started() as node:
        for _ in range(2):
            with pytest.raises(DeliveryError, match="unroutable"):
                await soon(node.hub.send(Order(), callback=Price))
            node.add(pricer)
            assert await soon(node.hub.send(Order(), callback=Price)) == Price(1)
            assert ORDER in {route.identifier for route in advertised(node)}
            await node.remove(pricer)
            assert ORDER not in {route.identifier for route in advertised(node)}
        with pytest.raises(ArgumentError, match="an actor of this node"):
            await node.remove(pricer)


# Protocol 5.5
@on_loop
async def test_what_waited_for_a_removed_actor_goes_to_its_sibling() -> None:
    slow = OneByOne()
    async with started(slow) as node:
        first = node.hub.try_send(Order(1), callback=Price)
        await until(lambda: slow.started)
        second = node.hub.try_send(Order(2), callback=Price)
        node.add(Pricer(7))
        removing = asyncio.create_task(node.remove(slow))
        assert await soon(second) == Price(7)
        slow.gate.set()
        assert await soon(first) == Price(1)  # what was under way may end
        await soon(removing)


# Protocol 5.5
@on_loop
async def test_what_waited_for_a_removed_actor_fails_when_there_is_no_sibling() -> None:
    slow = OneByOne()
    async with started(slow) as node:
        first = node.hub.try_send(Order(1), callback=Price)
        await until(lambda: slow.started)
        second = node.hub.try_send(Order(2), callback=Price)
        await soon(node.remove(slow, drain_timeout=0.0))
        with pytest.raises(DeliveryError):
            await soon(second)
        with pytest.raises(Exception, match="was stopped before it ended"):
            await soon(first)


# -- what lives elsewhere ----------------------------------------------------------------------------------------------


# Protocol 5.6
@on_loop
async def test_a_node_is_connected_to_when_the_first_message_goes_there_and_once() -> None:
    network = Network()
    async with network.of(a=[], b=[Listener()]) as (a, _):
        assert network.links == []
        for _ in range(3):
            await a.hub.send_one_way(News())
        assert [(link.peer, link.uri) for link in network.links] == [(b"b", uri_of(b"b"))]


# Protocol 5.6
@on_loop
async def test_a_node_that_is_forgotten_gets_nothing_and_is_connected_to_anew_when_it_comes_back() -> None:
    network = Network()
    listener = Listener()
    async with network.of(a=[], b=[listener]) as (a, b):
        await a.hub.send_one_way(News("1"))
        removal = a.router.directory.forget_node(b"b")
        assert removal is not None
        assert (removal.uri, removal.disconnect) == (uri_of(b"b"), True)
        assert a.router.directory.forget_node(b"b") is None
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(a.hub.send(News("2")))
        introduce(b, to=a)
        await soon(a.hub.send(News("3")))
        await until(lambda: listener.texts == ["1", "3"])
        assert [link.peer for link in network.links if link.peer == b"b"] == [b"b", b"b"]


# Protocol 5.6
@on_loop
async def test_a_node_that_moved_is_connected_to_at_its_new_address() -> None:
    # The reference keeps the old address; our table has the new one.
    network = Network()
    async with network.of(a=[], b=[Listener()]) as (a, _):
        await a.hub.send_one_way(News())
        a.router.directory.learn(b"b", "tcp://elsewhere:9000", ACTOR, NEWS)
        await a.hub.send_one_way(News())
        assert [link.uri for link in network.links] == [uri_of(b"b"), "tcp://elsewhere:9000"]


# Protocol 5.6
@on_loop
async def test_a_message_that_one_node_handles_no_longer_goes_to_the_others() -> None:
    actors = Pricer(2), Pricer(3)
    async with Network().of(a=[], b=[actors[0]], c=[actors[1]]) as (a, _, _):
        a.router.directory.forget(b"b", actors[0].identity, ORDER)
        for _ in range(3):
            assert await soon(a.hub.send(Order(), callback=Price)) == Price(3)


# Protocol 5.6
@on_loop
async def test_an_addressed_node_gets_the_message_whatever_it_is_said_to_handle() -> None:
    async with Network().of(a=[], b=[Pricer(2)]) as (a, _):
        actor = next(iter(a.router.directory.elsewhere._nodes[b"b"].actors))
        a.router.directory.forget(b"b", actor, ORDER)  # its hub is still known, and so is the node
        request = to_message(Order()).with_receiver_node(b"b")
        assert await soon(a.hub.send(request, callback=Price)) == Price(2)
