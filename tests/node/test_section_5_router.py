"""Section 5 of the protocol: who gets a message, on this node and on others, and what becomes of what nobody gets."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hopline import (
    Actor,
    DeliveryError,
    Distribution,
    LocalError,
    Message,
    MessageIdentifier,
    NodeSettings,
    Outcome,
    RoutingEntry,
    Settled,
    WireFormat,
    handler,
    to_message,
)
from hopline.message import EXCEPTION, RECEIPT

from .links import Network, advertised, introduce, uri_of
from .orders import Invoice, Listener, News, OneByOne, Order, Price, Pricer
from .running import Clock, in_vain, on_loop, soon, started, turns, until

ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")
ACTOR = b"\x01actor"


def broadcast(text: str = "") -> Message:
    return to_message(News(text), distribution=Distribution.BROADCAST)


# -- 5.2 addressed to a node -------------------------------------------------------------------------------------------


@on_loop
async def test_5_2_a_message_for_this_node_stays_here_whoever_else_handles_it() -> None:
    async with Network().of(a=[Pricer(1)], b=[Pricer(2)]) as (a, _):
        for _ in range(3):
            request = to_message(Order()).with_receiver_node(b"a")
            assert await soon(a.hub.send(request, callback=Price)) == Price(1)


@on_loop
async def test_5_2_a_message_for_another_node_goes_there_whoever_else_handles_it() -> None:
    async with Network().of(a=[Pricer(1)], b=[Pricer(2)], c=[Pricer(3)]) as (a, _, _):
        for _ in range(3):
            request = to_message(Order()).with_receiver_node(b"c")
            assert await soon(a.hub.send(request, callback=Price)) == Price(3)


@on_loop
async def test_5_2_a_message_for_one_actor_of_another_node_gets_there() -> None:
    wanted = Pricer(7)
    async with Network().of(a=[], b=[Pricer(1), wanted, Pricer(2)]) as (a, _):
        for _ in range(4):
            request = to_message(Order()).with_receiver_actor(b"b", wanted.identity)
            assert await soon(a.hub.send(request, callback=Price)) == Price(7)


@on_loop
async def test_5_2_an_unknown_node_is_not_replaced_by_another() -> None:
    async with Network().of(a=[Pricer(1)], b=[Pricer(2)]) as (a, _):
        with pytest.raises(DeliveryError, match="unroutable: Order/1: its receiver is not known"):
            await soon(a.hub.send(to_message(Order()).with_receiver_node(b"z"), callback=Price))


@on_loop
async def test_5_2_what_the_addressed_node_cannot_handle_is_not_sent_on_from_there() -> None:
    async with Network().of(a=[], b=[Listener()], c=[Pricer()]) as (a, b, _):
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(a.hub.send(to_message(Order()).with_receiver_node(b"b"), callback=Price))
        assert b.stats().outcomes[Outcome.UNROUTABLE] == 1


# -- 5.2 unicast -------------------------------------------------------------------------------------------------------


@on_loop
async def test_5_2_here_and_elsewhere_take_turns_and_so_do_the_actors_of_each() -> None:
    async with Network().of(a=[Pricer(1), Pricer(2)], b=[Pricer(3), Pricer(4)], c=[Pricer(5)]) as (a, _, _):
        prices = [(await soon(a.hub.send(Order(), callback=Price))).cents for _ in range(40)]
    assert {cents: prices.count(cents) > 2 for cents in set(prices)} == dict.fromkeys((1, 2, 3, 4, 5), True)


@on_loop
async def test_5_2_a_unicast_from_another_node_is_taken_here_if_anyone_can() -> None:
    async with Network().of(a=[], b=[Pricer(2)], c=[Pricer(3)]) as (a, b, c):
        a.router.directory.forget_node(b"c")
        for _ in range(6):
            assert await soon(a.hub.send(Order(), callback=Price)) == Price(2)
        assert c.stats().received == 0
        assert b.stats().outcomes[Outcome.SENT] == 6  # the answers, and nothing else


@on_loop
async def test_5_2_a_unicast_from_another_node_that_nobody_takes_here_goes_on() -> None:
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


@on_loop
async def test_5_2_hops_and_the_trace_grow_with_every_sending_and_only_then() -> None:
    network = Network()
    pricer, here = Pricer(), Listener()
    async with network.of(a=[here], b=[pricer]) as (a, _):
        await soon(a.hub.send(Order(), callback=Price))
        await a.hub.send(News())
        await until(lambda: here.heard)
    (there,) = pricer.seen
    assert (there.hops, there.routing) == (1, (RoutingEntry(uri_of(b"a"), b"a"),))
    assert (here.heard[0].hops, here.heard[0].routing) == (0, ())


@on_loop
async def test_5_2_the_trace_is_kept_whether_or_not_it_is_asked_for() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer()]) as (a, _):
        for options in (0, 1):
            await soon(a.hub.send(to_message(Order()).clone(trace_options=options), callback=Price))
    assert [len(message.routing) for message in network.sent_to(b"a")] == [2, 2]


@on_loop
async def test_5_2_a_message_is_sent_on_only_so_often_and_its_caller_is_told() -> None:
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


@on_loop
async def test_5_2_with_a_receiver_and_no_node_it_is_the_message_that_is_looked_for_elsewhere() -> None:
    async with Network().of(a=[], b=[Pricer(2)]) as (a, _):
        promise = a.hub.try_send(to_message(Order()).clone(receiver_identity=b"\x01whoever"), callback=Price)
        # There, the receiver counts again, and it is not there.
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(promise)
        assert a.stats().outcomes[Outcome.SENT] == 1


# -- 5.2 time ----------------------------------------------------------------------------------------------------------


@on_loop
async def test_5_2_the_time_that_a_message_stayed_is_taken_from_its_lifetime_before_it_goes_on() -> None:
    # The reference carries the lifetime and never looks at it.
    network, clock = Network(), Clock()
    async with network.node("a", clock=clock, discover=in_vain) as a, network.node("b", Listener()) as b:
        await a.hub.send_one_way(to_message(News(), ttl=timedelta(seconds=60)))
        clock.now += 45
        introduce(b, to=a)
        (sent,) = network.sent_to(b"b")
        assert sent.ttl == timedelta(seconds=15)
        network.gone |= {b"a", b"b"}


@on_loop
async def test_5_2_a_message_whose_time_is_over_is_not_handled_and_its_caller_is_told() -> None:
    clock, gated = Clock(), OneByOne()
    outcomes: list[Settled] = []
    async with started(gated, clock=clock, on_outcome=outcomes.append) as node:
        first = node.hub.try_send(Order(), callback=Price, timeout=3600)
        await until(lambda: gated.started)
        second = node.hub.try_send(to_message(Order(), ttl=timedelta(seconds=5)), callback=Price, timeout=3600)
        clock.now += 6
        gated.gate.set()
        with pytest.raises(DeliveryError, match="expired: Order/1: its lifetime was over in the mailbox"):
            await soon(second)
        assert await soon(first) == Price(0)
    assert gated.started == 1
    assert [settled.outcome for settled in outcomes if settled.message.identifier == ORDER] == [
        Outcome.DELIVERED,
        Outcome.EXPIRED,
    ]


@on_loop
async def test_5_2_no_lifetime_is_no_limit() -> None:
    clock, listener = Clock(), Listener()
    async with started(listener, clock=clock) as node:
        node.hub.try_send_one_way(News())
        clock.now += 1e9
        await until(lambda: listener.heard)


# -- 5.2 nobody handles it ---------------------------------------------------------------------------------------------


@on_loop
async def test_5_2_a_message_without_a_route_is_parked_while_one_is_looked_for() -> None:
    # The reference drops it.
    sought: list[Message] = []
    async with started(discover=sought.append) as node:
        promises = [node.hub.try_send(Order(), callback=Price) for _ in range(3)]
        assert [message.identifier for message in sought] == [ORDER] * 3
        assert node.stats().waiting == 3
        node.add(Pricer(5))
        assert [await soon(promise) for promise in promises] == [Price(5)] * 3


@on_loop
async def test_5_2_what_is_parked_keeps_its_order() -> None:
    listener = Listener()
    async with started(discover=in_vain) as node:
        for number in range(20):
            await node.hub.send_one_way(News(str(number)))
        node.add(listener)
        await until(lambda: len(listener.heard) == 20)
    assert listener.texts == [str(number) for number in range(20)]


@on_loop
async def test_5_2_a_broadcast_without_a_route_is_parked_too() -> None:
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


@on_loop
async def test_5_2_what_is_parked_in_vain_is_failed_to_its_caller() -> None:
    settings = NodeSettings(parking_time=0.02)
    async with started(discover=in_vain, settings=settings) as node:
        with pytest.raises(DeliveryError, match="unroutable: Order/1: nobody handles it"):
            await soon(node.hub.send(Order(), callback=Price))


@on_loop
async def test_5_2_what_expires_while_it_is_parked_is_told_so() -> None:
    async with started(discover=in_vain) as node:
        with pytest.raises(DeliveryError, match=r"expired: .* while a route was looked for"):
            await soon(node.hub.send(to_message(Order(), ttl=timedelta(seconds=0.02)), callback=Price, timeout=5))


@on_loop
async def test_5_2_only_so_many_messages_are_parked() -> None:
    settings = NodeSettings(parked_messages=2, drain_time=0.0)
    async with started(discover=in_vain, settings=settings) as node:
        parked = [node.hub.try_send(Order(), callback=Price) for _ in range(2)]
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(node.hub.send(Order(), callback=Price))
        assert node.stats().waiting == 2
        node.add(Pricer(1))
        assert [await soon(promise) for promise in parked] == [Price(1), Price(1)]


@on_loop
async def test_5_2_what_waits_for_this_node_is_released_by_a_new_actor_of_it() -> None:
    async with started(discover=in_vain, settings=NodeSettings(parking_time=0.3)) as node:
        promise = node.hub.try_send(to_message(Order()).with_receiver_node(node.identity), callback=Price)
        node.add(Pricer(5))
        assert await soon(promise) == Price(5)


@on_loop
async def test_5_2_what_waits_for_another_node_is_released_when_that_node_is_known() -> None:
    network = Network()
    async with network.node("a", discover=in_vain) as a, network.node("b", Pricer(2)) as b:
        introduce(a, to=b)
        promise = a.hub.try_send(to_message(Order()).with_receiver_node(b"b"), callback=Price)
        assert not promise.done()
        introduce(b, to=a)
        assert await soon(promise) == Price(2)
        network.gone |= {b"a", b"b"}


@on_loop
async def test_5_2_a_route_that_is_found_at_once_is_taken_at_once() -> None:
    network = Network()
    async with network.node("b", Pricer(2)) as b:

        def found(message: Message) -> None:
            introduce(b, to=a)

        async with network.node("a", discover=found) as a:
            introduce(a, to=b)
            assert await soon(a.hub.send(Order(), callback=Price)) == Price(2)
            assert a.stats().waiting == 0
            network.gone |= {b"a", b"b"}


@on_loop
async def test_5_2_a_route_may_be_learned_while_others_give_up_waiting() -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))  # noqa: ARG005
    listener, failed = Listener(), list[Settled]()

    def add_when_one_failed(settled: Settled) -> None:
        if settled.outcome is Outcome.UNROUTABLE:
            failed.append(settled)
            if len(failed) == 1:
                node.add(listener)

    hooks: Any = {"discover": in_vain, "on_outcome": add_when_one_failed, "clock": Clock()}  # all give up at once
    async with started(settings=NodeSettings(parking_time=0.02), **hooks) as node:
        for number in range(3):
            await node.hub.send_one_way(News(str(number)))
        await until(lambda: node.stats().waiting == 0)
        await turns(5)
        assert errors == []
        assert (len(failed), listener.texts) == (1, ["1", "2"])


@on_loop
async def test_5_2_a_search_that_fails_leaves_every_message_with_one_outcome() -> None:
    def fail(message: Message) -> None:
        raise LookupError("no network")

    async with started(discover=fail, settings=NodeSettings(parking_time=0.02)) as node:
        try:
            await node.hub.send_one_way(Order())
        except LookupError:
            assert node.stats().waiting == 0
        assert node.stats().is_balanced


# -- 5.2 failed sendings -----------------------------------------------------------------------------------------------


@on_loop
async def test_5_2_a_failed_sending_goes_to_the_next_node() -> None:
    # The reference reports success, and the message is lost.
    network = Network()
    async with network.of(a=[], b=[Pricer(2)], c=[Pricer(3)]) as (a, _, _):
        network.gone.add(b"b")
        for _ in range(4):
            assert await soon(a.hub.send(Order(), callback=Price)) == Price(3)


@on_loop
async def test_5_2_when_every_node_is_gone_the_caller_is_told() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer(2)], c=[Pricer(3)]) as (a, _, _):
        network.gone |= {b"b", b"c"}
        with pytest.raises(DeliveryError, match="failed: Order/1: every node that handles it is unreachable"):
            await soon(a.hub.send(Order(), callback=Price))
        assert a.stats().outcomes[Outcome.FAILED] == 1


@on_loop
async def test_5_2_a_failed_sending_comes_back_to_an_actor_of_this_node() -> None:
    network = Network()
    async with network.of(a=[Pricer(1)], b=[Pricer(2)]) as (a, _):
        network.gone.add(b"b")
        for _ in range(4):
            assert await soon(a.hub.send(Order(), callback=Price)) == Price(1)


@on_loop
async def test_5_2_what_a_dead_peer_never_got_is_taken_back_and_goes_to_the_next() -> None:
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


@on_loop
async def test_5_2_the_time_that_a_peer_kept_a_message_is_taken_from_its_lifetime() -> None:
    async with started(Listener()) as node:
        message = to_message(News(), ttl=timedelta(seconds=5)).add_hop().push_router_address("tcp://here:1", b"here")
        node.router.take_back(message, b"gone", 6.0)
        assert node.stats().outcomes[Outcome.EXPIRED] == 1


@on_loop
async def test_5_2_a_message_waits_for_room_on_the_way_to_its_node() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer(2)]) as (a, _):
        network.full.add(b"b")
        asking = asyncio.create_task(a.hub.send(Order(), callback=Price))
        await turns(10)
        assert network.travelled == []
        network.full.clear()
        network.change()
        assert await soon(asking) == Price(2)


@on_loop
async def test_5_2_a_message_that_waits_for_room_goes_elsewhere_when_its_node_goes_away() -> None:
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


@on_loop
async def test_5_2_a_message_that_the_format_of_its_peer_cannot_carry_fails_and_is_counted() -> None:
    # A version of text comes in the first format; the later ones have a number there.
    network = Network(WireFormat.V5)
    async with network.of(a=[], b=[Listener()]) as (a, _):
        textual = Message(b"Order", version=b"1.1", hops=1, wire_format=WireFormat.FIRST)
        a.router.directory.learn(b"b", uri_of(b"b"), ACTOR, textual.identifier)
        a.router.receive(textual)
        assert sum(a.stats().outcomes.values()) == 1


@on_loop
async def test_5_2_there_is_never_room_and_the_caller_is_told() -> None:
    network = Network()
    async with network.node("a", settings=NodeSettings(room_time=0.02)) as a, network.node("b", Pricer()) as b:
        introduce(b, to=a)
        network.full.add(b"b")
        with pytest.raises(DeliveryError, match=r"overflow: Order/1: no room for it within 0.02 s"):
            await soon(a.hub.send(Order(), callback=Price))
        network.gone |= {b"a", b"b"}


# -- 5.4 broadcast -----------------------------------------------------------------------------------------------------


@on_loop
async def test_5_4_a_broadcast_reaches_every_actor_of_every_node_exactly_once() -> None:
    listeners = [Listener() for _ in range(6)]
    one, two, three = listeners[:2], listeners[2:4], listeners[4:]
    network = Network()
    async with network.of(a=[*one], b=[*two], c=[*three]) as (a, b, c):
        for node in (a, b, c):
            await node.hub.broadcast(News(node.identity.decode()))
        await until(lambda: all(len(listener.heard) == 3 for listener in listeners))
        await turns(20)
        assert [sorted(listener.texts) for listener in listeners] == [["a", "b", "c"]] * 6
        assert len(network.travelled) == 6


@on_loop
async def test_5_4_every_copy_of_a_broadcast_sees_the_same_hops_and_trace() -> None:
    # In the reference the k-th peer gets k hops.
    listeners = [Listener() for _ in range(4)]
    here, *there = listeners
    async with Network().of(a=[here], b=[there[0]], c=[there[1]], d=[there[2]]) as (a, *_):
        await a.hub.broadcast(News())
        await until(lambda: all(listener.heard for listener in listeners))
    assert [listener.heard[0].hops for listener in listeners] == [0, 1, 1, 1]
    assert here.heard[0].routing == ()
    assert {listener.heard[0].routing for listener in there} == {(RoutingEntry(uri_of(b"a"), b"a"),)}


@on_loop
async def test_5_4_a_broadcast_from_another_node_is_never_sent_on_even_when_nobody_hears_it_here() -> None:
    network = Network()
    listener = Listener()
    async with network.of(a=[], b=[listener]) as (a, _):
        a.router.receive(broadcast().add_hop())
        await turns(10)
        assert a.stats().outcomes[Outcome.UNROUTABLE] == 1
    assert (network.travelled, listener.heard) == ([], [])


@on_loop
async def test_5_4_a_broadcast_result_of_a_broadcast_spreads_again_for_it_starts_here() -> None:
    class Echo(Actor):
        @handler
        def echo(self, order: Order) -> Message:
            return broadcast("echo")

    listener = Listener()
    async with Network().of(a=[listener], b=[Echo()]) as (a, _):
        await a.hub.broadcast(Order())
        await until(lambda: listener.texts == ["echo"])
        assert listener.heard[0].hops == 1
        assert [entry.identity for entry in listener.heard[0].routing] == [b"a", b"b"]


@on_loop
async def test_5_4_a_broadcast_waits_for_nobody_and_who_misses_it_is_counted() -> None:
    class Busy(OneByOne):
        @handler
        def hear(self, news: News) -> None: ...

    busy, listener, outcomes = Busy(), Listener(), list[Settled]()
    async with started(busy, listener, on_outcome=outcomes.append) as node:
        node.hub.try_send_one_way(Order())
        await until(lambda: busy.started)
        node.hub.try_send_one_way(Order())
        await soon(node.hub.broadcast(News("now")))
        await until(lambda: listener.texts == ["now"])
        assert node.stats().outcomes[Outcome.OVERFLOW] == 1
        busy.gate.set()
    assert [s.reason for s in outcomes if s.outcome is Outcome.OVERFLOW] == ["a receiver of the broadcast has no room"]


@on_loop
async def test_5_4_a_broadcast_reaches_the_others_when_one_node_is_gone() -> None:
    network = Network()
    listeners = [Listener(), Listener()]
    async with network.of(a=[], b=[listeners[0]], c=[listeners[1]]) as (a, _, _):
        network.gone.add(b"b")
        await a.hub.broadcast(News("x"))
        await until(lambda: listeners[1].texts == ["x"])
        assert (a.stats().outcomes[Outcome.FAILED], a.stats().outcomes[Outcome.SENT]) == (1, 1)
    assert listeners[0].heard == []


# -- 5.5 what lives here -----------------------------------------------------------------------------------------------


@on_loop
async def test_5_5_a_hub_gets_whatever_is_addressed_to_it_and_an_actor_only_what_it_handles() -> None:
    outcomes: list[Settled] = []
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


@on_loop
async def test_5_5_an_actor_gets_messages_from_the_moment_it_is_added_until_it_is_removed() -> None:
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
        with pytest.raises(LocalError, match="an actor of this node"):
            await node.remove(pricer)


@on_loop
async def test_5_5_what_waited_for_a_removed_actor_goes_to_its_sibling() -> None:
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


@on_loop
async def test_5_5_what_waited_for_a_removed_actor_fails_when_there_is_no_sibling() -> None:
    slow = OneByOne()
    async with started(slow) as node:
        first = node.hub.try_send(Order(1), callback=Price)
        await until(lambda: slow.started)
        second = node.hub.try_send(Order(2), callback=Price)
        await soon(node.remove(slow, drain_time=0.0))
        with pytest.raises(DeliveryError):
            await soon(second)
        with pytest.raises(Exception, match="was stopped before it ended"):
            await soon(first)


# -- 5.6 what lives elsewhere ------------------------------------------------------------------------------------------


@on_loop
async def test_5_6_a_node_is_connected_to_when_the_first_message_goes_there_and_once() -> None:
    network = Network()
    async with network.of(a=[], b=[Listener()]) as (a, _):
        assert network.links == []
        for _ in range(3):
            await a.hub.send_one_way(News())
        assert [(link.peer, link.uri) for link in network.links] == [(b"b", uri_of(b"b"))]


@on_loop
async def test_5_6_a_node_that_is_forgotten_gets_nothing_and_is_connected_to_anew_when_it_comes_back() -> None:
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


@on_loop
async def test_5_6_a_node_that_moved_is_connected_to_at_its_new_address() -> None:
    # The reference keeps the old address; our table has the new one.
    network = Network()
    async with network.of(a=[], b=[Listener()]) as (a, _):
        await a.hub.send_one_way(News())
        a.router.directory.learn(b"b", "tcp://elsewhere:9000", ACTOR, NEWS)
        await a.hub.send_one_way(News())
        assert [link.uri for link in network.links] == [uri_of(b"b"), "tcp://elsewhere:9000"]


@on_loop
async def test_5_6_a_message_that_one_node_handles_no_longer_goes_to_the_others() -> None:
    actors = Pricer(2), Pricer(3)
    async with Network().of(a=[], b=[actors[0]], c=[actors[1]]) as (a, _, _):
        a.router.directory.forget(b"b", actors[0].identity, ORDER)
        for _ in range(3):
            assert await soon(a.hub.send(Order(), callback=Price)) == Price(3)


@on_loop
async def test_5_6_an_addressed_node_gets_the_message_whatever_it_is_said_to_handle() -> None:
    async with Network().of(a=[], b=[Pricer(2)]) as (a, _):
        actor = next(iter(a.router.directory.elsewhere._nodes[b"b"].actors))
        a.router.directory.forget(b"b", actor, ORDER)  # its hub is still known, and so is the node
        request = to_message(Order()).with_receiver_node(b"b")
        assert await soon(a.hub.send(request, callback=Price)) == Price(2)


# -- 5.7 turns ---------------------------------------------------------------------------------------------------------


@on_loop
async def test_5_7_of_here_and_elsewhere_the_one_that_was_used_least_recently_is_picked() -> None:
    async with Network().of(a=[Pricer(1)], b=[Pricer(2)]) as (a, _):
        assert [(await soon(a.hub.send(Order(), callback=Price))).cents for _ in range(4)] == [1, 2, 1, 2]


@on_loop
async def test_5_7_a_full_actor_is_passed_over_for_its_sibling() -> None:
    busy, free = OneByOne(), OneByOne()
    free.gate.set()
    async with started(busy) as node:
        node.hub.try_send_one_way(Order())
        await until(lambda: busy.started)
        node.hub.try_send_one_way(Order())
        node.add(free)
        assert [await soon(node.hub.send(Order(sku), callback=Price)) for sku in range(4)] == list(map(Price, range(4)))
        busy.gate.set()


@on_loop
async def test_5_7_a_message_goes_to_the_sibling_that_has_room_however_many_have_none() -> None:
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


# -- 5.8 what comes from another node ----------------------------------------------------------------------------------


@on_loop
async def test_5_8_what_arrives_is_confirmed_by_the_node_that_has_the_actor() -> None:
    network = Network()
    listener = Listener()
    async with network.of(a=[], b=[listener]) as (a, _):
        await soon(a.hub.send(News()))
        await until(lambda: listener.heard)
        (request,), (receipt,) = network.sent_to(b"b"), network.sent_to(b"a")
    assert request.callback_point == (RECEIPT, EXCEPTION)
    assert listener.heard[0].callback_point == (EXCEPTION,)
    assert receipt.identifier == RECEIPT
    assert (receipt.receiver_node_identity, receipt.receiver_identity) == (b"a", request.callback_receiver_identity)


@on_loop
async def test_5_8_what_arrives_too_late_is_expired_and_its_caller_is_told() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer()]) as (a, b):
        promise = a.hub.try_send(Order(), callback=Price, timeout=5)
        (request,) = network.sent_to(b"b")
        b.router.receive(request.clone(ttl_ticks=-1))
        with pytest.raises(DeliveryError, match="expired: Order/1: its lifetime was over on the way"):
            await soon(promise)


@on_loop
async def test_5_8_what_arrives_for_a_full_actor_waits_for_room_and_only_so_much_of_it() -> None:
    actor = OneByOne()
    async with started(actor, settings=NodeSettings(waiting_for_room=2)) as node:
        for sku in range(6):
            node.router.receive(to_message(Order(sku)).add_hop())
            await turns(3)
        assert actor.started == 1
        assert (node.stats().waiting, node.stats().outcomes[Outcome.OVERFLOW]) == (3, 2)
        actor.gate.set()
        await until(lambda: actor.ended == 4)


@on_loop
async def test_5_8_what_arrives_keeps_its_order_while_its_actor_is_full() -> None:
    class Small(Listener):
        mailbox_capacity = 3

    small = Small()
    async with started(small) as node:
        for number in range(30):
            node.router.receive(to_message(News(str(number))).add_hop())
            if number % 4 == 0:
                await turns(1)
        await until(lambda: len(small.heard) == 30)
    assert small.texts == [str(number) for number in range(30)]


# -- 5.11 standing alone -----------------------------------------------------------------------------------------------


@on_loop
async def test_5_11_a_node_that_stands_alone_has_no_identity_and_answers_find_the_hub_all_the_same() -> None:
    outcomes: list[Settled] = []
    async with started(Pricer(4), identity=b"", on_outcome=outcomes.append) as node:
        assert await soon(node.hub.send(Order(), callback=Price)) == Price(4)
        assert await soon(node.new_hub().send(Order(), callback=Price)) == Price(4)
        await soon(node.hub.send(Order()))
    for message in (settled.message for settled in outcomes):
        assert (message.receiver_node_identity, message.callback_receiver_node_identity) == (b"", b"")


# -- 5.12 end to end ---------------------------------------------------------------------------------------------------


@on_loop
async def test_5_12_hub_on_one_node_and_actor_on_another() -> None:
    network, pricer, outcomes = Network(), Pricer(9), list[Settled]()
    async with network.node("a", on_outcome=outcomes.append) as a, network.node("b", pricer):
        network.introduce()
        promise = a.hub.try_send(Order(), callback=Price)
        hub = a.hub.identity
        assert await soon(promise) == Price(9)
        network.gone |= {b"a", b"b"}
    (request,), (reply,) = network.sent_to(b"b"), network.sent_to(b"a")
    entry_a, entry_b = (RoutingEntry(uri_of(node), node) for node in (b"a", b"b"))

    assert (request.callback_point, request.callback_key) == ((PRICE, EXCEPTION), 1)
    assert (request.callback_receiver_node_identity, request.callback_receiver_identity) == (b"a", hub)
    assert (request.receiver_node_identity, request.receiver_identity) == (b"", b"")
    assert (request.hops, request.routing) == (1, (entry_a,))

    assert (pricer.seen[0].hops, pricer.seen[0].routing) == (1, (entry_a,))

    assert (reply.receiver_node_identity, reply.receiver_identity) == (b"a", hub)
    assert (reply.callback_point, reply.callback_key) == ((PRICE, EXCEPTION), 1)
    assert (reply.hops, reply.routing) == (1, (entry_a, entry_b))
    assert reply.correlation_id == request.correlation_id == promise.message.correlation_id

    home = outcomes[-1]
    assert (home.outcome, home.receiver, home.message.routing) == (Outcome.DELIVERED, hub, (entry_a, entry_b))


@on_loop
async def test_5_12_a_flow_over_three_nodes_keeps_its_way_in_order() -> None:
    class Billing(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            return Invoice(price.cents)

    network = Network()
    async with network.of(a=[], b=[Pricer(1)], c=[Billing()]) as (a, _, _):
        await soon(a.hub.send(Order(), callback=Invoice))
        (reply,) = network.sent_to(b"a")
    assert [entry.identity for entry in reply.routing] == [b"a", b"b", b"c"]
    assert reply.hops == 1


@on_loop
async def test_5_12_many_requests_between_three_nodes_all_come_home() -> None:
    class Echo(Actor):
        @handler
        def price(self, order: Order) -> Price:
            return Price(order.sku)

    async with Network().of(a=[Echo()], b=[Echo()], c=[Echo()]) as nodes:
        promises = [node.hub.try_send(Order(sku), callback=Price) for sku in range(200) for node in nodes]
        assert [(await soon(promise)).cents for promise in promises] == [sku for sku in range(200) for _ in nodes]
        assert all(node.stats().unexpected == 0 for node in nodes)
