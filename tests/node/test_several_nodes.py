"""Flows over one, two and three nodes, from end to end."""

from __future__ import annotations

from hopline import Actor, MessageIdentifier, MessageOutcome, Outcome, handler
from hopline.message import EXCEPTION, RoutingEntry

from .links import Network, uri_of
from .orders import Invoice, Order, Price, Pricer
from .running import on_loop, soon, started

ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")


# -- standing alone ----------------------------------------------------------------------------------------------------


# Protocol 5.11
@on_loop
async def test_a_node_that_stands_alone_has_no_identity_and_answers_find_the_hub_all_the_same() -> None:
    outcomes: list[MessageOutcome] = []
    async with started(Pricer(4), identity=b"", on_outcome=outcomes.append) as node:
        assert await soon(node.hub.send(Order(), callback=Price)) == Price(4)
        assert await soon(node.new_hub().send(Order(), callback=Price)) == Price(4)
        await soon(node.hub.send(Order()))
    for message in (settled.message for settled in outcomes):
        assert (message.receiver_node_identity, message.callback_receiver_node_identity) == (b"", b"")


# -- end to end --------------------------------------------------------------------------------------------------------


# Protocol 5.12
@on_loop
async def test_hub_on_one_node_and_actor_on_another() -> None:
    network, pricer, outcomes = Network(), Pricer(9), list[MessageOutcome]()
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


# Protocol 5.12
@on_loop
async def test_a_flow_over_three_nodes_keeps_its_way_in_order() -> None:
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


# Protocol 5.12
@on_loop
async def test_many_requests_between_three_nodes_all_come_home() -> None:
    class Echo(Actor):
        @handler
        def price(self, order: Order) -> Price:
            return Price(order.sku)

    async with Network().of(a=[Echo()], b=[Echo()], c=[Echo()]) as nodes:
        promises = [node.hub.try_send(Order(sku), callback=Price) for sku in range(200) for node in nodes]
        assert [(await soon(promise)).cents for promise in promises] == [sku for sku in range(200) for _ in nodes]
        assert all(node.stats().unexpected == 0 for node in nodes)
