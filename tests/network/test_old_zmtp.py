"""A peer whose ZeroMQ is older than ours: it knows neither handshakes with properties nor heartbeats of connections."""

from __future__ import annotations

import asyncio

import pytest

from hopline.transport import SocketSettings
from tests.node.running import on_loop, until

from .frames import BOTH, address_of, heartbeat, live, read, write
from .old_zmtp import DEALER, PUB, ROUTER, SUB, OldConnection, OldSockets
from .ours import INTERVAL, Ehhlo, Hello, Reversing, attachment, handlers, knows, membership, our_node, rendezvous
from .scripted import EHHLO, HELLO, NOTHING, KinoNode

GREETING = b"\n\x06kino-2"
REVERSED = b"\n\x062-onik"

# Signs of life on connections that an old peer could neither read nor answer.
RESTLESS = SocketSettings(heartbeat_interval=0.05, heartbeat_timeout=0.2)

in_both = pytest.mark.parametrize("wire", BOTH)


@in_both
@on_loop
async def test_an_old_peer_is_asked_and_asks_and_its_heart_is_heard(wire: str) -> None:
    actor = Reversing()
    arrived: asyncio.Queue[list[bytes]] = asyncio.Queue()
    connections: list[OldConnection] = []
    async with (
        rendezvous(wire) as server,
        our_node(wire, server.address, actors=(actor,), sockets=RESTLESS) as node,
        KinoNode(wire, server.address.broadcast_uri, server.address.unicast_uri, interval=300) as kino,
        OldSockets() as old,
    ):

        async def take(connection: OldConnection) -> None:
            connections.append(connection)
            while True:
                arrived.put_nowait([b"\x00\x01\x02\x03\x04", *await connection.receive()])

        async def beat(connection: OldConnection) -> None:
            assert await connection.receive() == [b"\x01"]  # a subscription to everything
            pulse = live(wire, "server", "send", "KINO.HEARTBEAT").but(
                body=heartbeat(kino.interval, kino.identity, kino.health_uri)
            )
            while True:
                await connection.send(NOTHING + write(wire, pulse))
                await asyncio.sleep(kino.interval / 1000)

        kino.uri = await old.listen(ROUTER, kino.identity, take)
        kino.health_uri = await old.listen(PUB, b"", beat)
        await kino.join()
        await until(lambda: handlers(node, HELLO) == [kino.identity])

        greeting = read(wire, await asyncio.wait_for(arrived.get(), 5))
        assert greeting.identity == b"KINO.REGEXTROUTE"
        frontend = await old.connect(node.uri, ROUTER)
        assert frontend.identity == node.identity
        await frontend.send([b"", *write(wire, kino.request(GREETING))])
        reply = read(wire, await asyncio.wait_for(arrived.get(), 5))
        assert (reply.identity, reply.body) == (EHHLO, REVERSED)

        await node.remove(actor)
        asking = asyncio.create_task(node.hub.send(Hello(GREETING), callback=Ehhlo))
        frames = await asyncio.wait_for(arrived.get(), 5)
        assert frames[1] == b""
        await frontend.send([b"", *write(wire, kino.reply(frames, EHHLO, REVERSED))])
        assert await asking == REVERSED

        health = membership(node).health._peers[kino.identity]
        heard_at = health.heard_at
        await until(lambda: health.heard_at > heard_at + 2 * kino.interval / 1000)
        assert knows(node, kino.identity)
        asking = asyncio.create_task(node.hub.send(Hello(GREETING), callback=Ehhlo))
        frames = await asyncio.wait_for(arrived.get(), 5)
        await frontend.send([b"", *write(wire, kino.reply(frames, EHHLO, REVERSED))])
        assert await asking == REVERSED
        assert len(connections) == 1


@in_both
@on_loop
async def test_an_old_peer_registers_with_our_server_and_hears_it_and_our_heart(wire: str) -> None:
    async with rendezvous(wire) as server, our_node(wire, server.address) as node, OldSockets() as old:
        broadcast = await old.connect(server.address.broadcast_uri, SUB)
        await broadcast.send([b"\x01"])
        await broadcast.receive()  # a heartbeat
        unicast = await old.connect(server.address.unicast_uri, DEALER)
        said = NOTHING + write(
            wire, live(wire, "server", "send", "KINO.UNREGNODE").but(body=address_of("tcp://127.0.0.1:1", b"nobody"))
        )
        await unicast.send(said)
        heard = await broadcast.receive()
        while heard != said:
            assert read(wire, heard).identity == b"KINO.HEARTBEAT"
            heard = await broadcast.receive()

        uri = attachment(node).health_uri
        pulse = await old.connect(uri, SUB)
        await pulse.send([b"\x01"])
        body = heartbeat(INTERVAL, node.identity, uri)
        expected = live(wire, "server", "send", "KINO.HEARTBEAT").but(body=body)
        assert await pulse.receive() == NOTHING + write(wire, expected)
