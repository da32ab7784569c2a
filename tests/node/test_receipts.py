"""Receipts: when a message is confirmed, and by what."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from hopline import (
    Actor,
    Context,
    DeliveryError,
    Message,
    MessageIdentifier,
    MessageOutcome,
    Outcome,
    Promise,
    handler,
    to_message,
)
from hopline.message import EXCEPTION, RECEIPT

from .links import Network
from .orders import Failing, Gated, Invoice, Listener, News, OneByOne, Order, Pricer
from .running import on_loop, soon, started, turns, until


def replies(outcomes: list[MessageOutcome]) -> list[Message]:
    return [settled.message for settled in outcomes if settled.receiver[:1] == b"\x00"]


# Protocol 4.8
@on_loop
async def test_a_local_delivery_is_confirmed_too() -> None:
    # The reference confirms only what came from another node.
    outcomes: list[MessageOutcome] = []
    listener = Listener()
    async with started(listener, on_outcome=outcomes.append) as node:
        promise: Promise[Any] = node.hub.try_send(News())
        assert promise.message.callback_point == (RECEIPT, EXCEPTION)
        assert await soon(promise) is None
        await until(lambda: listener.heard)
    (receipt,) = replies(outcomes)
    assert receipt.identifier == MessageIdentifier(b"KINO.RCPTCONFIRM", 1, b"")
    assert receipt.callback_point == (RECEIPT,)
    assert (receipt.callback_key, receipt.correlation_id) == (promise.key, promise.message.correlation_id)


# Protocol 4.8
@on_loop
async def test_the_actor_does_not_see_the_receipt_among_the_callbacks() -> None:
    listener = Listener()
    async with started(listener) as node:
        await node.hub.send(News())
        await until(lambda: listener.heard)
    assert listener.heard[0].callback_point == (EXCEPTION,)


# Protocol 4.8
@on_loop
async def test_a_receipt_is_given_on_arrival_not_after_handling() -> None:
    gated = Gated()
    async with Network().of(a=[], b=[gated]) as (a, b):
        for node in (a, b):
            await soon(node.hub.send(Order()))
        assert gated.ended == 0
        gated.gate.set()
        await until(lambda: gated.ended == 2)


# Protocol 4.8
@on_loop
async def test_a_receipt_of_another_node_says_the_way_it_went() -> None:
    network = Network()
    async with network.of(a=[], b=[Listener()]) as (a, _):
        promise = a.hub.try_send(to_message(News()).clone(trace_options=1))
        await soon(promise)
        (receipt,) = network.sent_to(b"a")
    assert receipt.identifier == RECEIPT
    assert [entry.identity for entry in receipt.routing] == [b"a", b"b"]
    assert (receipt.hops, receipt.trace_options) == (1, 1)
    assert (receipt.correlation_id, receipt.callback_key) == (promise.message.correlation_id, promise.key)


# Protocol 4.8
@on_loop
async def test_when_the_actor_fails_after_the_receipt_nobody_waits_any_more() -> None:
    failing = Failing()
    async with started(failing) as node:
        await soon(node.hub.send(Order()))
        await until(lambda: failing.calls == 1 and node.stats().unexpected == 1)


# Protocol 4.8
@on_loop
async def test_what_reaches_nobody_is_not_confirmed() -> None:
    async with started() as node:
        with pytest.raises(DeliveryError, match="unroutable"):
            await soon(node.hub.send(Order()))


# Protocol 4.8
@on_loop
async def test_a_receipt_waits_until_there_is_room_for_the_message() -> None:
    actor = OneByOne()
    async with started(actor) as node:
        await soon(node.hub.send(Order()))
        await until(lambda: actor.started)
        await soon(node.hub.send(Order()))
        third = asyncio.create_task(node.hub.send(Order()))
        await turns(10)
        assert not third.done()
        actor.gate.set()
        await soon(third)


# Protocol 4.8
@on_loop
async def test_results_of_a_confirmed_message_still_belong_to_the_flow() -> None:
    class Chatty(Actor):
        @handler
        def price(self, order: Order, context: Context) -> Iterator[News]:
            yield News("a")

    listener = Listener()
    async with started(Chatty(), listener) as node:
        promise = node.hub.try_send(Order())
        await soon(promise)
        await until(lambda: listener.heard)
    assert listener.heard[0].correlation_id == promise.message.correlation_id
    assert listener.heard[0].callback_point == (EXCEPTION,)


# Protocol 4.8
@on_loop
async def test_every_sending_has_one_outcome() -> None:
    outcomes: list[MessageOutcome] = []
    async with started(Pricer(), Listener(), Failing(), on_outcome=outcomes.append) as node:
        await node.hub.send(News())
        await node.hub.broadcast(News())
        with pytest.raises(DeliveryError):
            await node.hub.send(Invoice())
        await until(lambda: node.stats().waiting == 0)
        assert node.stats().outcomes[Outcome.DELIVERED] + node.stats().outcomes[Outcome.UNROUTABLE] == len(outcomes)
