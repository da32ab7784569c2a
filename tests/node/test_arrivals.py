"""Messages from other nodes: receipts, lifetimes, and full actors."""

from __future__ import annotations

import pytest

from hopline import (
    DeliveryError,
    NodeSettings,
    Outcome,
    to_message,
)
from hopline.message import EXCEPTION, RECEIPT

from .links import Network
from .orders import Listener, News, OneByOne, Order, Price, Pricer
from .running import on_loop, soon, started, turns, until


# Protocol 5.8
@on_loop
async def test_what_arrives_is_confirmed_by_the_node_that_has_the_actor() -> None:
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


# Protocol 5.8
@on_loop
async def test_what_arrives_too_late_is_expired_and_its_caller_is_told() -> None:
    network = Network()
    async with network.of(a=[], b=[Pricer()]) as (a, b):
        promise = a.hub.try_send(Order(), callback=Price, timeout=5)
        (request,) = network.sent_to(b"b")
        b.router.receive(request.clone(ttl_ticks=-1))
        with pytest.raises(DeliveryError, match="expired: Order/1: its lifetime was over on the way"):
            await soon(promise)


# Protocol 5.8
@on_loop
async def test_what_arrives_for_a_full_actor_waits_for_room_and_only_so_much_of_it() -> None:
    actor = OneByOne()
    async with started(actor, settings=NodeSettings(backpressure_capacity=2)) as node:
        for sku in range(6):
            node.router.receive(to_message(Order(sku)).add_hop())
            await turns(3)
        assert actor.started == 1
        assert (node.stats().waiting, node.stats().outcomes[Outcome.OVERFLOW]) == (3, 2)
        actor.gate.set()
        await until(lambda: actor.ended == 4)


# Protocol 5.8
@on_loop
async def test_what_arrives_keeps_its_order_while_its_actor_is_full() -> None:
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
