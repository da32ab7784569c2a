"""Our node follows a rendezvous server that shares no code with us: frame by frame."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from hopline import Node
from hopline.cluster import ClusterSettings, RendezvousAddress
from tests.node.running import on_loop, until

from .frames import (
    BOTH,
    Fields,
    address_of,
    live,
    read,
    registration,
    text,
    unregistration,
    without_declaration,
    write,
)
from .ours import INTERVAL, QUICK, Ehhlo, Hello, Reversing, attachment, handlers, knows, membership, our_node
from .scripted import EHHLO, HELLO, KinoNode, KinoRendezvous
from .transports import each_transport as each_transport

REGISTER, UNREGISTER, GOODBYE = b"KINO.REGEXTROUTE", b"KINO.UNREGMSGROUTE", b"KINO.UNREGNODE"
ALL_ROUTES, NODE_ROUTES, PING = b"KINO.REQCLUSTROUTES", b"KINO.REQNODEROUTES", b"KINO.PING"
IMPATIENT = ClusterSettings(
    heartbeat_interval=INTERVAL / 1000,
    probe_interval=0.02,
    announce_period=0.2,
    rendezvous_silence=0.6,
    probe_timeout=0.6,
    rendezvous_reconnect=0.3,
)

pytestmark = pytest.mark.usefixtures("each_transport")
in_both = pytest.mark.parametrize("wire", BOTH)


def address(server: KinoRendezvous, host: str = "127.0.0.1") -> RendezvousAddress:
    broadcast_uri, unicast_uri = (uri.replace("127.0.0.1", host) for uri in (server.broadcast_uri, server.unicast_uri))
    return RendezvousAddress(broadcast_uri, unicast_uri)


def arrived_as(wire: str, frames: list[bytes], expected: Fields) -> None:
    """Check what the server's ROUTER received from our DEALER: its id, an empty envelope, and every frame behind it."""
    assert (len(frames[0]), frames[0][0]) == (5, 0)
    if expected.identity == REGISTER:
        frames = without_declaration(wire, frames)
    assert frames[1:] == [b"", b"", *write(wire, expected)]


def plain(wire: str, identity: bytes, body: bytes) -> Fields:
    return live(wire, "server", "send", "KINO.UNREGNODE").but(identity=identity, body=body)


def all_routes_of(node: Node, actor: Reversing) -> bytes:
    routes = [(node.hub.identity, []), (actor.identity, [HELLO])]
    return registration(node.uri, node.identity, routes, attachment(node).health_uri, INTERVAL)


@in_both
@on_loop
async def test_a_node_asks_whether_the_server_leads_then_announces_and_asks_for_routes(wire: str) -> None:
    actor = Reversing()
    async with KinoRendezvous(wire) as server, our_node(wire, address(server), actors=(actor,)) as node:
        arrived_as(wire, await server.hear(PING), plain(wire, PING, b""))
        announced = live(wire, "server", "send", "KINO.REGEXTROUTE").but(body=all_routes_of(node, actor))
        arrived_as(wire, await server.hear(REGISTER), announced)
        request = live(wire, "server", "send", "KINO.REQCLUSTROUTES").but(body=address_of(node.uri, node.identity))
        arrived_as(wire, await server.hear(ALL_ROUTES), request)
        kinds = [read(wire, frames).identity for frames in server.arrived]
        assert kinds.index(PING) < kinds.index(REGISTER) < kinds.index(ALL_ROUTES)


@in_both
@on_loop
async def test_an_announcement_is_repeated_until_it_comes_back_and_then_no_more(wire: str) -> None:
    async with KinoRendezvous(wire) as server:
        server.relays = False
        async with our_node(wire, address(server), actors=(Reversing(),)) as node:
            assert await server.hear(REGISTER, 3) == await server.hear(REGISTER)
            server.relays = True
            await until(lambda: membership(node).is_confirmed)
            said, at = len(server.heard(REGISTER)), time.monotonic()
            await until(lambda: time.monotonic() > at + 3 * QUICK.announce_period)
            assert len(server.heard(REGISTER)) == said


