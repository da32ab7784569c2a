"""A peer that drops answers to nodes that it does not know gets no chance to: it hears of our hub first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hopline import Node
from tests.node.running import on_loop, until

from .frames import BOTH, Routes, live, read, registration
from .ours import Ehhlo, Hello, Reversing, attachment, handlers, our_node, rendezvous
from .reference_tables import ReferenceTables
from .scripted import EHHLO, HELLO, KinoNode, receive

REQUESTS = 10

in_both = pytest.mark.parametrize("wire", BOTH)


class Newcomer(KinoNode):
    """Answers as the reference does: only those whose hub it knows, by what came straight to it."""

    async def serve(self) -> None:
        """Take registrations and answer requests from now on."""
        self.tables = ReferenceTables()
        self.dropped = 0

        async def take() -> None:
            frames = await self.frontend_message()
            message = read(self.wire, frames)
            if message.identity != HELLO:
                self.tables.take(message)
            elif self.tables.knows_hub_of(message.callback_node):
                uri = self.tables.addresses[message.callback_node]
                await self.tell(message.callback_node, uri, self.reply(frames, EHHLO, message.body))
            else:
                self.dropped += 1

        self.every(0, take)


@asynccontextmanager
async def newcomer(wire: str) -> AsyncIterator[tuple[Node, Newcomer]]:
    """Start a node of ours, and a peer that has not said anything yet."""
    async with (
        rendezvous(wire) as server,
        our_node(wire, server.address, actors=(Reversing(),)) as node,
        Newcomer(wire, server.address.broadcast_uri, server.address.unicast_uri) as kino,
    ):
        yield node, kino


@in_both
@on_loop
async def test_a_newcomer_is_told_of_our_hub_before_it_asks(wire: str) -> None:
    async with newcomer(wire) as (node, kino):
        await kino.join()
        frames = await receive(kino.frontend)
        message = read(wire, frames)
        assert message.identity == b"KINO.REGEXTROUTE"
        assert node.hub.identity in message.body
        assert node.uri.encode() in message.body


@in_both
@on_loop
async def test_the_first_message_of_a_new_link_tells_of_our_hub(wire: str) -> None:
    async with newcomer(wire) as (node, kino):
        for actor in node.actors:
            await node.remove(actor)
        kino.beat()
        body = registration(kino.uri, kino.identity, kino.routes(), kino.health_uri, kino.interval)
        # Straight to us: a node that others have known for long is not greeted.
        await kino.tell(node.identity, node.uri, live(wire, "server", "send", "KINO.REGEXTROUTE").but(body=body))
        await until(lambda: handlers(node, HELLO) == [kino.identity])
        asking = asyncio.create_task(node.hub.send(Hello(b"hi"), callback=Ehhlo))
        first, second = await receive(kino.frontend), await receive(kino.frontend)
        hub: Routes = [(node.hub.identity, [])]
        introduction = registration(node.uri, node.identity, hub, attachment(node).health_uri, 900)
        assert read(wire, first) == live(wire, "server", "send", "KINO.REGEXTROUTE").but(body=introduction)
        assert read(wire, second).identity == HELLO
        await kino.tell(node.identity, node.uri, kino.reply(second, EHHLO, b"ih"))
        assert await asking == b"ih"
        again = asyncio.create_task(node.hub.send(Hello(b"hi"), callback=Ehhlo))
        third = await receive(kino.frontend)
        assert read(wire, third).identity == HELLO  # the link is not new any more
        await kino.tell(node.identity, node.uri, kino.reply(third, EHHLO, b"ih"))
        await again


@in_both
@on_loop
async def test_every_request_to_a_newcomer_is_answered(wire: str) -> None:
    async with newcomer(wire) as (node, kino):
        for actor in node.actors:
            await node.remove(actor)
        await kino.serve()
        asking = [node.hub.try_send(Hello(b"hi"), callback=Ehhlo, timeout=5.0) for _ in range(REQUESTS)]  # they wait
        await kino.join()
        assert [await one for one in asking] == [b"hi"] * REQUESTS
        assert kino.dropped == 0
