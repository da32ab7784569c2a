"""A caller whose time is over gets one exception, whoever notices first: its own timer, or who holds the message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hopline import AnswerTimeoutError, DeliveryError, HoplineError, Node, NodeSettings
from hopline.actors import exception_result
from hopline.client import Promise
from hopline.message import ExceptionReport
from tests.node.orders import Order, Price
from tests.node.running import Clock, in_vain, on_loop, soon, started
from tests.node.test_room import Narrow

TIMEOUT = 5.0


def report(node: Node, promise: Promise[Price], outcome: str) -> None:
    """Let the node hear how the message of a promise ended."""
    ended = ExceptionReport(f"Order/1: {outcome}", DeliveryError.REPORTED_AS + outcome)
    node.router.receive(exception_result(promise.message, ended).clone(hops=1))


@pytest.mark.parametrize("outcome", ["expired", "overflow", "unroutable", "failed"])
@pytest.mark.parametrize("timeout", [TIMEOUT, None])
def test_a_report_that_comes_before_the_timer_is_a_timeout_too(outcome: str, timeout: float | None) -> None:
    @on_loop
    async def run() -> None:
        clock, settings = Clock(), NodeSettings(request_timeout=TIMEOUT, drain_timeout=0.0)
        async with started(Narrow(), clock=clock, settings=settings) as node:
            promise = node.hub.try_send(Order(), callback=Price, timeout=timeout)
            clock.now += TIMEOUT  # its timer, which is the loop's, has not fired
            report(node, promise, outcome)
            with pytest.raises(AnswerTimeoutError, match="no answer to Order/1 within 5 s") as raised:
                await soon(promise)
            assert isinstance(raised.value.__cause__, DeliveryError)
            assert raised.value.__cause__.outcome == outcome
            assert node.hub.waiting == 0

    run()


@pytest.mark.parametrize(
    ("before", "outcome", "error"),
    [
        (0.001, "expired", AnswerTimeoutError),  # the clock of the node that had it runs a little faster
        (0.001, "unroutable", DeliveryError),
        (1.0, "expired", DeliveryError),  # a later message of the flow, with a lifetime of its own
    ],
)
def test_what_ends_before_the_time_is_over_is_told_as_it_is(
    before: float, outcome: str, error: type[HoplineError]
) -> None:
    @on_loop
    async def run() -> None:
        clock = Clock()
        async with started(Narrow(), clock=clock, settings=NodeSettings(drain_timeout=0.0)) as node:
            promise = node.hub.try_send(Order(), callback=Price, timeout=TIMEOUT)
            clock.now += TIMEOUT - before
            report(node, promise, outcome)
            with pytest.raises(error):
                await soon(promise)

    run()


async def in_the_mailbox(node: Node) -> None:
    node.hub.try_send_one_way(Order(0))  # whose handler runs
    await node.hub.send(Order(1), callback=Price, timeout=0.02)


async def backpressure_capacity(node: Node) -> None:
    for sku in range(2):
        node.hub.try_send_one_way(Order(sku))
        await asyncio.sleep(0)
    await node.hub.send(Order(2), callback=Price, timeout=0.02)


async def waiting_for_room_for_a_receipt(node: Node) -> None:
    for sku in range(2):
        node.hub.try_send_one_way(Order(sku))
        await asyncio.sleep(0)
    await node.hub.send(Order(2), timeout=0.02)


async def while_a_route_is_looked_for(node: Node) -> None:
    await node.hub.send(Price(), callback=Order, timeout=0.02)


@pytest.mark.parametrize(
    "ask", [in_the_mailbox, backpressure_capacity, waiting_for_room_for_a_receipt, while_a_route_is_looked_for]
)
def test_wherever_a_message_is_when_the_time_is_over(ask: Callable[[Node], asyncio.Future[None]]) -> None:
    @on_loop
    async def run() -> None:
        actor = Narrow()
        async with started(actor, discover=in_vain, settings=NodeSettings(drain_timeout=0.0)) as node:
            with pytest.raises(AnswerTimeoutError):
                await soon(ask(node))
            actor.gate.set()

    run()


@on_loop
async def test_a_stream_whose_time_is_over_ends_though_its_message_expired() -> None:
    clock = Clock()
    async with started(Narrow(), clock=clock, settings=NodeSettings(drain_timeout=0.0)) as node:
        stream = node.hub.stream(Order(), callback=Price, timeout=TIMEOUT)
        reading = asyncio.create_task(anext(stream, None))
        await asyncio.sleep(0)
        (state,) = node.hub.all_waiting()
        addressed = state.message.register_callback_point(
            node.identity, node.hub.identity, state.reply_spec.callback_point, state.key
        )
        clock.now += TIMEOUT
        ended = ExceptionReport("Order/1: too late", DeliveryError.REPORTED_AS + "expired")
        node.router.receive(exception_result(addressed, ended).clone(hops=1))
        assert await soon(reading) is None
