"""Unicast: which actor or node gets a message, and whose turn it is."""

from __future__ import annotations

import pytest

from hopline import DeliveryError, MessageIdentifier, NodeSettings, Outcome, to_message
from hopline.message import RoutingEntry

from .links import Network, uri_of
from .orders import Listener, News, OneByOne, Order, Price, Pricer
from .running import on_loop, soon, started, turns, until

ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")


ACTOR = b"\x01actor"


# -- addressed to a node -----------------------------------------------------------------------------------------------


# Protocol 5.2
@on_loop
async def test_a_message_for_this_node_stays_here_whoever_else_handles_it() -> None:
    async with Network().of(a=[Pricer(1)], b=[Pricer(2)]) as (a, _):
        for _ in range(3):
            request = to_message(Order()).with_receiver_node(b"a")
            assert await soon(a.hub.send(request, callback=Price)) == Price(1)


# Protocol 5.2
@on_loop
async def test_a_message_for_another_node_goes_there_whoever_else_handles_it() -> None:
    async with Network().of(a=[Pricer(1)], b=[Pricer(2)], c=[Pricer(3)]) as (a, _, _):
        for _ in range(3):
            request = to_message(Order()).with_receiver_node(b"c")
            assert await soon(a.hub.send(request, callback=Price)) == Price(3)


# Protocol 5.2
@on_loop
async def test_a_message_for_one_actor_of_another_node_gets_there() -> None:
    wanted = Pricer(7)
    async with Network().of(a=[], b=[Pricer(1), wanted, Pricer(2)]) as (a, _):
        for _ in range(4):
            request = to_message(Order()).with_receiver_actor(b"b", wanted.identity)
            assert await soon(a.hub.send(request, callback=Price)) == Price(7)


# Protocol 5.2
@on_loop
async def test_an_unknown_node_is_not_replaced_by_another() -> None:
    async with Network().of(a=[Pricer(1)], b=[Pricer(2)]) as (a, _):
        with pytest.raises(DeliveryError, match="unroutable: Order/1: its receiver is not known"):
            await soon(a.hub.send(to_message(Order()).with_receiver_node(b"z"), callback=Price))


# Protocol 5.2
@on_loop
async def test_what_the_addressed_node_cannot_handle_is_not_sent_on_from_there() -> None:
    async with Network().of(a=[], b=[Listener()], c=[Pricer()]) as (a, b, _):
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(a.hub.send(to_message(Order()).with_receiver_node(b"b"), callback=Price))
        assert b.stats().outcomes[Outcome.UNROUTABLE] == 1


# -- unicast -----------------------------------------------------------------------------------------------------------


# Protocol 5.2
@on_loop
async def test_here_and_elsewhere_take_turns_and_so_do_the_actors_of_each() -> None:
    async with Network().of(a=[Pricer(1), Pricer(2)], b=[Pricer(3), Pricer(4)], c=[Pricer(5)]) as (a, _, _):
        prices = [(await soon(a.hub.send(Order(), callback=Price))).cents for _ in range(40)]
    assert {cents: prices.count(cents) > 2 for cents in set(prices)} == dict.fromkeys((1, 2, 3, 4, 5), True)


# Protocol 5.2
@on_loop
async def test_a_unicast_from_another_node_is_taken_here_if_anyone_can() -> None:
    async with Network().of(a=[], b=[Pricer(2)], c=[Pricer(3)]) as (a, b, c):
        a.router.directory.forget_node(b"c")
        for _ in range(6):
            assert await soon(a.hub.send(Order(), callback=Price)) == Price(2)
        assert c.stats().received == 0
        assert b.stats().outcomes[Outcome.SENT] == 6  # the answers, and nothing else


# Protocol 5.2
@on_loop
async def test_a_unicast_from_another_node_that_nobody_takes_here_goes_on() -> None:
    network = Network()
    async with network.node("a") as a, network.node("b") as b, network.node("c", Pricer(3)) as c:
        network.introduce()
        a.router.directory.forget_node(b"c")
        a.router.directory.learn(b"b", uri_of(b"b"), ACTOR, ORDER)
        assert await soon(a.hub.send(Order(), callback=Price)) == Price(3)
        (there,) = network.sent_to(b"c")
        assert (there.hops, [entry.identity for entry in there.routing]) == (2, [b"a", b"b"])
        assert b.stats().received == c.stats().received == 1
        network.gone |= {b"a", b"b", b"c"}


