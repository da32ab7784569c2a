"""Replies: how they find their hub and their request, in every format."""

from __future__ import annotations

import pytest

from hopline import (
    Actor,
    ActorError,
    Message,
    MessageIdentifier,
    MessageOutcome,
    WireFormat,
    handler,
    to_message,
)

from .links import Network, introduce
from .orders import Gated, Invoice, Order, Price, Pricer
from .running import on_loop, soon, started, until

PRICE, INVOICE = MessageIdentifier(b"Price"), MessageIdentifier(b"Invoice")


def replies(outcomes: list[MessageOutcome]) -> list[Message]:
    return [settled.message for settled in outcomes if settled.receiver[:1] == b"\x00"]


# -- replies -----------------------------------------------------------------------------------------------------------


# Protocol 4.5
@on_loop
async def test_a_reply_finds_the_hub_on_the_node_that_it_names() -> None:
    outcomes: list[MessageOutcome] = []
    async with started(Pricer(), on_outcome=outcomes.append) as node:
        hub = node.new_hub()
        await hub.send(Order(), callback=Price)
        (reply,) = replies(outcomes)
        assert (reply.receiver_identity, reply.receiver_node_identity) == (hub.identity, node.identity)


# Protocol 4.5
@on_loop
async def test_a_reply_of_another_node_comes_home() -> None:
    async with Network().of(a=[], b=[Pricer(3)], c=[]) as (a, b, c):
        for node in (a, b, c):
            assert await soon(node.hub.send(Order(), callback=Price)) == Price(3)


# Protocol 4.5
@on_loop
async def test_a_reply_passes_through_actors_that_know_nothing_of_it() -> None:
    class Billing(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            return Invoice(price.cents + 1)

    async with Network().of(a=[], b=[Pricer(3)], c=[Billing()]) as (a, _, _):
        assert await soon(a.hub.send(Order(), callback=Invoice)) == Invoice(4)


# Protocol 4.5
@on_loop
async def test_a_reply_waits_for_its_node_to_become_known() -> None:
    # The reference drops it. It is parked while discovery runs.
    network = Network()
    sought: list[Message] = []
    async with network.node("a") as a, network.node("b", Pricer(3), discover=sought.append) as b:
        introduce(b, to=a)
        promise = a.hub.try_send(Order(), callback=Price)
        await until(lambda: sought)
        assert [message.identifier for message in sought] == [PRICE]
        assert not promise.done()
        introduce(a, to=b)
        assert await soon(promise) == Price(3)
        network.gone |= {b"a", b"b"}


# -- exceptions surfacing ----------------------------------------------------------------------------------------------


# Protocol 4.6
@on_loop
async def test_an_exception_surfaces_without_being_asked_for_wherever_it_was_raised() -> None:
    class Refusing(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            raise PermissionError("no credit")

    async with Network().of(a=[], b=[Pricer()], c=[Refusing()]) as (a, _, _):
        with pytest.raises(ActorError, match="PermissionError: no credit"):
            await soon(a.hub.send(Order(), callback=Invoice))


# -- the first format --------------------------------------------------------------------------------------------------


# Protocol 4.7
@on_loop
async def test_an_answer_of_the_first_format_is_found_by_its_flow_for_it_carries_no_key() -> None:
    network = Network(WireFormat.FIRST)
    async with network.of(a=[], b=[Pricer(3)]) as (a, _):
        one, other = (a.hub.try_send(Order(), callback=Price) for _ in range(2))
        assert [await soon(one), await soon(other)] == [Price(3), Price(3)]
        answers = network.sent_to(b"a")
        assert {message.callback_key for message in answers} == {0}
        assert [message.correlation_id for message in answers] == [
            one.message.correlation_id,
            other.message.correlation_id,
        ]


# Protocol 4.7
@on_loop
async def test_requests_of_one_flow_in_the_first_format_get_each_what_they_wait_for() -> None:
    # The reference drops the second request.
    class Billing(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            return Invoice(price.cents)

    async with Network(WireFormat.FIRST).of(a=[], b=[Pricer(3), Billing()]) as (a, _):
        one = a.hub.try_send(to_message(Order(), correlation_id=b"flow"), callback=Price, timeout=0.3)
        other = a.hub.try_send(to_message(Price(7), correlation_id=b"flow"), callback=Invoice, timeout=0.3)
        assert [await soon(one), await soon(other)] == [Price(3), Invoice(7)]


# Protocol 4.7
@on_loop
async def test_a_later_request_of_one_flow_is_answered_first_in_the_first_format() -> None:
    class Billing(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            return Invoice(price.cents)

    gated = Gated()
    async with Network(WireFormat.FIRST).of(a=[], b=[gated, Billing()]) as (a, _):
        one = a.hub.try_send(to_message(Order(3), correlation_id=b"flow"), callback=Price, timeout=1)
        await until(lambda: gated.started)
        other = a.hub.try_send(to_message(Price(7), correlation_id=b"flow"), callback=Invoice, timeout=0.3)
        assert await soon(other) == Invoice(7)
        gated.gate.set()
        assert await soon(one) == Price(3)
