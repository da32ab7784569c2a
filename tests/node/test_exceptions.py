"""Exceptions of handlers: what is reported, and to whom."""

from __future__ import annotations

import pytest

from hopline import (
    Actor,
    ActorError,
    Distribution,
    Message,
    MessageIdentifier,
    MessageOutcome,
    NodeSettings,
    Outcome,
    handler,
    to_message,
)
from hopline.message import EXCEPTION, ExceptionReport

from .orders import Failing, Invoice, Order, Price
from .running import on_loop, soon, started, turns, until

ORDER, PRICE = MessageIdentifier(b"Order"), MessageIdentifier(b"Price")


class Seller(Actor):
    @handler
    def price(self, order: Order) -> Price:
        return Price(order.sku)

    @handler
    def _bill(self, price: Price) -> Invoice:
        return Invoice(price.cents)


# Protocol 3.4
@on_loop
async def test_an_exception_message_tells_text_and_full_type_and_belongs_to_the_flow() -> None:
    outcomes: list[MessageOutcome] = []
    async with started(Failing(), on_outcome=outcomes.append) as node:
        promise = node.hub.try_send(Order(7), callback=Price)
        with pytest.raises(ActorError) as error:
            await promise
    assert (error.value.type_name, error.value.text) == ("LookupError", "no article 7")
    (report,) = [settled.message for settled in outcomes if settled.message.identifier == EXCEPTION]
    assert report.identifier == MessageIdentifier(b"KINO.EXCEPTION", 1, b"")
    assert report.distribution == Distribution.UNICAST
    assert report.correlation_id == promise.message.correlation_id
    assert (report.callback_point, report.callback_key) == ((PRICE, EXCEPTION), promise.key)


class Undertaker(Actor):
    def __init__(self) -> None:
        self.reports: list[tuple[Message, ExceptionReport]] = []

    @handler(EXCEPTION, keep_local=True)
    def bury(self, message: Message) -> None:
        self.reports.append((message, ExceptionReport.from_body(message.body)))


# Protocol 3.4
@on_loop
async def test_an_exception_that_nobody_waits_for_goes_to_the_actor_that_handles_exceptions() -> None:
    undertaker = Undertaker()
    request = to_message(Order(7)).push_router_address("tcp://elsewhere:1", b"elsewhere")
    async with started(Failing(), undertaker) as node:
        node.router.receive(request.add_hop())
        await until(lambda: undertaker.reports)
    ((message, report),) = undertaker.reports
    assert (report.text, report.type_name) == ("no article 7", "LookupError")
    assert (message.correlation_id, message.routing) == (request.correlation_id, request.routing)
    assert (message.receiver_identity, message.receiver_node_identity) == (b"", b"")


# Protocol 3.4
@on_loop
async def test_an_exception_that_somebody_waits_for_does_not_go_to_the_actor_that_handles_exceptions() -> None:
    undertaker = Undertaker()
    async with started(Failing(), undertaker) as node:
        with pytest.raises(ActorError):
            await soon(node.hub.send(Order(), callback=Price))
        await turns(5)
    assert undertaker.reports == []


# Protocol 3.4
@on_loop
async def test_an_exception_that_nobody_handles_at_all_is_counted() -> None:
    outcomes: list[MessageOutcome] = []
    async with started(Failing(), on_outcome=outcomes.append) as node:
        await node.hub.send_one_way(Order())
        await until(lambda: len(outcomes) == 2)
    assert [(settled.message.identifier, settled.outcome) for settled in outcomes] == [
        (ORDER, Outcome.DELIVERED),
        (EXCEPTION, Outcome.UNROUTABLE),
    ]


# Protocol 3.4
@on_loop
async def test_an_actor_that_fails_over_an_exception_is_not_given_its_own_failure_for_ever() -> None:
    class Hopeless(Actor):
        calls = 0

        @handler(EXCEPTION)
        def bury(self, message: Message) -> None:
            self.calls += 1
            raise LookupError("again")

    hopeless = Hopeless()
    async with started(Failing(), hopeless, settings=NodeSettings(drain_timeout=0.0)) as node:
        await node.hub.send_one_way(Order())
        await until(lambda: hopeless.calls)
        await turns(50)
        assert hopeless.calls < 10


# Protocol 3.4
@on_loop
async def test_an_exception_that_cannot_be_read_becomes_a_report_of_just_that() -> None:
    class Garbled(Actor):
        @handler
        def price(self, order: Order) -> Message:
            return Message.create(EXCEPTION.identity, b"\xff\xff\xff\xffnot BSON")

    async with started(Garbled()) as node:
        with pytest.raises(ActorError, match="an exception message that cannot be read"):
            await soon(node.hub.send(Order(), callback=Price))


# Protocol 3.4
@on_loop
async def test_a_body_that_is_not_its_kind_is_an_exception_to_the_caller() -> None:
    async with started(Seller()) as node:
        with pytest.raises(ActorError, match=r"PayloadError: not a valid Order"):
            await soon(node.hub.send(Message.flow_start(b"Order", b"\xc1"), callback=Price))
