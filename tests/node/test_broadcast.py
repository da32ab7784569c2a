"""Broadcasts: who gets a copy, and what each copy looks like."""

from __future__ import annotations

from hopline import Actor, Distribution, Message, MessageOutcome, Outcome, handler, to_message
from hopline.message import RoutingEntry

from .links import Network, uri_of
from .orders import Listener, News, OneByOne, Order
from .running import on_loop, soon, started, turns, until


def broadcast(text: str = "") -> Message:
    return to_message(News(text), distribution=Distribution.BROADCAST)


# Protocol 5.4
@on_loop
async def test_a_broadcast_reaches_every_actor_of_every_node_exactly_once() -> None:
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


# Protocol 5.4
@on_loop
async def test_every_copy_of_a_broadcast_sees_the_same_hops_and_trace() -> None:
    # In the reference the k-th peer gets k hops.
    listeners = [Listener() for _ in range(4)]
    here, *there = listeners
    async with Network().of(a=[here], b=[there[0]], c=[there[1]], d=[there[2]]) as (a, *_):
        await a.hub.broadcast(News())
        await until(lambda: all(listener.heard for listener in listeners))
    assert [listener.heard[0].hops for listener in listeners] == [0, 1, 1, 1]
    assert here.heard[0].routing == ()
    assert {listener.heard[0].routing for listener in there} == {(RoutingEntry(uri_of(b"a"), b"a"),)}


# Protocol 5.4
@on_loop
async def test_a_broadcast_from_another_node_is_never_sent_on_even_when_nobody_hears_it_here() -> None:
    network = Network()
    listener = Listener()
    async with network.of(a=[], b=[listener]) as (a, _):
        a.router.receive(broadcast().add_hop())
        await turns(10)
        assert a.stats().outcomes[Outcome.UNROUTABLE] == 1
    assert (network.travelled, listener.heard) == ([], [])


# Protocol 5.4
@on_loop
async def test_a_broadcast_result_of_a_broadcast_spreads_again_for_it_starts_here() -> None:
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


# Protocol 5.4
@on_loop
async def test_a_broadcast_waits_for_nobody_and_who_misses_it_is_counted() -> None:
    class Busy(OneByOne):
        @handler
        def hear(self, news: News) -> None: ...

    busy, listener, outcomes = Busy(), Listener(), list[MessageOutcome]()
    async with started(busy, listener, on_outcome=outcomes.append) as node:
        node.hub.try_send_one_way(Order())
        await until(lambda: busy.started)
        node.hub.try_send_one_way(Order())
        await soon(node.hub.broadcast(News("now")))
        await until(lambda: listener.texts == ["now"])
        assert node.stats().outcomes[Outcome.OVERFLOW] == 1
        busy.gate.set()
    assert [s.reason for s in outcomes if s.outcome is Outcome.OVERFLOW] == ["a receiver of the broadcast has no room"]


# Protocol 5.4
@on_loop
async def test_a_broadcast_reaches_the_others_when_one_node_is_gone() -> None:
    network = Network()
    listeners = [Listener(), Listener()]
    async with network.of(a=[], b=[listeners[0]], c=[listeners[1]]) as (a, _, _):
        network.gone.add(b"b")
        await a.hub.broadcast(News("x"))
        await until(lambda: listeners[1].texts == ["x"])
        assert (a.stats().outcomes[Outcome.FAILED], a.stats().outcomes[Outcome.SENT]) == (1, 1)
    assert listeners[0].heard == []
