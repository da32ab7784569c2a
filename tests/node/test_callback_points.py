"""Callback points: what a request says about the answers that it waits for."""

from __future__ import annotations

import msgspec
import pytest

from hopline import (
    Actor,
    ArgumentError,
    Message,
    MessageIdentifier,
    from_message,
    handler,
    payload,
    to_message,
)
from hopline.message import EXCEPTION

from .orders import Invoice, Order, Price, Pricer, Saying
from .running import on_loop, soon, started

PRICE, INVOICE = MessageIdentifier(b"Price"), MessageIdentifier(b"Invoice")


# Protocol 4.3
@on_loop
async def test_the_message_carries_the_callbacks_with_the_exception_last_and_who_waits() -> None:
    pricer = Pricer()
    async with started(pricer) as node:
        promise = node.hub.try_send(Order(), callback=[Price, Invoice])
        await promise
        (message,) = pricer.seen
        assert message.callback_point == (PRICE, INVOICE, EXCEPTION)
        assert message.callback_receiver_identity == node.hub.identity
        assert message.callback_receiver_node_identity == node.identity
        assert message.callback_key == promise.key


# Protocol 4.3
@on_loop
async def test_the_exception_is_not_added_twice_and_a_callback_named_twice_counts_once() -> None:
    # The reference refuses to send in either case, and its promise hangs.
    pricer = Pricer()
    async with started(pricer) as node:
        await soon(node.hub.send(Order(), callback=[EXCEPTION, Price, Price]))
        assert pricer.seen[0].callback_point == (EXCEPTION, PRICE)


# Protocol 4.3
@on_loop
async def test_a_message_of_the_callers_own_is_not_changed() -> None:
    # The reference writes the callback into the caller's object.
    async with started(Pricer()) as node:
        request = to_message(Order())
        before = request.clone()
        await node.hub.send(request, callback=Price)
        assert request == before
        assert await node.hub.send(request, callback=Price) == Price(100)


# Protocol 4.3
@on_loop
async def test_registering_replaces_the_callback_point_that_a_message_had() -> None:
    pricer = Pricer()
    async with started(pricer) as node:
        request = to_message(Order()).register_callback_point(b"elsewhere", b"\x00other", [INVOICE], 77)
        assert await soon(node.hub.send(request, callback=Price)) == Price(100)
        assert pricer.seen[0].callback_point == (PRICE, EXCEPTION)


# Protocol 4.3
@on_loop
async def test_a_message_that_is_its_own_callback_goes_straight_back_to_its_hub() -> None:
    pricer = Pricer()
    async with started(pricer) as node:
        assert await soon(node.hub.send(to_message(Order(5)), callback=Order)) == Order(5)
        elsewhere = to_message(Order(6)).with_receiver_node(b"elsewhere")
        assert await soon(node.hub.send(elsewhere, callback=Order)) == Order(6)
    assert pricer.seen == []


@payload("RATE", version=3, partition=b"eu")
class Rate(msgspec.Struct):
    percent: int = 0


# Protocol 4.3
@on_loop
async def test_a_callback_class_stands_for_its_version_and_its_partition_too() -> None:
    # The reference takes the empty partition whatever the class says.
    class NearMisses(Actor):
        @handler(MessageIdentifier(b"RATE", 2, b"eu"))
        @handler(MessageIdentifier(b"RATE", 3, b"us"))
        @handler(MessageIdentifier(b"RATE", 3))
        def take(self, message: Message) -> None: ...

    near_misses = [
        to_message(Rate(1)).clone(version=2),
        to_message(Rate(1), partition=b"us"),
        to_message(Rate(1), partition=b""),
    ]
    saying = Saying(*near_misses, Rate(3))
    async with started(saying, NearMisses()) as node:
        assert await soon(node.hub.send(Order(), callback=Rate)) == Rate(3)
        assert saying.seen[0].callback_point == (MessageIdentifier(b"RATE", 3, b"eu"), EXCEPTION)


# Protocol 4.3
@on_loop
async def test_an_identifier_as_callback_gives_the_message_itself() -> None:
    async with started(Pricer(7)) as node:
        promise = node.hub.try_send(Order(), callback=PRICE)
        answer = await promise
        assert from_message(answer, Price) == Price(7)
        assert answer.callback_point == (PRICE, EXCEPTION)  # the matched entry stays
        assert answer.correlation_id == promise.message.correlation_id


# Protocol 4.3
@on_loop
async def test_callbacks_that_make_no_sense_are_refused() -> None:
    async with started(Pricer()) as node:
        for callback in ([], [b"Price"], b"Price", [int]):
            with pytest.raises(ArgumentError):
                await node.hub.send(Order(), callback=callback)  # type: ignore[arg-type]
        assert (node.hub.waiting, node.stats().submitted) == (0, 0)
