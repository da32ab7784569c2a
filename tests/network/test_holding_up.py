"""A node that has no room for what others send stops reading, and TCP holds those others up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hopline import Actor, Context, DeliveryError, NodeSettings, Payload, handler
from hopline.routing import Outcome
from hopline.transport import SocketSettings, Transport, open_transport
from hopline.transport.libzmq import ZmqTransport
from tests.node.running import on_loop, until

from .frames import V5
from .ours import Ehhlo, Hello, handlers, our_node, rendezvous
from .scripted import HELLO

MESSAGES = 400
NARROW = NodeSettings(mailbox_capacity=1, concurrency=1, backpressure_capacity=10)
TRANSPORTS: dict[str, Callable[[], Transport]] = {
    "tcp": lambda: open_transport(SocketSettings()),
    "libzmq": lambda: ZmqTransport(SocketSettings(), None),
}

over_both = pytest.mark.parametrize("transport", TRANSPORTS)


class Slow(Actor):
    """Handles one message a turn of the loop or so: slower than they come."""

    def __init__(self) -> None:
        self.handled = 0

    @handler
    async def hear(self, hello: Hello) -> None:
        await asyncio.sleep(0.0005)
        self.handled += 1


class Question(Payload):
    """What an actor asks back."""


class Reply(Payload):
    """What it is told."""


class AskingBack(Actor):
    """Cannot answer before a question of its own is answered, by the node that it was asked from."""

    @handler
    async def answer(self, hello: Hello, context: Context) -> Ehhlo:
        await context.ask(Question(), callback=Reply)
        return Ehhlo(hello)


class Replying(Actor):
    @handler
    def reply(self, question: Question) -> Reply:
        return Reply()


@over_both
@on_loop
async def test_what_comes_faster_than_it_is_handled_waits_at_its_sender_and_nothing_overflows(transport: str) -> None:
    slow = Slow()
    async with (
        rendezvous() as server,
        our_node(V5, server.address, actors=(slow,), settings=NARROW, transport=TRANSPORTS[transport]()) as receiver,
        our_node(V5, server.address, transport=TRANSPORTS[transport]()) as sender,
    ):
        await until(lambda: handlers(sender, HELLO) == [receiver.identity])
        for number in range(MESSAGES):
            await sender.hub.send_one_way(Hello(b"\n\x04%04d" % number))
        await until(lambda: slow.handled == MESSAGES)
        assert receiver.stats().outcomes.get(Outcome.OVERFLOW, 0) == 0


@over_both
@on_loop
async def test_answers_still_come_in_where_requests_wait_for_them_and_fill_all_room(transport: str) -> None:
    async with (
        rendezvous() as server,
        our_node(
            V5, server.address, actors=(AskingBack(),), settings=NARROW, transport=TRANSPORTS[transport]()
        ) as full,
        our_node(V5, server.address, actors=(Replying(),), transport=TRANSPORTS[transport]()) as asking,
    ):
        await until(lambda: handlers(asking, HELLO) == [full.identity])
        requests = (asking.hub.send(Hello(b"\n\x04%04d" % number), callback=Ehhlo) for number in range(100))
        async with asyncio.timeout(20):
            ended = await asyncio.gather(*requests, return_exceptions=True)
        answered = [one for one in ended if isinstance(one, Ehhlo)]
        overflowed = [one for one in ended if isinstance(one, DeliveryError) and one.outcome == "overflow"]
        assert answered
        assert len(answered) + len(overflowed) == len(ended)
