"""Networks of one format, as the reference has them, and nodes and servers of ours that are set to another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import zmq

from hopline import Node, WireFormat
from hopline.cluster.messages.formats import is_copy
from hopline.message import MessageIdentifier
from tests.node.running import on_loop, until

from .frames import V5, V5_INT32, V6, heartbeat, read, wire_of
from .ours import (
    AUTOMATIC,
    FORMATS,
    INTERVAL,
    Ehhlo,
    Hello,
    Reversing,
    attachment,
    handlers,
    knows,
    membership,
    our_node,
    rendezvous,
)
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
            await until(lambda: membership(node).is_confirmed)
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
            await other.hear_from(other.identity, b"KINO.REGEXTROUTE")  # from now on its format is in use
            await one.announce()
            await other.hear_from(one.identity, b"KINO.REGEXTROUTE")


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


# -- V6 without being told ---------------------------------------------------------------------------------------------


def written_to(node: Node, peer: bytes) -> WireFormat:
    """Return the format in which a node writes to another."""
    return attachment(node).formats.of(peer)


async def converse(client: Node, worker: Node, actor: Reversing) -> tuple[WireFormat | None, WireFormat | None]:
    """Let a node ask another, and return the formats in which the request and its answer came."""
    await until(lambda: handlers(client, HELLO) == [worker.identity])
    assert await client.hub.send(Hello(GREETING), callback=Ehhlo) == REVERSED
    return actor.seen[-1].wire_format, attachment(client).formats.written_by[worker.identity]


@pytest.mark.parametrize(
    ("client_pin", "worker_pin", "request_format", "answer_format"),
    [
        (AUTOMATIC, AUTOMATIC, V6, V6),
        (AUTOMATIC, V5, V6, V5),
        (V5, AUTOMATIC, V5, V6),
        (V5, V5, V5, V5),
        (V6, AUTOMATIC, V6, V6),
        (V5_INT32, AUTOMATIC, V5_INT32, V6),
        (V5, V6, V5, V6),
    ],
)
@on_loop
async def test_nodes_of_ours_write_v6_to_each_other_unless_they_are_pinned(
    client_pin: str | None, worker_pin: str | None, request_format: str, answer_format: str
) -> None:
    actor = Reversing()
    async with (
        rendezvous() as server,
        our_node(worker_pin, server.address, actors=(actor,)) as worker,
        our_node(client_pin, server.address) as client,
    ):
        for _ in range(3):
            formats = await converse(client, worker, actor)
            assert formats == (FORMATS[request_format], FORMATS[answer_format])


@every_network
@on_loop
async def test_nodes_of_ours_write_v6_to_each_other_through_a_server_of_the_reference(theirs: str) -> None:
    actor = Reversing()
    async with (
        KinoRendezvous(theirs, interval=500) as server,
        our_node(AUTOMATIC, address(server), actors=(actor,)) as worker,
        our_node(AUTOMATIC, address(server)) as client,
    ):
        await converse(client, worker, actor)  # the server left out what they declare, and the links begin with it
        await until(lambda: written_to(client, worker.identity) is WireFormat.V6)
        await until(lambda: written_to(worker, client.identity) is WireFormat.V6)
        assert await converse(client, worker, actor) == (WireFormat.V6, WireFormat.V6)
        worker.add(Reversing())  # what is relayed without a declaration undoes none
        await until(lambda: membership(worker).is_confirmed)
        assert await converse(client, worker, actor) == (WireFormat.V6, WireFormat.V6)


@on_loop
async def test_what_nodes_of_ours_say_to_all_stays_in_one_format_when_they_write_v6_to_each_other() -> None:
    actor = Reversing()
    async with (
        rendezvous() as server,
        our_node(AUTOMATIC, server.address, actors=(actor,)) as worker,
        our_node(AUTOMATIC, server.address) as client,
        KinoNode(V5, server.address.broadcast_uri, server.address.unicast_uri) as kino,
    ):
        assert await converse(client, worker, actor) == (WireFormat.V6, WireFormat.V6)
        pulse = kino.socket(zmq.SUB, connect=attachment(client).health_uri)
        for _ in range(2):
            frames = await receive(pulse)
            assert (wire_of(frames), frames[0]) == (V5, b"")
        await kino.join()
        relayed = server.statistics.relayed
        client.add(Reversing())
        frames = await kino.hear_any()
        while server.statistics.relayed == relayed or client.identity not in frames[2]:
            assert (wire_of(frames), is_copy(frames)) == (V5, False)
            frames = await kino.hear_any()
        assert wire_of(frames) == V5


@every_network
@on_loop
async def test_an_automatic_node_writes_to_a_peer_of_the_reference_in_the_format_of_the_peer(theirs: str) -> None:
    actor = Reversing()
    async with (
        rendezvous() as server,
        our_node(AUTOMATIC, server.address, actors=(actor,)) as node,
        our_node(AUTOMATIC, server.address) as other,
        KinoNode(theirs, server.address.broadcast_uri, server.address.unicast_uri) as kino,
    ):
        await until(lambda: written_to(node, other.identity) is WireFormat.V6)
        await kino.join()
        await served(node, kino, actor)  # it fails at whatever comes in another format
        assert written_to(node, kino.identity) is FORMATS[theirs]
        assert written_to(node, other.identity) is WireFormat.V6


@on_loop
async def test_a_node_that_is_restarted_and_pinned_is_still_written_to_in_v6() -> None:
    actor = Reversing()
    async with rendezvous() as server, our_node(AUTOMATIC, server.address) as client:
        for pin, expected in ((AUTOMATIC, WireFormat.V6), (V5, WireFormat.V5), (AUTOMATIC, WireFormat.V6)):
            async with our_node(pin, server.address, actors=(actor,), identity=b"worker") as worker:
                assert await converse(client, worker, actor) == (WireFormat.V6, expected)
            await until(lambda: not knows(client, b"worker"))
            assert written_to(client, b"worker") is WireFormat.V5  # nothing is known of it any more


@on_loop
async def test_a_node_of_the_reference_in_the_place_of_ours_is_written_to_in_its_own_format() -> None:
    actor = Reversing()
    async with (
        rendezvous() as server,
        our_node(AUTOMATIC, server.address) as client,
        KinoNode(V5, server.address.broadcast_uri, server.address.unicast_uri) as kino,
    ):
        kino_identity = kino.identity
        async with our_node(AUTOMATIC, server.address, actors=(actor,), identity=kino_identity) as worker:
            assert await converse(client, worker, actor) == (WireFormat.V6, WireFormat.V6)
        await until(lambda: not knows(client, kino_identity))
        await kino.join()
        await until(lambda: handlers(client, HELLO) == [kino_identity])
        asking = asyncio.create_task(client.hub.send(Hello(GREETING), callback=Ehhlo))
        await kino.tell(client.identity, client.uri, kino.reply(await kino.received(), EHHLO, REVERSED))
        assert await asking == REVERSED
