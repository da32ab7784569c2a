"""Attempts to draw away the messages of a node that others know: over real sockets, beside real work."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import zmq

from hopline import Domain, DomainSecurity, Node
from tests.node.running import on_loop, until

from .frames import V5, address_of, live, registration, unregistration
from .ours import INTERVAL, Ehhlo, Hello, Reversing, attachment, handlers, membership, our_node, rendezvous, tables
from .scripted import HELLO, KinoNode, Socket, guid, where

KEY = b"a secret that only members share"
GREETING = Hello(b"\n\x06kino-2")
REVERSED = Ehhlo(b"\n\x062-onik")


class Stranger(KinoNode):
    """Somebody without keys, who presents the identity of another node to whoever connects."""

    def set_trap(self, victim: bytes) -> str:
        self.trap: Socket = self.socket(zmq.ROUTER, identity=victim)
        return where(self.trap)

    def is_trap_empty(self) -> bool:
        return not int(self.trap.get(zmq.EVENTS)) & zmq.POLLIN

    async def say_in_news(self, identity: bytes, body: bytes) -> None:
        """Say something in the unsigned domain."""
        message = live(self.wire, "server", "send", "KINO.UNREGNODE")
        await self.say(message.but(identity=identity, body=body, domain=b"news"))


def secured() -> DomainSecurity:
    greetings = Domain("greetings", KEY, ["HELLO", "EHHLO"])
    return DomainSecurity([Domain("news", identities=["NEWS"], unsigned=True), greetings], clock=time.time)


@asynccontextmanager
async def network(security: Callable[[], DomainSecurity] | None) -> AsyncIterator[tuple[Node, Node, Stranger]]:
    """Start a node that asks, one that answers and a stranger; the first one has got an answer."""
    settings: Any = {} if security is None else {"security": security()}
    others: Any = {} if security is None else {"security": security()}
    async with (
        rendezvous(V5) as server,
        our_node(V5, server.address, **settings) as client,
        our_node(V5, server.address, actors=(Reversing(),), **others) as worker,
        Stranger(V5, server.address.broadcast_uri, server.address.unicast_uri) as stranger,
    ):
        await until(lambda: handlers(client, HELLO) == [worker.identity])
        assert await greet(client) == REVERSED
        yield client, worker, stranger


async def greet(client: Node) -> Ehhlo:
    return await client.hub.send(GREETING, callback=Ehhlo, timeout=30)


def linked(node: Node) -> list[bytes]:
    """Return the nodes that a node has a link to."""
    report = attachment(node).report()
    assert report is not None
    return [link.node for link in report.links]


@on_loop
async def test_who_asks_for_routes_and_presents_the_identity_of_another_node_gets_none_of_its_messages() -> None:
    async with network(None) as (client, worker, stranger):
        asker, told = guid(), membership(client).traffic.sent
        trap = stranger.set_trap(worker.identity)
        await stranger.say_plainly(b"KINO.REQCLUSTROUTES", address_of(trap, asker))
        await until(lambda: membership(client).traffic.sent > told)
        answers = 0
        while answers < 30 or asker in linked(client):
            assert await greet(client) == REVERSED
            answers += 1
        assert stranger.is_trap_empty()


@on_loop
async def test_who_announces_a_signed_node_in_an_unsigned_domain_gets_none_of_its_messages() -> None:
    async with network(secured) as (client, worker, stranger):
        refused = membership(client).traffic.refused
        trap = stranger.set_trap(worker.identity)
        hub: tuple[bytes, list[bytes]] = (worker.hub.identity, [])
        for body in (
            registration(trap, worker.identity, [hub], trap, INTERVAL),
            registration(worker.uri, worker.identity, [hub], trap, INTERVAL),
        ):
            await stranger.say_in_news(b"KINO.REGEXTROUTE", body)
        await until(lambda: refused["moved by another domain"] == 2)
        for _ in range(30):
            assert await greet(client) == REVERSED
        assert stranger.is_trap_empty()
        assert tables(client).external.uri_of(worker.identity) == worker.uri


@on_loop
async def test_who_withdraws_hubs_in_an_unsigned_domain_stops_no_answers() -> None:
    async with network(secured) as (client, worker, stranger):
        hub = (client.hub.identity, [b"KINO.UNREGMSGROUTE"])
        withdrawal = unregistration(client.uri, client.identity, [hub])
        refused = membership(worker).traffic.refused
        for count in range(30):
            await stranger.say_in_news(b"KINO.UNREGMSGROUTE", withdrawal)
            await stranger.say_in_news(b"KINO.UNREGNODE", address_of(client.uri, client.identity))
            await until(lambda: refused["removed by an unsigned domain"] > count)  # noqa: B023
            assert await greet(client) == REVERSED
