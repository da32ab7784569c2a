"""Promises: keys, the first answer, timeouts, cancelling."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hopline import (
    Actor,
    ActorError,
    AnswerTimeoutError,
    ArgumentError,
    Message,
    NodeSettings,
    handler,
    to_message,
)

from .orders import Failing, Gated, Invoice, Order, Price, Pricer, Saying
from .running import on_loop, soon, started, until


# Protocol 4.4
@on_loop
async def test_keys_count_from_one_on_each_hub() -> None:
    async with started(Pricer()) as node:
        assert [node.hub.try_send(Order(), callback=Price).key for _ in range(3)] == [1, 2, 3]
        assert node.new_hub().try_send(Order(), callback=Price).key == 1


# Protocol 4.4
@on_loop
async def test_hubs_of_one_node_with_the_same_key_get_their_own_answers() -> None:
    # The reference keeps one stack for all of them.
    class Echo(Actor):
        @handler
        def price(self, order: Order) -> Price:
            return Price(order.sku)

    async with started(Echo()) as node:
        hubs = [node.new_hub() for _ in range(10)]
        promises = [hub.try_send(Order(number), callback=Price) for number, hub in enumerate(hubs)]
        assert {promise.key for promise in promises} == {1}
        assert [await soon(promise) for promise in promises] == [Price(number) for number in range(10)]


# Protocol 4.4
@on_loop
async def test_an_unexpected_reply_leaves_the_promise_in_place() -> None:
    # The reference takes the key away, and the promise never completes.
    async with started(Pricer(1)) as node:
        promise = node.hub.try_send(to_message(Order()), callback=Price)
        for stray in (Message(b"Price", version=2), Message(b"Price", partition=b"eu"), Message(b"Other")):
            await node.hub.send_one_way(
                stray.clone(
                    receiver_identity=node.hub.identity,
                    receiver_node_identity=node.identity,
                    callback_key=promise.key,
                )
            )
        assert node.stats().unexpected == 3
        assert not promise.done()
        assert await soon(promise) == Price(1)


# Protocol 4.4
@on_loop
async def test_the_first_answer_wins_and_later_ones_are_counted() -> None:
    async with started(Saying(Price(1), Invoice(2), Price(3))) as node:
        assert await node.hub.send(Order(), callback=(Price, Invoice)) == Price(1)
        await until(lambda: node.stats().unexpected == 2)
        assert node.hub.waiting == 0


# Protocol 4.4
@on_loop
async def test_an_exception_fails_the_promise_with_its_text_and_type() -> None:
    async with started(Failing()) as node:
        promise = node.hub.try_send(Order(4), callback=Price)
        for _ in range(2):  # however often it is awaited
            with pytest.raises(ActorError, match="LookupError: no article 4"):
                await promise


# Protocol 4.4
@on_loop
async def test_a_promise_that_is_cancelled_leaves_no_key_behind() -> None:
    gated = Gated()
    async with started(gated) as node:
        promise = node.hub.try_send(Order(), callback=Price)
        assert node.hub.waiting == 1
        promise.cancel()
        assert node.hub.waiting == 0
        with pytest.raises(asyncio.CancelledError):
            await promise
        gated.gate.set()
        await until(lambda: node.stats().unexpected == 1)


# Protocol 4.4
@on_loop
async def test_a_caller_that_is_cancelled_leaves_no_key_behind() -> None:
    gated = Gated()
    async with started(gated) as node:
        asking = asyncio.create_task(node.hub.send(Order(), callback=Price))
        await until(lambda: gated.started)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert node.hub.waiting == 0
        gated.gate.set()


# Protocol 4.4
@on_loop
async def test_a_promise_gives_up_after_its_timeout() -> None:
    gated = Gated()
    async with started(gated) as node:
        with pytest.raises(AnswerTimeoutError, match=r"no answer to Order/1 within 0.02 s"):
            await soon(node.hub.send(Order(), callback=Price, timeout=0.02))
        with pytest.raises(TimeoutError):
            await soon(node.hub.send(Order(), callback=Price, timeout=timedelta(milliseconds=20)))
        assert node.hub.waiting == 0
        gated.gate.set()


# Protocol 4.4
@on_loop
async def test_without_a_timeout_a_promise_lives_as_long_as_its_message_or_as_the_node_says() -> None:
    gated = Gated()
    async with started(gated, settings=NodeSettings(request_timeout=0.03)) as node:
        message = to_message(Order(), ttl=timedelta(seconds=0.02))
        with pytest.raises(AnswerTimeoutError, match=r"within 0.02 s"):
            await soon(node.hub.send(message, callback=Price))
        with pytest.raises(AnswerTimeoutError, match=r"within 0.03 s"):
            await soon(node.hub.send(Order(), callback=Price))
        gated.gate.set()


# Protocol 4.4
@on_loop
async def test_a_payload_lives_as_long_as_its_sender_waits() -> None:
    async with started(Pricer()) as node:
        assert node.hub.try_send(Order(), callback=Price, timeout=1.5).message.ttl_ticks == 15_000_000
        assert node.hub.try_send(Order(), callback=Price, timeout=float("inf")).message.ttl_ticks == 0
        with pytest.raises(ArgumentError, match="timeout"):
            node.hub.try_send(Order(), callback=Price, timeout=-1)