@in_both
@on_loop
async def test_an_actor_that_comes_or_goes_later_is_announced_and_withdrawn(wire: str) -> None:
    async with KinoRendezvous(wire) as server, our_node(wire, address(server)) as node:
        await server.hear(REGISTER)
        actor = Reversing()
        node.add(actor)
        routes = [(actor.identity, [HELLO])]
        body = registration(node.uri, node.identity, routes, attachment(node).health_uri, INTERVAL)
        arrived_as(wire, await server.hear(REGISTER, 2), plain(wire, REGISTER, body))
        await node.remove(actor)
        body = unregistration(node.uri, node.identity, [(b"", [HELLO])])  # the reference must not be told which actor
        arrived_as(wire, await server.hear(UNREGISTER), plain(wire, UNREGISTER, body))


@in_both
@on_loop
async def test_a_node_that_stops_withdraws_its_messages_and_says_goodbye(wire: str) -> None:
    actor = Reversing()
    async with KinoRendezvous(wire) as server:
        async with our_node(wire, address(server), actors=(actor,)) as node:
            await server.hear(REGISTER)
        withdrawn = unregistration(node.uri, node.identity, [(b"", [HELLO])])
        arrived_as(wire, await server.hear(UNREGISTER), plain(wire, UNREGISTER, withdrawn))
        goodbye = live(wire, "server", "send", "KINO.UNREGNODE").but(body=address_of(node.uri, node.identity))
        arrived_as(wire, await server.hear(GOODBYE), goodbye)
        assert server.heard(GOODBYE) == server.arrived[-1:]


@in_both
@on_loop
async def test_a_node_that_stops_at_once_says_goodbye_only(wire: str) -> None:
    async with KinoRendezvous(wire) as server:
        async with our_node(wire, address(server), actors=(Reversing(),)) as node:
            await until(lambda: membership(node).is_confirmed)
            await node.stop(0.0)
        await server.hear(GOODBYE)
        assert not server.heard(UNREGISTER)


@in_both
@on_loop
async def test_who_asks_for_our_nodes_routes_makes_it_announce_them_again(wire: str) -> None:
    actor = Reversing()
    async with KinoRendezvous(wire) as server, our_node(wire, address(server), actors=(actor,)) as node:
        await until(lambda: membership(node).is_confirmed)
        said = len(server.heard(REGISTER))
        await server.say(NODE_ROUTES, address_of("tcp://127.0.0.1:1", b"11111111-1111-1111-1111-111111111111"))
        await server.say(NODE_ROUTES, address_of(node.uri, node.identity))
        frames = await server.hear(REGISTER, said + 1)
        arrived_as(wire, frames, plain(wire, REGISTER, all_routes_of(node, actor)))
        await until(lambda: membership(node).is_confirmed)
        assert len(server.heard(REGISTER)) == said + 1


@in_both
@on_loop
async def test_a_peer_is_found_through_the_scripted_server_and_asked_and_asks(wire: str) -> None:
    actor = Reversing()
    async with (
        KinoRendezvous(wire) as server,
        our_node(wire, address(server)) as node,
        KinoNode(wire, server.broadcast_uri, server.unicast_uri) as kino,
    ):
        await kino.join()
        await until(lambda: handlers(node, HELLO) == [kino.identity])
        asking = asyncio.create_task(node.hub.send(Hello(b"hi"), callback=Ehhlo))
        await kino.tell(node.identity, node.uri, kino.reply(await kino.received(), EHHLO, b"ih"))
        assert await asking == b"ih"
        node.add(actor)
        heard = await kino.hear(REGISTER)
        while actor.identity not in read(wire, heard).body:
            heard = await kino.hear(REGISTER)
        await kino.tell(node.identity, node.uri, kino.request())
        assert read(wire, await kino.received()).identity == EHHLO


# -- whom it follows ---------------------------------------------------------------------------------------------------


