"""What of a recording is sent again: what came from outside, and nothing that handlers will send themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hopline import Actor, CaptureLevel, Context, Payload, handler
from hopline.capture.replay import Selection, requests_in
from hopline.capture.segment_files import segments_in
from tests.node.links import Network
from tests.node.running import on_loop

from .test_node_capture import full

ORDERS = 50


class Order(Payload):
    number: int


class Reserve(Payload):
    number: int


class Reserved(Payload):
    number: int


class Charge(Payload):
    number: int


class Charged(Payload):
    number: int


class Ordered(Payload):
    number: int


class Noted(Payload):
    number: int


class Desk(Actor):
    """Asks two others for each order, and tells a third."""

    @handler
    async def order(self, order: Order, context: Context) -> Ordered:
        await context.ask(Reserve(order.number), Reserved)
        await context.hub.send(Charge(order.number), callback=Charged)
        if order.number % 2:
            await context.hub.send_one_way(Noted(order.number))
        return Ordered(order.number)


class Stock(Actor):
    @handler
    def reserve(self, reserve: Reserve) -> Reserved:
        return Reserved(reserve.number)

    @handler
    def charge(self, charge: Charge) -> Charged:
        return Charged(charge.number)

    @handler
    def note(self, noted: Noted) -> None: ...


async def take_orders(directory: Path, desk: CaptureLevel, stock: CaptureLevel) -> None:
    """Place orders at the hub of one node; the desk is there too, the stock on another."""
    network = Network()
    settings = [full(directory, level=level) for level in (desk, stock)]
    async with (
        network.node("desk", Desk(), capture=settings[0]) as front,
        network.node("stock", Stock(), capture=settings[1]),
    ):
        network.introduce()
        asked = (front.hub.send(Order(number), callback=Ordered) for number in range(ORDERS))
        assert len(await asyncio.gather(*asked)) == ORDERS
    network.gone |= set(network.nodes)


def select(directory: Path) -> Selection:
    return requests_in(segments_in(directory), lambda _: True)


@pytest.mark.parametrize("stock", [CaptureLevel.FULL, CaptureLevel.WIRE])
@on_loop
async def test_what_handlers_sent_is_left_out(tmp_path: Path, stock: CaptureLevel) -> None:
    await take_orders(tmp_path, CaptureLevel.FULL, stock)
    selection = select(tmp_path)
    assert {request.message.identity for request in selection.requests} == {b"Order"}
    assert len(selection.requests) == ORDERS
    assert selection.caused == 2 * ORDERS + ORDERS // 2


@on_loop
async def test_where_only_the_wire_was_recorded_nobody_knows_a_cause(tmp_path: Path) -> None:
    await take_orders(tmp_path, CaptureLevel.OFF, CaptureLevel.FULL)
    selection = select(tmp_path)
    kinds = {request.message.identity for request in selection.requests}
    assert kinds == {b"Reserve", b"Charge", b"Noted"}
    assert (len(selection.requests), selection.caused) == (2 * ORDERS + ORDERS // 2, 0)
