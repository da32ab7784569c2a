"""Lifetimes: what a stay costs, and how a message expires."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hopline import (
    DeliveryError,
    MessageIdentifier,
    MessageOutcome,
    Outcome,
    to_message,
)

from .links import Network, introduce
from .orders import Listener, News, OneByOne, Order, Price
from .running import Clock, in_vain, on_loop, soon, started, until

ORDER, PRICE, NEWS = MessageIdentifier(b"Order"), MessageIdentifier(b"Price"), MessageIdentifier(b"News")


# Protocol 5.2
@on_loop
async def test_the_time_that_a_message_stayed_is_taken_from_its_lifetime_before_it_goes_on() -> None:
    # The reference carries the lifetime and never looks at it.
    network, clock = Network(), Clock()
    async with network.node("a", clock=clock, discover=in_vain) as a, network.node("b", Listener()) as b:
        await a.hub.send_one_way(to_message(News(), ttl=timedelta(seconds=60)))
        clock.now += 45
        introduce(b, to=a)
        (sent,) = network.sent_to(b"b")
        assert sent.ttl == timedelta(seconds=15)
        network.gone |= {b"a", b"b"}


# Protocol 5.2
@on_loop
async def test_a_message_whose_time_is_over_is_not_handled_and_its_caller_is_told() -> None:
    clock, gated = Clock(), OneByOne()
    outcomes: list[MessageOutcome] = []
    async with started(gated, clock=clock, on_outcome=outcomes.append) as node:
        first = node.hub.try_send(Order(), callback=Price, timeout=3600)
        await until(lambda: gated.started)
        second = node.hub.try_send(to_message(Order(), ttl=timedelta(seconds=5)), callback=Price, timeout=3600)
        clock.now += 6
        gated.gate.set()
        with pytest.raises(DeliveryError, match="expired: Order/1: its lifetime was over in the mailbox"):
            await soon(second)
        assert await soon(first) == Price(0)
    assert gated.started == 1
    assert [settled.outcome for settled in outcomes if settled.message.identifier == ORDER] == [
        Outcome.DELIVERED,
        Outcome.EXPIRED,
    ]


# Protocol 5.2
@on_loop
async def test_no_lifetime_is_no_limit() -> None:
    clock, listener = Clock(), Listener()
    async with started(listener, clock=clock) as node:
        node.hub.try_send_one_way(News())
        clock.now += 1e9
        await until(lambda: listener.heard)