@in_both
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@on_loop
async def test_a_server_that_does_not_lead_sends_the_node_to_the_one_that_does(wire: str, host: str) -> None:
    async with KinoRendezvous(wire, part=KinoRendezvous.FOLLOWS) as follower, KinoRendezvous(wire) as leader:
        follower.leader = leader
        async with our_node(wire, address(follower, host), address(leader, host)) as node:
            await leader.hear(REGISTER)
            assert membership(node).follower.server == address(leader, host)
            assert membership(node).follower.changes == 1  # however often it is said
            assert not follower.heard(REGISTER)


@in_both
@on_loop
async def test_a_leader_that_is_none_of_ours_is_not_followed(wire: str) -> None:
    async with (
        KinoRendezvous(wire) as server,
        KinoRendezvous(wire) as stranger,
        our_node(wire, address(server)) as node,
    ):
        await until(lambda: membership(node).is_confirmed)
        await server.say(b"KINO.RNDZVNOTLEADER", text(1, stranger.node()))
        await server.say(b"KINO.RNDZVRECONFIG", text(1, stranger.node()))
        await until(lambda: membership(node).traffic.refused["unknown kind"] == 1)
        assert membership(node).follower.server == address(server)
        assert membership(node).follower.changes == 0
        assert not stranger.arrived


@in_both
@on_loop
async def test_a_node_that_is_sent_where_it_is_stays(wire: str) -> None:
    async with KinoRendezvous(wire) as server, our_node(wire, address(server)) as node:
        await until(lambda: membership(node).is_confirmed)
        for _ in range(3):
            await server.say(b"KINO.RNDZVNOTLEADER", text(1, server.node()))
        await server.say(b"KINO.RNDZVRECONFIG", text(1, server.node()))
        await until(lambda: membership(node).traffic.refused["unknown kind"] == 1)
        assert membership(node).follower.changes == 0
        assert membership(node).follower.is_joined


@in_both
@on_loop
async def test_a_notice_to_evict_a_peer_is_ignored(wire: str) -> None:
    async with (
        KinoRendezvous(wire) as server,
        our_node(wire, address(server)) as node,
        KinoNode(wire, server.broadcast_uri, server.unicast_uri) as kino,
    ):
        await kino.join()
        await until(lambda: knows(node, kino.identity))
        await server.say(b"KINO.UNREGUNREACHABLENODE", text(1, kino.identity))
        await until(lambda: membership(node).traffic.refused["unknown kind"] == 1)
        assert handlers(node, HELLO) == [kino.identity]


@in_both
@on_loop
async def test_a_silent_server_is_left_for_the_next_and_everything_goes_on_there(wire: str) -> None:
    async with KinoRendezvous(wire) as first, KinoRendezvous(wire) as second:
        async with our_node(wire, address(first), address(second), cluster=IMPATIENT, actors=(Reversing(),)) as node:
            await first.hear(ALL_ROUTES)
            first.part = KinoRendezvous.SILENT
            await second.hear(PING)
            await until(lambda: membership(node).follower.is_joined)
            assert membership(node).follower.server == address(second)
            node.add(Reversing())
            await second.hear(REGISTER)
        await second.hear(GOODBYE)


@in_both
@on_loop
async def test_a_server_that_is_gone_is_left_at_once(wire: str) -> None:
    async with AsyncExitStack() as stack, KinoRendezvous(wire) as second:
        first = await stack.enter_async_context(KinoRendezvous(wire))
        patient: Any = {"rendezvous_silence": 60.0, "rendezvous_reconnect": 0.3, "probe_interval": 0.02}
        async with our_node(wire, address(first), address(second), cluster=ClusterSettings(**patient)) as node:
            await first.hear(ALL_ROUTES)
            await stack.aclose()
            await second.hear(PING)
            await until(lambda: membership(node).follower.is_joined)


@in_both
@on_loop
async def test_a_server_that_never_answers_does_not_keep_a_node_from_starting(wire: str) -> None:
    async with (
        KinoRendezvous(wire, part=KinoRendezvous.SILENT) as server,
        our_node(wire, address(server), actors=(Reversing(),), join_timeout=0.2) as node,
    ):
        assert await node.hub.send(Hello(b"\n\x02hi"), callback=Ehhlo) == b"\n\x02ih"
        server.part = KinoRendezvous.LEADS
        await server.hear(REGISTER)
