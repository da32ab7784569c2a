"""Networks of one format, as the reference has them, and nodes and servers of ours that are set to another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import zmq

from hopline import WireFormat
from hopline.message import MessageIdentifier
from tests.node.running import on_loop, until

from .frames import V5, V5_INT32, V6, heartbeat, read, wire_of
from .ours import INTERVAL, Ehhlo, Hello, Reversing, attachment, handlers, membership, our_node, rendezvous
from .scripted import EHHLO, HELLO, KinoNode, KinoRendezvous, receive
from .test_scripted_rendezvous import address

GREETING, REVERSED = b"\n\x06kino-2", b"\n\x062-onik"
NETWORKS = (V5_INT32, V5, V6)  # of 2018, of .NET Framework, of .NET Core
every_network = pytest.mark.parametrize("theirs", NETWORKS)


async def served(node: Any, kino: KinoNode, actor: Reversing) -> None:
    """Let the peer ask our actor, and our hub ask the peer."""
    await until(lambda: handlers(node, HELLO) == [kino.identity])
    await kino.tell(node.identity, node.uri, kino.request(GREETING))
    reply = read(kino.wire, await kino.received())
    assert (reply.identity, reply.body) == (EHHLO, REVERSED)
    await node.remove(actor)
    asking = asyncio.create_task(node.hub.send(Hello(GREETING), callback=Ehhlo))
    await kino.tell(node.identity, node.uri, kino.reply(await kino.received(), EHHLO, REVERSED))
    assert await asking == REVERSED


@every_network
@pytest.mark.parametrize("ours", NETWORKS)
@on_loop
async def test_a_node_joins_a_network_of_any_format_and_is_served_whatever_it_is_set_to(theirs: str, ours: str) -> None:
    actor = Reversing()
    async with (
        KinoRendezvous(theirs, interval=500) as server,
        KinoNode(theirs, server.broadcast_uri, server.unicast_uri) as kino,
    ):
        async with our_node(ours, address(server), actors=(actor,)) as node:
            await kino.join()
            announced = read(theirs, await server.hear(b"KINO.REGEXTROUTE"))
            while node.hub.identity not in announced.body:  # the other node may be heard first
                announced = read(theirs, await server.hear(b"KINO.REGEXTROUTE"))
            await until(lambda: not membership(node)._unconfirmed)
            assert all(read(wire_of(one), one).identity == b"KINO.PING" for one in server.unreadable)
            await served(node, kino, actor)
            pulse = kino.socket(zmq.SUB, connect=attachment(node).health_uri)
            frames = await receive(pulse)
            while wire_of(frames) != theirs:
                frames = await receive(pulse)
            expected = heartbeat(INTERVAL, node.identity, attachment(node).health_uri)
            assert read(theirs, frames).body == expected
            assert frames[0] == b""  # what the whole network speaks is no copy
        await server.hear(b"KINO.UNREGNODE")


@every_network
@pytest.mark.parametrize("ours", NETWORKS)
@on_loop
async def test_a_server_speaks_to_its_nodes_in_their_format_whatever_it_is_set_to(theirs: str, ours: str) -> None:
    actor = Reversing()
    async with (
        rendezvous(ours) as server,
        our_node(ours, server.address, actors=(actor,)) as node,
        KinoNode(theirs, server.address.broadcast_uri, server.address.unicast_uri) as kino,
    ):
        await kino.join()  # which pings, and needs a pong that it can read
        await kino.hear(b"KINO.HEARTBEAT")
        await served(node, kino, actor)
        node.add(Reversing())
        announced = read(theirs, await kino.hear(b"KINO.REGEXTROUTE"))
        while node.identity not in announced.body:
            announced = read(theirs, await kino.hear(b"KINO.REGEXTROUTE"))
        assert membership(node).traffic.refused == {}  # copies are nothing to us


@on_loop
async def test_nodes_of_different_formats_hear_of_each_other_through_our_server() -> None:
    async with (
        rendezvous(V5) as server,
        KinoNode(V5_INT32, server.address.broadcast_uri, server.address.unicast_uri) as oldest,
        KinoNode(V6, server.address.broadcast_uri, server.address.unicast_uri) as newest,
    ):
        for one, other in ((oldest, newest), (newest, oldest)):
            await one.join()
            await other.join()
            await one.announce()
            heard = read(other.wire, await other.hear(b"KINO.REGEXTROUTE"))
            while one.identity not in heard.body:
                heard = read(other.wire, await other.hear(b"KINO.REGEXTROUTE"))


@on_loop
async def test_nodes_of_ours_keep_to_their_own_format_with_a_server_that_reads_it() -> None:
    actor = Reversing()
    async with (
        rendezvous(V5) as server,
        our_node(V6, server.address, actors=(actor,)) as worker,
        our_node(V6, server.address) as client,
    ):
        await until(lambda: handlers(client, HELLO) == [worker.identity])
        assert await client.hub.send(Hello(GREETING), callback=Ehhlo) == REVERSED
        assert actor.seen[0].wire_format is WireFormat.V6
        assert MessageIdentifier(HELLO) == actor.seen[0].identifier