# Protocol 5.2
@on_loop
async def test_hops_and_the_trace_grow_with_every_sending_and_only_then() -> None:
    network = Network()
    pricer, here = Pricer(), Listener()
    async with network.of(a=[here], b=[pricer]) as (a, _):
        await soon(a.hub.send(Order(), callback=Price))
        await a.hub.send(News())
        await until(lambda: here.heard)
    (there,) = pricer.seen
    assert (there.hops, there.routing) == (1, (RoutingEntry(uri_of(b"a"), b"a"),))
    assert (here.heard[0].hops, here.heard[0].routing) == (0, ())


# Protocol 5.2
@on_loop
async def test_the_trace_is_kept_whether_or_not_it_is_asked_for() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer()]) as (a, _):
        for options in (0, 1):
            await soon(a.hub.send(to_message(Order()).clone(trace_options=options), callback=Price))
    assert [len(message.routing) for message in network.sent_to(b"a")] == [2, 2]


# Protocol 5.2
@on_loop
async def test_a_message_is_sent_on_only_so_often_and_its_caller_is_told() -> None:
    network = Network()
    limited = NodeSettings(hop_limit=5)
    async with network.node("a", settings=limited) as a, network.node("b", settings=limited) as b:
        network.introduce()
        a.router.directory.learn(b"b", uri_of(b"b"), ACTOR, ORDER)
        b.router.directory.learn(b"a", uri_of(b"a"), ACTOR, ORDER)
        with pytest.raises(DeliveryError, match="hop_limit: Order/1: sent from node to node 5 times"):
            await soon(a.hub.send(Order(), callback=Price))
        assert [message.hops for _, message in network.travelled if message.identifier == ORDER] == [1, 2, 3, 4, 5]
        network.gone |= {b"a", b"b"}


# Protocol 5.2
@on_loop
async def test_with_a_receiver_and_no_node_it_is_the_message_that_is_looked_for_elsewhere() -> None:
    async with Network().of(a=[], b=[Pricer(2)]) as (a, _):
        promise = a.hub.try_send(to_message(Order()).clone(receiver_identity=b"\x01whoever"), callback=Price)
        # There, the receiver counts again, and it is not there.
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(promise)
        assert a.stats().outcomes[Outcome.SENT] == 1


# -- turns -------------------------------------------------------------------------------------------------------------


# Protocol 5.7
@on_loop
async def test_of_here_and_elsewhere_the_one_that_was_used_least_recently_is_picked() -> None:
    async with Network().of(a=[Pricer(1)], b=[Pricer(2)]) as (a, _):
        assert [(await soon(a.hub.send(Order(), callback=Price))).cents for _ in range(4)] == [1, 2, 1, 2]


# Protocol 5.7
@on_loop
async def test_a_full_actor_is_passed_over_for_its_sibling() -> None:
    busy, free = OneByOne(), OneByOne()
    free.gate.set()
    async with started(busy) as node:
        node.hub.try_send_one_way(Order())
        await until(lambda: busy.started)
        node.hub.try_send_one_way(Order())
        node.add(free)
        assert [await soon(node.hub.send(Order(sku), callback=Price)) for sku in range(4)] == list(map(Price, range(4)))
        busy.gate.set()


# Protocol 5.7
@on_loop
async def test_a_message_goes_to_the_sibling_that_has_room_however_many_have_none() -> None:
    busy, free = [OneByOne(), OneByOne()], OneByOne()
    free.gate.set()
    async with started(*busy) as node:
        for _ in range(4):
            node.hub.try_send_one_way(Order())
            await turns(3)
        assert node.stats().waiting == 2
        node.add(free)
        try:
            for sku in range(6):
                assert await soon(node.hub.send(Order(sku), callback=Price, timeout=0.2)) == Price(sku)
        finally:
            for actor in busy:
                actor.gate.set()
