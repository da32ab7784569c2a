"""Running handlers: in which order, what becomes of what they return, and of what goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from hopline import (
    Actor,
    ActorError,
    Context,
    Distribution,
    Message,
    MessageIdentifier,
    MessageOutcome,
    NodeSettings,
    handler,
    to_message,
)
from hopline.message import EXCEPTION, TraceOptions

from .orders import Failing, Gated, Invoice, Listener, News, Order, Price, Pricer, Saying
from .running import on_loop, soon, started, turns, until

ORDER, PRICE = MessageIdentifier(b"Order"), MessageIdentifier(b"Price")


# Protocol 3.3
@on_loop
async def test_the_handler_is_chosen_by_the_message_even_when_an_actor_is_addressed() -> None:
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


# Protocol 3.3
@on_loop
async def test_a_handler_that_returns_nothing_sends_nothing() -> None:
    listener = Listener()
    async with started(listener) as node:
        await node.hub.send_one_way(News("a"))
        await until(lambda: listener.heard)
        stats = node.stats()
    assert (stats.submitted, stats.handled, stats.handler_errors) == (1, 1, 0)


# Protocol 3.3
@on_loop
async def test_once_a_handler_waits_the_next_message_starts() -> None:
    gated = Gated()
    async with started(gated) as node:
        promises = [node.hub.try_send(Order(sku), callback=Price) for sku in range(3)]
        await until(lambda: gated.started == 3)
        assert gated.ended == 0
        gated.gate.set()
        assert [await promise for promise in promises] == [Price(0), Price(1), Price(2)]


# Protocol 3.3
@on_loop
async def test_plain_functions_take_messages_in_the_order_of_their_coming() -> None:
    listener = Listener()
    async with started(listener) as node:
        for number in range(1_000):
            await node.hub.send_one_way(News(str(number)))
        await until(lambda: len(listener.heard) == 1_000)
    assert listener.texts == [str(number) for number in range(1_000)]


# Protocol 3.3
@on_loop
async def test_every_kind_of_function_can_be_a_handler() -> None:
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


# Protocol 3.3
@on_loop
async def test_several_results_are_sent_in_their_order_and_each_belongs_to_the_flow() -> None:
    listener = Listener()
    async with started(Saying(News("a"), News("b"), Price(3), News("c")), listener) as node:
        promise = node.hub.try_send(Order(), callback=Price)
        assert await promise == Price(3)
        await until(lambda: len(listener.heard) == 3)
    assert listener.texts == ["a", "b", "c"]
    assert {message.correlation_id for message in listener.heard} == {promise.message.correlation_id}
    assert {message.callback_point for message in listener.heard} == {(PRICE, EXCEPTION)}


# Protocol 3.3
@on_loop
async def test_a_result_takes_the_correlation_id_and_the_trace_but_not_the_ttl() -> None:
    listener = Listener()
    async with started(Saying(News()), listener) as node:
        request = to_message(Order(), ttl=timedelta(seconds=60)).push_router_address("tcp://elsewhere:1", b"elsewhere")
        node.router.receive(request.add_hop())
        await until(lambda: listener.heard)
    (result,) = listener.heard
    assert result.correlation_id == request.correlation_id
    assert result.routing == request.routing
    assert (result.hops, result.ttl_ticks) == (0, 0)


# Protocol 3.3
@on_loop
async def test_a_result_takes_no_receiver_distribution_signature_or_domain_of_its_request() -> None:
    saying, listener = Saying(News()), Listener()
    async with started(saying, listener) as node:
        request = to_message(Order()).with_receiver_actor(node.identity, saying.identity)
        await node.hub.send_one_way(request.clone(signature=b"signed", domain="shop"))
        await until(lambda: listener.heard)
    (result,) = listener.heard
    assert (result.receiver_identity, result.receiver_node_identity) == (b"", b"")
    assert (result.distribution, result.signature, result.domain) == (Distribution.UNICAST, b"", "")


# Protocol 3.3
@on_loop
async def test_a_result_goes_to_whoever_waits_for_it_over_any_receiver_that_it_names() -> None:
    answer = to_message(Price(7)).with_receiver_node(b"elsewhere")
    async with started(Saying(answer)) as node:
        assert await soon(node.hub.send(Order(), callback=Price)) == Price(7)


# Protocol 3.3
@on_loop
async def test_a_broadcast_result_takes_the_flow_but_no_callback_data() -> None:
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


# Protocol 3.3
@on_loop
async def test_trace_options_of_a_result_are_its_own_or_those_of_its_request() -> None:
    listener = Listener()
    own = to_message(News()).clone(trace_options=4)
    async with started(Saying(own, News()), listener) as node:
        await node.hub.send_one_way(to_message(Order()).clone(trace_options=TraceOptions.ROUTING))
        await until(lambda: len(listener.heard) == 2)
    assert [message.trace_options for message in listener.heard] == [4 | 1, 1]


# Protocol 3.3
@on_loop
async def test_a_handler_that_is_cancelled_is_reported_as_such() -> None:
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


# Protocol 3.3
@on_loop
async def test_a_handler_that_fails_is_reported_once_and_the_next_message_is_taken() -> None:
    failing = Failing()
    outcomes: list[MessageOutcome] = []
    async with started(failing, on_outcome=outcomes.append) as node:
        for sku in range(3):
            with pytest.raises(ActorError, match=f"LookupError: .*no article {sku}"):
                await soon(node.hub.send(Order(sku), callback=Price))
        assert (node.stats().handled, node.stats().handler_errors) == (3, 3)
    assert [settled.message.identifier for settled in outcomes].count(EXCEPTION) == 3


# Protocol 3.3
@on_loop
async def test_when_one_of_several_results_makes_no_sense_none_is_sent() -> None:
    # The reference sends those before it.
    listener = Listener()
    async with started(Saying(News("a"), object(), News("b")), listener) as node:
        with pytest.raises(ActorError, match="payloads, messages or nothing"):
            await soon(node.hub.send(Order(), callback=Price))
        await turns(5)
    assert listener.heard == []


# Protocol 3.3
@on_loop
async def test_what_a_generator_yielded_before_it_failed_stays_sent() -> None:
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


# Protocol 3.3
@on_loop
async def test_a_blocking_handler_that_raises_what_no_future_can_hold_is_reported_too() -> None:
    class Exhausted(Actor):
        @handler(blocking=True)
        def price(self, order: Order) -> Price:
            return next(iter([]))  # StopIteration

        @handler
        def bill(self, price: Price) -> Invoice:
            return next(iter([]))

    async with started(Exhausted(), settings=NodeSettings(drain_timeout=0.1)) as node:
        with pytest.raises(ActorError):
            await soon(node.hub.send(Price(), callback=Invoice, timeout=0.3))
        with pytest.raises(ActorError):
            await soon(node.hub.send(Order(), callback=Price, timeout=0.3))


# Protocol 3.3
@on_loop
async def test_an_error_that_cannot_be_told_harms_only_its_own_flow(caplog: pytest.LogCaptureFixture) -> None:
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


# Protocol 3.3
@on_loop
async def test_actors_that_handle_the_same_take_turns() -> None:
    # 3.5: one host has one handler for a message, so each of them has its own.
    async with started(Pricer(1), Pricer(2), Pricer(3)) as node:
        prices = [await node.hub.send(Order(), callback=Price) for _ in range(6)]
    assert [price.cents for price in prices] == [1, 2, 3, 1, 2, 3]
