"""Section 3 of the protocol: what an actor is, which handler gets a message, what becomes of its results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import timedelta

import msgspec
import pytest

from hopline import (
    Actor,
    ActorError,
    Context,
    DeliveryError,
    Distribution,
    HandlerDefinition,
    LocalError,
    Message,
    MessageIdentifier,
    Node,
    NodeSettings,
    Outcome,
    Settled,
    TraceOptions,
    WireFormat,
    handler,
    payload,
    to_message,
)
from hopline.actors import handler_map
from hopline.message import EXCEPTION, ExceptionReport

from .links import Network, advertised
from .orders import Failing, Gated, Invoice, Listener, News, Order, Price, Pricer, Saying
from .running import on_loop, soon, started, turns, until

ORDER, PRICE = MessageIdentifier(b"Order"), MessageIdentifier(b"Price")


@payload("RATE", version=2, partition=b"eu")
class Rate(msgspec.Struct):
    percent: int = 0


class Seller(Actor):
    @handler
    def price(self, order: Order) -> Price:
        return Price(order.sku)

    @handler
    def _bill(self, price: Price) -> Invoice:
        return Invoice(price.cents)


class Discounter(Seller):
    def price(self, order: Order) -> Price:
        return Price(order.sku // 2)

    @handler
    def rate(self, rate: Rate) -> None: ...


# -- 3.1 definition ----------------------------------------------------------------------------------------------------


def test_3_1_an_actor_has_an_identity_of_its_own_of_01_and_a_guid() -> None:
    one, other = Seller(), Seller()
    assert len(one.identity) == 37
    assert one.identity[:1] == b"\x01"
    assert one.identity == one.identity != other.identity


def test_3_1_handlers_are_found_on_the_class_and_on_its_bases_public_or_not() -> None:
    assert set(handler_map(Seller())) == {ORDER, PRICE}
    assert set(handler_map(Discounter())) == {ORDER, PRICE, MessageIdentifier(b"RATE", 2, b"eu")}


@on_loop
async def test_3_1_a_method_that_overrides_a_handler_is_the_handler() -> None:
    async with started(Discounter()) as node:
        assert await node.hub.send(Order(10), callback=Price) == Price(5)


def test_3_1_a_handler_is_for_the_empty_partition_unless_its_payload_or_its_decorator_names_one() -> None:
    class Partitioned(Actor):
        @handler(Order, partition=b"us")
        def american(self, message: Message) -> None: ...

        @handler(Rate, partition=b"")
        def everywhere(self, message: Message) -> None: ...

    assert set(handler_map(Partitioned())) == {MessageIdentifier(b"Order", 1, b"us"), MessageIdentifier(b"RATE", 2)}


@on_loop
async def test_3_1_an_actor_may_bind_its_handlers_to_a_partition_of_its_own() -> None:
    class Regional(Pricer):
        def __init__(self, region: bytes, cents: int) -> None:
            super().__init__(cents)
            self.region = region

        def definitions(self) -> Iterable[HandlerDefinition]:
            return [definition.bound_to(self.region) for definition in super().definitions()]

    async with started(Regional(b"eu", 1), Regional(b"us", 2)) as node:
        for region, cents in ((b"eu", 1), (b"us", 2), (b"us", 2)):
            request = to_message(Order(), partition=region)
            assert await node.hub.send(request, callback=Price) == Price(cents)
        with pytest.raises(DeliveryError, match="unroutable"):
            await node.hub.send(Order(), callback=Price)


def test_3_1_keep_local_is_off_unless_told() -> None:
    class Shy(Actor):
        @handler
        def order(self, order: Order) -> None: ...

        @handler(keep_local=True)
        def price(self, price: Price) -> None: ...

    handlers = handler_map(Shy())
    assert (handlers[ORDER].keep_local, handlers[PRICE].keep_local) == (False, True)


# -- 3.2 handler map ---------------------------------------------------------------------------------------------------


@on_loop
async def test_3_2_the_handler_is_found_by_identity_version_and_partition_together() -> None:
    class Versions(Actor):
        @handler(MessageIdentifier(b"RATE", 1, b"eu"))
        def first(self, message: Message) -> Price:
            return Price(1)

        @handler(MessageIdentifier(b"RATE", 2, b""))
        def everywhere(self, message: Message) -> Price:
            return Price(2)

        @handler
        def rate(self, rate: Rate) -> Price:
            return Price(3)

    async with started(Versions()) as node:
        for identifier, cents in (((1, b"eu"), 1), ((2, b""), 2), ((2, b"eu"), 3)):
            version, partition = identifier
            request = to_message(Rate()).clone(version=version, partition=partition)
            assert await node.hub.send(request, callback=Price) == Price(cents)


@on_loop
async def test_3_2_an_actor_with_two_handlers_for_one_message_is_refused_as_a_whole() -> None:
    class Torn(Actor):
        @handler
        def bill(self, price: Price) -> Invoice:
            return Invoice(1)

        @handler
        def one(self, order: Order) -> None: ...

        @handler
        def other(self, order: Order) -> None: ...

    with pytest.raises(LocalError, match="one handler for Order/1"):
        Node(Torn())
    async with started() as node:
        with pytest.raises(LocalError, match=r"Torn: expected one handler for Order/1"):
            node.add(Torn())
        with pytest.raises(DeliveryError, match="unroutable"):
            await node.hub.send(Price(), callback=Invoice)


@on_loop
async def test_3_2_an_actor_without_handlers_is_legal() -> None:
    async with started(Actor(), Pricer()) as node:
        assert await node.hub.send(Order(), callback=Price) == Price(100)


@on_loop
async def test_3_2_an_actor_that_is_on_the_node_already_is_refused() -> None:
    pricer = Pricer()
    async with started(pricer) as node:
        with pytest.raises(LocalError, match="not on this node already"):
            node.add(pricer)


@on_loop
async def test_3_2_a_message_that_its_actor_does_not_handle_is_reported_to_the_caller() -> None:
    # Only the first format addresses an actor whatever it handles; the others do not get that far.
    pricer = Pricer()
    async with started(pricer) as node:
        astray = to_message(News()).clone(receiver_identity=pricer.identity, wire_format=WireFormat.FIRST)
        with pytest.raises(ActorError, match="a message that it handles, found 'News/1'"):
            await soon(node.hub.send(astray, callback=Price))
        assert await node.hub.send(Order(), callback=Price) == Price(100)


# -- 3.3 host and results ----------------------------------------------------------------------------------------------


@on_loop
async def test_3_3_the_handler_is_chosen_by_the_message_even_when_an_actor_is_addressed() -> None:
    class Both(Pricer):
        @handler
        def bill(self, price: Price) -> Invoice:
            return Invoice(price.cents)

    both = Both()
    async with started(both, Pricer(1)) as node:
        for _ in range(3):
            ordered = to_message(Order()).with_receiver_actor(node.identity, both.identity)
            assert await node.hub.send(ordered, callback=Price) == Price(100)
            billed = to_message(Price(7)).with_receiver_actor(node.identity, both.identity)
            assert await node.hub.send(billed, callback=Invoice) == Invoice(7)


@on_loop
async def test_3_3_a_handler_that_returns_nothing_sends_nothing() -> None:
    listener = Listener()
    async with started(listener) as node:
        await node.hub.send_one_way(News("a"))
        await until(lambda: listener.heard)
        stats = node.stats()
    assert (stats.submitted, stats.handled, stats.handler_errors) == (1, 1, 0)


@on_loop
async def test_3_3_once_a_handler_waits_the_next_message_starts() -> None:
    gated = Gated()
    async with started(gated) as node:
        promises = [node.hub.try_send(Order(sku), callback=Price) for sku in range(3)]
        await until(lambda: gated.started == 3)
        assert gated.ended == 0
        gated.gate.set()
        assert [await promise for promise in promises] == [Price(0), Price(1), Price(2)]


@on_loop
async def test_3_3_plain_functions_take_messages_in_the_order_of_their_coming() -> None:
    listener = Listener()
    async with started(listener) as node:
        for number in range(1_000):
            await node.hub.send_one_way(News(str(number)))
        await until(lambda: len(listener.heard) == 1_000)
    assert listener.texts == [str(number) for number in range(1_000)]


@on_loop
async def test_3_3_every_kind_of_function_can_be_a_handler() -> None:
    class Kinds(Actor):
        @handler(Order, partition=b"plain")
        def plain(self, message: Message) -> Price:
            return Price(1)

        @handler(Order, partition=b"async")
        async def waiting(self, message: Message) -> Price:
            await asyncio.sleep(0)
            return Price(2)

        @handler(Order, partition=b"generator")
        def yielding(self, message: Message) -> Iterator[Price]:
            yield Price(3)

        @handler(Order, partition=b"async generator")
        async def yielding_later(self, message: Message) -> AsyncIterator[Price]:
            await asyncio.sleep(0)
            yield Price(4)

        @handler(Order, partition=b"blocking", blocking=True)
        def in_thread(self, message: Message) -> Price:
            return Price(5)

        @handler(Order, partition=b"blocking generator", blocking=True)
        def yielding_in_thread(self, message: Message) -> Iterator[Price]:
            yield Price(6)

        @handler(Order, partition=b"context")
        async def with_context(self, message: Message, context: Context) -> None:
            await context.send(Price(7))

        @handler(Order, partition=b"message")
        def whole(self, message: Message) -> Message:
            return to_message(Price(8))

        @handler(Order, partition=b"blocking context", blocking=True)
        def from_thread(self, message: Message, context: Context) -> None:
            context.wait(context.send(Price(9)))

    kinds = b"plain,async,generator,async generator,blocking,blocking generator,context,message,blocking context"
    async with started(Kinds()) as node:
        for cents, kind in enumerate(kinds.split(b","), 1):
            assert await soon(node.hub.send(to_message(Order(), partition=kind), callback=Price)) == Price(cents)


@on_loop
async def test_3_3_several_results_are_sent_in_their_order_and_each_belongs_to_the_flow() -> None:
    listener = Listener()
    async with started(Saying(News("a"), News("b"), Price(3), News("c")), listener) as node:
        promise = node.hub.try_send(Order(), callback=Price)
        assert await promise == Price(3)
        await until(lambda: len(listener.heard) == 3)
    assert listener.texts == ["a", "b", "c"]
    assert {message.correlation_id for message in listener.heard} == {promise.message.correlation_id}
    assert {message.callback_point for message in listener.heard} == {(PRICE, EXCEPTION)}


@on_loop
async def test_3_3_a_result_takes_the_correlation_id_and_the_trace_but_not_the_ttl() -> None:
    listener = Listener()
    async with started(Saying(News()), listener) as node:
        request = to_message(Order(), ttl=timedelta(seconds=60)).push_router_address("tcp://elsewhere:1", b"elsewhere")
        node.router.receive(request.add_hop())
        await until(lambda: listener.heard)
    (result,) = listener.heard
    assert result.correlation_id == request.correlation_id
    assert result.routing == request.routing
    assert (result.hops, result.ttl_ticks) == (0, 0)


@on_loop
async def test_3_3_a_result_takes_no_receiver_distribution_signature_or_domain_of_its_request() -> None:
    saying, listener = Saying(News()), Listener()
    async with started(saying, listener) as node:
        request = to_message(Order()).with_receiver_actor(node.identity, saying.identity)
        await node.hub.send_one_way(request.clone(signature=b"signed", domain="shop"))
        await until(lambda: listener.heard)
    (result,) = listener.heard
    assert (result.receiver_identity, result.receiver_node_identity) == (b"", b"")
    assert (result.distribution, result.signature, result.domain) == (Distribution.UNICAST, b"", "")


@on_loop
async def test_3_3_a_result_goes_to_whoever_waits_for_it_over_any_receiver_that_it_names() -> None:
    answer = to_message(Price(7)).with_receiver_node(b"elsewhere")
    async with started(Saying(answer)) as node:
        assert await soon(node.hub.send(Order(), callback=Price)) == Price(7)


@on_loop
async def test_3_3_a_broadcast_result_takes_the_flow_but_no_callback_data() -> None:
    listener = Listener()
    news = to_message(News(), distribution=Distribution.BROADCAST)
    async with started(Saying(news, Price(1)), listener) as node:
        promise = node.hub.try_send(Order(), callback=[News, Price])
        assert await promise == Price(1)  # although news are waited for too, a broadcast is not brought home
        await until(lambda: listener.heard)
    (heard,) = listener.heard
    assert heard.correlation_id == promise.message.correlation_id
    assert (heard.callback_point, heard.callback_key) == ((), 0)
    assert (heard.callback_receiver_identity, heard.callback_receiver_node_identity) == (b"", b"")


@on_loop
async def test_3_3_trace_options_of_a_result_are_its_own_or_those_of_its_request() -> None:
    listener = Listener()
    own = to_message(News()).clone(trace_options=4)
    async with started(Saying(own, News()), listener) as node:
        await node.hub.send_one_way(to_message(Order()).clone(trace_options=TraceOptions.ROUTING))
        await until(lambda: len(listener.heard) == 2)
    assert [message.trace_options for message in listener.heard] == [4 | 1, 1]


@on_loop
async def test_3_3_a_handler_that_is_cancelled_is_reported_as_such() -> None:
    class Cancelled(Actor):
        @handler
        async def price(self, order: Order) -> Price:
            raise asyncio.CancelledError

        @handler
        def bill(self, price: Price) -> Invoice:
            raise asyncio.CancelledError

    async with started(Cancelled()) as node:
        for content in (Order(), Price()):
            with pytest.raises(ActorError, match="was stopped before it ended") as error:
                await soon(node.hub.send(content, callback=Invoice))
            assert error.value.type_name == "hopline.actors.host.HandlerCancelledError"


@on_loop
async def test_3_3_a_handler_that_fails_is_reported_once_and_the_next_message_is_taken() -> None:
    failing = Failing()
    outcomes: list[Settled] = []
    async with started(failing, on_outcome=outcomes.append) as node:
        for sku in range(3):
            with pytest.raises(ActorError, match=f"LookupError: .*no article {sku}"):
                await soon(node.hub.send(Order(sku), callback=Price))
        assert (node.stats().handled, node.stats().handler_errors) == (3, 3)
    assert [settled.message.identifier for settled in outcomes].count(EXCEPTION) == 3


@on_loop
async def test_3_3_when_one_of_several_results_makes_no_sense_none_is_sent() -> None:
    # The reference sends those before it.
    listener = Listener()
    async with started(Saying(News("a"), object(), News("b")), listener) as node:
        with pytest.raises(ActorError, match="payloads, messages or nothing"):
            await soon(node.hub.send(Order(), callback=Price))
        await turns(5)
    assert listener.heard == []


@on_loop
async def test_3_3_what_a_generator_yielded_before_it_failed_stays_sent() -> None:
    class HalfWay(Actor):
        @handler
        def price(self, order: Order) -> Iterator[News]:
            yield News("sent")
            raise LookupError("half way")

        @handler
        async def bill(self, price: Price) -> AsyncIterator[News]:
            yield News("sent")
            raise LookupError("half way")

    listener = Listener()
    async with started(HalfWay(), listener) as node:
        for content in (Order(), Price()):
            with pytest.raises(ActorError, match="half way"):
                await soon(node.hub.send(content, callback=Invoice))
        await until(lambda: listener.texts == ["sent", "sent"])


@on_loop
async def test_3_3_a_blocking_handler_that_raises_what_no_future_can_hold_is_reported_too() -> None:
    class Exhausted(Actor):
        @handler(blocking=True)
        def price(self, order: Order) -> Price:
            return next(iter([]))  # StopIteration

        @handler
        def bill(self, price: Price) -> Invoice:
            return next(iter([]))

    async with started(Exhausted(), settings=NodeSettings(drain_time=0.1)) as node:
        with pytest.raises(ActorError):
            await soon(node.hub.send(Price(), callback=Invoice, timeout=0.3))
        with pytest.raises(ActorError):
            await soon(node.hub.send(Order(), callback=Price, timeout=0.3))


@on_loop
async def test_3_3_an_error_that_cannot_be_told_harms_only_its_own_flow(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="hopline.actors")  # the log has its own way with such errors

    class UnspeakableError(Exception):
        def __str__(self) -> str:
            raise LookupError("no words")

    class Unspeakable(Pricer):
        @handler
        def bill(self, price: Price) -> Invoice:
            raise UnspeakableError

    async with started(Unspeakable()) as node:
        failed = node.hub.try_send(Price(), callback=Invoice, timeout=0.3)
        next_one = node.hub.try_send(Order(), callback=Price, timeout=0.3)
        assert await soon(next_one) == Price(100)
        with pytest.raises(ActorError, match="UnspeakableError"):
            await soon(failed)


@on_loop
async def test_3_3_actors_that_handle_the_same_take_turns() -> None:
    # 3.5: one host has one handler for a message, so each of them has its own.
    async with started(Pricer(1), Pricer(2), Pricer(3)) as node:
        prices = [await node.hub.send(Order(), callback=Price) for _ in range(6)]
    assert [price.cents for price in prices] == [1, 2, 3, 1, 2, 3]


# -- 3.4 exceptions ----------------------------------------------------------------------------------------------------


@on_loop
async def test_3_4_an_exception_message_tells_text_and_full_type_and_belongs_to_the_flow() -> None:
    outcomes: list[Settled] = []
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


@on_loop
async def test_3_4_an_exception_that_nobody_waits_for_goes_to_the_actor_that_handles_exceptions() -> None:
    undertaker = Undertaker()
    request = to_message(Order(7)).push_router_address("tcp://elsewhere:1", b"elsewhere")
    async with started(Failing(), undertaker) as node:
        node.router.receive(request.add_hop())
        await until(lambda: undertaker.reports)
    ((message, report),) = undertaker.reports
    assert (report.text, report.type_name) == ("no article 7", "LookupError")
    assert (message.correlation_id, message.routing) == (request.correlation_id, request.routing)
    assert (message.receiver_identity, message.receiver_node_identity) == (b"", b"")


@on_loop
async def test_3_4_an_exception_that_somebody_waits_for_does_not_go_to_the_actor_that_handles_exceptions() -> None:
    undertaker = Undertaker()
    async with started(Failing(), undertaker) as node:
        with pytest.raises(ActorError):
            await soon(node.hub.send(Order(), callback=Price))
        await turns(5)
    assert undertaker.reports == []


@on_loop
async def test_3_4_an_exception_that_nobody_handles_at_all_is_counted() -> None:
    outcomes: list[Settled] = []
    async with started(Failing(), on_outcome=outcomes.append) as node:
        await node.hub.send_one_way(Order())
        await until(lambda: len(outcomes) == 2)
    assert [(settled.message.identifier, settled.outcome) for settled in outcomes] == [
        (ORDER, Outcome.DELIVERED),
        (EXCEPTION, Outcome.UNROUTABLE),
    ]


@on_loop
async def test_3_4_an_actor_that_fails_over_an_exception_is_not_given_its_own_failure_for_ever() -> None:
    class Hopeless(Actor):
        calls = 0

        @handler(EXCEPTION)
        def bury(self, message: Message) -> None:
            self.calls += 1
            raise LookupError("again")

    hopeless = Hopeless()
    async with started(Failing(), hopeless, settings=NodeSettings(drain_time=0.0)) as node:
        await node.hub.send_one_way(Order())
        await until(lambda: hopeless.calls)
        await turns(50)
        assert hopeless.calls < 10


@on_loop
async def test_3_4_an_exception_that_cannot_be_read_becomes_a_report_of_just_that() -> None:
    class Garbled(Actor):
        @handler
        def price(self, order: Order) -> Message:
            return Message.create(EXCEPTION.identity, b"\xff\xff\xff\xffnot BSON")

    async with started(Garbled()) as node:
        with pytest.raises(ActorError, match="an exception message that cannot be read"):
            await soon(node.hub.send(Order(), callback=Price))


@on_loop
async def test_3_4_a_body_that_is_not_its_kind_is_an_exception_to_the_caller() -> None:
    async with started(Seller()) as node:
        with pytest.raises(ActorError, match=r"PayloadError: not a Order"):
            await soon(node.hub.send(Message.flow_start(b"Order", b"\xc1"), callback=Price))


# -- 3.6 keep local ----------------------------------------------------------------------------------------------------


class Secretive(Actor):
    @handler(keep_local=True)
    def price(self, order: Order) -> Price:
        return Price(1)

    @handler
    def bill(self, price: Price) -> Invoice:
        return Invoice(2)


@on_loop
async def test_3_6_what_is_kept_local_is_handled_here_and_never_advertised() -> None:
    secretive = Secretive()
    async with started(secretive) as node:
        assert await node.hub.send(Order(), callback=Price) == Price(1)
        routes = {route.identifier for route in advertised(node) if route.receiver == secretive.identity}
    assert routes == {PRICE}


@on_loop
async def test_3_6_what_is_kept_local_is_out_of_reach_for_other_nodes() -> None:
    async with Network().of(a=[], b=[Secretive()]) as (a, b):
        assert await soon(a.hub.send(Price(), callback=Invoice)) == Invoice(2)
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(a.hub.send(Order(), callback=Price))
        assert await soon(b.hub.send(Order(), callback=Price)) == Price(1)


def test_3_6_keep_local_is_told_for_each_message_of_a_method() -> None:
    class Half(Actor):
        @handler(ORDER, keep_local=True)
        @handler(PRICE)
        def either(self, message: Message) -> None: ...

    handlers = handler_map(Half())
    assert {identifier: one.keep_local for identifier, one in handlers.items()} == {ORDER: True, PRICE: False}
