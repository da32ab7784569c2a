"""Our rendezvous server as a client sees it that shares no code with us: frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import pytest
import zmq

from hopline import RendezvousServer
from hopline.cluster import LeaseSettings, SynodSettings
from hopline.rendezvous import PartnerNetwork
from hopline.rendezvous.address import address_above
from hopline.rendezvous.relay import Refusal
from tests.network.processes import free_addresses
from tests.node.running import on_loop, until

from .frames import (
    BOTH,
    V4,
    V5,
    V6,
    Fields,
    address_of,
    heartbeat,
    live,
    read,
    registration,
    rendezvous_node,
    text,
    wire_of,
    write,
)
from .ours import ANYWHERE, rendezvous
from .protobuf_fields import protobuf_fields
from .scripted import HELLO, NOTHING, Scripted, Socket, guid, receive, send

BEAT = 200  # ms, of the servers here
LEASE = LeaseSettings(max_lease=1.2, clock_drift=0.05, message_roundtrip=0.4, node_response_timeout=0.2)
SYNOD_BEAT = SynodSettings(heartbeat_interval=0.3)

in_both = pytest.mark.parametrize("wire", BOTH)


class Client(Scripted):
    """A DEALER and a SUB."""

    def __init__(self, wire: str, server: RendezvousServer) -> None:
        super().__init__(wire)
        self.server = server
        self.unicast = self.socket(zmq.DEALER, connect=server.address.unicast_uri)
        self.broadcast = self.socket(zmq.SUB, connect=server.address.broadcast_uri)
        self.partner = self.socket(zmq.SUB, connect=server.address.partner_broadcast_uri)

    async def joined(self) -> Client:
        """Wait until both broadcasts are heard; whoever leads or follows says something now and then."""
        await receive(self.broadcast)
        await receive(self.partner)
        return self

    async def say(self, identity: bytes, body: bytes = b"", **fields: Any) -> list[bytes]:
        """Say something, and give the frames that it has."""
        message = live(V6 if self.wire == V6 else V5, "server", "send", "KINO.UNREGNODE")
        frames = NOTHING + write(self.wire, message.but(identity=identity, body=body, **fields))
        await send(self.unicast, frames)
        return frames

    async def next(self, socket: Socket | None = None, *, but: tuple[bytes, ...] = (b"KINO.HEARTBEAT",)) -> list[bytes]:
        """Give what is published next, except some kinds."""
        while True:
            frames = await receive(socket or self.broadcast)
            if read(wire_of(frames), frames).identity not in but:
                return frames


def plain(wire: str, identity: bytes, body: bytes = b"") -> list[bytes]:
    """Give the frames of a service message as the reference writes them."""
    return NOTHING + write(wire, live(wire, "server", "send", "KINO.UNREGNODE").but(identity=identity, body=body))


def announcement() -> bytes:
    routes = [(b"\x01" + guid(), [HELLO])]
    return registration("tcp://127.0.0.1:1", guid(), routes, "tcp://127.0.0.1:2", 5000)


# -- a server by itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", [V4, V5, V6])
@on_loop
async def test_every_message_about_routes_is_relayed_as_it_came(wire: str) -> None:
    async with rendezvous() as server, Client(wire, server) as client:
        await client.joined()
        for identity, body in (
            (b"KINO.REGEXTROUTE", announcement()),
            (b"KINO.UNREGMSGROUTE", announcement()),
            (b"KINO.UNREGNODE", address_of("tcp://127.0.0.1:1", guid())),
            (b"KINO.REQCLUSTROUTES", address_of("tcp://127.0.0.1:1", guid())),
            (b"KINO.REQNODEROUTES", address_of("tcp://127.0.0.1:1", guid())),
            (b"KINO.DISCOVMSGROUTE", b""),
        ):
            said = await client.say(identity, body, domain=b"trade", signature=b"\x07" * 16, hops=2)
            assert await client.next() == said
            assert await client.next(client.partner) == said
        assert server.statistics.relayed == 6
        assert not server.statistics.refused


@in_both
@on_loop
async def test_frames_in_front_of_a_message_are_not_relayed(wire: str) -> None:
    async with rendezvous() as server, Client(wire, server) as client:
        await client.joined()
        message = live(wire, "server", "send", "KINO.REGEXTROUTE")
        for front in ([], [b""], [guid(), b""], [b"\x00\x01\x02\x03\x04", b"", b""]):
            await send(client.unicast, [*front, *write(wire, message)])
            assert await client.next() == NOTHING + write(wire, message)


@in_both
@on_loop
async def test_a_ping_is_answered_with_a_pong_for_everybody(wire: str) -> None:
    async with rendezvous(wire) as server, Client(wire, server) as client:
        await client.joined()
        await client.say(b"KINO.PING")
        assert await client.next() == plain(wire, b"KINO.PONG")
        assert await client.next(client.partner) == plain(wire, b"KINO.PONG")
        assert server.statistics.pings == 1


@in_both
@on_loop
async def test_the_leader_gives_signs_of_life_to_nodes_and_partners(wire: str) -> None:
    async with rendezvous(wire) as server, Client(wire, server) as client:
        body = live(wire, "rendezvous", "send", "KINO.HEARTBEAT").but(body=heartbeat(BEAT)).body
        for socket in (client.broadcast, client.partner):
            for _ in range(2):
                assert await receive(socket) == plain(wire, b"KINO.HEARTBEAT", body)


@in_both
@on_loop
async def test_whoever_speaks_for_a_server_or_evicts_a_node_is_not_relayed(wire: str) -> None:
    async with rendezvous(wire) as server, Client(wire, server) as client:
        await client.joined()
        stranger = rendezvous_node("tcp://127.0.0.1:1", "tcp://127.0.0.1:2", "tcp://127.0.0.1:3")
        await client.say(b"KINO.RNDZVNOTLEADER", text(1, stranger))
        await client.say(b"KINO.RNDZVRECONFIG", text(1, stranger))
        await client.say(b"KINO.HEARTBEAT", heartbeat(3_600_000))
        await client.say(b"KINO.PONG")
        await client.say(b"KINO.UNREGUNREACHABLENODE", text(1, guid()))
        await client.say(b"HELLO")
        said = await client.say(b"KINO.UNREGNODE", address_of("tcp://127.0.0.1:1", guid()))
        assert await client.next() == said
        assert server.statistics.refused == {
            Refusal.LEADERS_ONLY: 4,
            Refusal.EVICTION: 1,
            Refusal.UNKNOWN_KIND: 1,
        }


# -- a synod -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def synod(wire: str) -> AsyncIterator[list[RendezvousServer]]:
    """Start three servers, and wait until they agree on a leader; it comes first."""
    members = free_addresses(3)
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                rendezvous(wire, synod=members, synod_address=member, lease=LEASE, synod_health=SYNOD_BEAT)
            )
            for member in members
        ]
        await until(
            lambda: sum(server.is_leader for server in servers) == 1 and all(server.lease for server in servers)
        )
        servers.sort(key=lambda server: not server.is_leader)
        yield servers


@in_both
def test_the_script_names_a_server_as_the_reference_does(wire: str) -> None:
    captured = rendezvous_node("tcp://10.77.0.1:8001", "tcp://10.77.0.1:8011", "tcp://10.77.0.1:8111")
    assert text(3, captured) in live(wire, "rendezvous", "send", "KINO.WRITELEASE").body


def address_in(server: RendezvousServer) -> bytes:
    address = server.address
    return rendezvous_node(address.broadcast_uri, address.unicast_uri, address.partner_broadcast_uri)


@in_both
@on_loop
async def test_a_follower_names_the_leader_and_relays_nothing(wire: str) -> None:
    async with AsyncExitStack() as stack:
        leader, follower, _ = await stack.enter_async_context(synod(wire))
        client = await (await stack.enter_async_context(Client(wire, follower))).joined()
        not_leader = plain(wire, b"KINO.RNDZVNOTLEADER", text(1, address_in(leader)))
        assert (
            live(wire, "rendezvous", "send", "KINO.WRITELEASE").body[-66:-64] == b"\n\x14"
        )  # a node of the same shape
        await client.say(b"KINO.REGEXTROUTE", announcement())
        await client.say(b"KINO.PING")
        await until(lambda: follower.statistics.refused[Refusal.NOT_LEADER] == 2)
        for socket in (client.broadcast, client.partner):
            for _ in range(3):
                assert await receive(socket) == not_leader
        assert follower.statistics.relayed == 0


def shape(body: bytes) -> list[Any]:
    """Take a protobuf message apart: each field's number, and what is inside if that is a message too."""
    fields: list[Any] = []
    for number, value in protobuf_fields(body):
        if isinstance(value, int):
            fields.append(number)
        else:
            is_message = value[:1] in (b"\x08", b"\x0a", b"\x12") and len(value) not in (36, 37)
            fields.append((number, shape(value) if is_message else None))
    return fields


@in_both
@on_loop
async def test_members_elect_a_leader_with_the_messages_of_the_reference(wire: str) -> None:
    async with synod(wire) as servers, Scripted(wire) as script:
        uris = [server.settings.synod_address for server in servers]
        heard: dict[bytes, Fields] = {}
        ears = [script.socket(zmq.SUB, connect=uri) for uri in uris]
        wanted = {b"KINO.READLEASE", b"KINO.ACKREADLEASE", b"KINO.WRITELEASE", b"KINO.ACKWRITELEASE"}
        pulse = b"KINO.QUORUM-HEARTBEAT"

        async def listen(ear: Socket) -> None:
            while not heard.keys() >= wanted | {pulse}:
                try:
                    frames = ear.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    await asyncio.sleep(0.001)
                    continue
                message = read(wire, frames)
                assert frames[:2] == NOTHING
                heard[message.identity] = message

        await asyncio.wait_for(asyncio.gather(*map(listen, ears)), 5)
        for identity in wanted:
            ours, theirs = heard[identity], live(wire, "rendezvous", "send", identity.decode())
            assert write(wire, ours.but(body=theirs.body)) == write(wire, theirs)
        for identity in wanted - {b"KINO.ACKREADLEASE"}:
            assert shape(heard[identity].body) == shape(live(wire, "rendezvous", "send", identity.decode()).body)
        # Once a lease was written it is told with the promise, behind the ballot that wrote it.
        ballot = (1, [1, (2, None), 3])
        node = [(1, None), (2, None), (3, None)]
        assert shape(heard[b"KINO.ACKREADLEASE"].body) == [
            ballot,
            (2, ballot[1]),
            (3, [(1, None), 2, (3, node)]),
            (4, None),
        ]
        assert heard[pulse].body in [text(1, str(uri).encode()) for uri in uris]
        assert address_in(servers[0]) in heard[b"KINO.WRITELEASE"].body


@on_loop
async def test_when_the_leader_stops_another_one_leads_and_relays() -> None:
    async with synod(V5) as (leader, *followers):
        await leader.stop()
        await until(lambda: any(server.is_leader for server in followers))
        successor = next(server for server in followers if server.is_leader)
        async with Client(V5, successor) as client:
            await client.joined()
            said = await client.say(b"KINO.REGEXTROUTE", announcement())
            assert await client.next(but=(b"KINO.HEARTBEAT", b"KINO.RNDZVNOTLEADER")) == said


# -- partners ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def partners(wire: str, *, domains: tuple[str, ...] = ("*",)) -> AsyncIterator[tuple[Client, Client]]:
    """Start two networks that let each other's routes in, and a client of each."""
    here, there = free_addresses(2)

    def settings(own: str, other: str, name: str) -> dict[str, Any]:
        partner = PartnerNetwork(network_id=name, cluster=[other], allowed_domains=domains)
        return {"partner_address": own, "partners": [partner]}

    async with (
        rendezvous(wire, **settings(here, there, "there")) as one,
        rendezvous(wire, **settings(there, here, "here")) as other,
        Client(wire, one) as client,
        Client(wire, other) as partner,
    ):
        await client.joined()
        await partner.joined()
        await until(lambda: one.statistics.for_listening and other.statistics.for_listening)
        yield client, partner


@in_both
@on_loop
async def test_what_is_said_in_one_network_is_heard_in_its_partner_and_does_not_come_back(wire: str) -> None:
    async with partners(wire) as (client, partner):
        said = await client.say(b"KINO.REGEXTROUTE", announcement())
        assert await client.next() == said
        assert await partner.next() == said
        answer = await partner.say(b"KINO.REQCLUSTROUTES", address_of("tcp://127.0.0.1:1", guid()))
        assert await client.next() == answer  # and not its own message once more
        assert await partner.next() == answer
        assert await client.next(client.partner) == said
        assert await partner.next(partner.partner) == answer  # what came from a partner is not for partners
        assert client.server.statistics.relayed == partner.server.statistics.relayed == 2


@in_both
@on_loop
async def test_a_domain_that_is_not_let_in_stays_in_its_own_network(wire: str) -> None:
    async with partners(wire, domains=("shared",)) as (client, partner):
        await client.say(b"KINO.REGEXTROUTE", announcement(), domain=b"private")
        await client.say(b"KINO.REGEXTROUTE", announcement())
        shared = await client.say(b"KINO.REGEXTROUTE", announcement(), domain=b"shared")
        assert await partner.next() == shared
        assert partner.server.statistics.refused == {Refusal.FOREIGN_DOMAIN: 2}


@in_both
@on_loop
async def test_a_ping_in_one_network_is_not_answered_in_its_partner(wire: str) -> None:
    async with partners(wire) as (client, partner):
        await client.say(b"KINO.PING")
        said = await client.say(b"KINO.UNREGNODE", address_of("tcp://127.0.0.1:1", guid()))
        assert await client.next() == plain(wire, b"KINO.PONG")
        assert await partner.next() == said


@on_loop
async def test_a_server_that_may_have_any_port_takes_any_for_each_of_its_sockets() -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(rendezvous()) for _ in range(3)]
        uris = {uri for server in servers for uri in address_in(server).split(b"tcp://")[1:]}
        assert len(uris) == 9
        assert servers[0].settings.address == ANYWHERE


def test_ports_are_counted_from_the_one_that_the_server_got() -> None:
    assert address_above("tcp://127.0.0.1:8001-8009", "tcp://127.0.0.1:8003", 10) == "tcp://127.0.0.1:8013"
    assert address_above("tcp://127.0.0.1:0", "tcp://127.0.0.1:41234", 10) == "tcp://127.0.0.1:0"


@on_loop
async def test_a_server_goes_on_after_something_went_wrong() -> None:
    async with rendezvous() as server:
        await until(lambda: server.statistics.heartbeats)
        running = server.runtime
        healthy, failures = running._health, []

        class Failing:
            def tick(self, now: int) -> list[object]:
                running._health = healthy
                failures.append(now)
                raise OSError("too many open files")

        running._health = cast("Any", Failing())
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        await until(lambda: failures)
        before = server.statistics.heartbeats
        await until(lambda: server.statistics.heartbeats > before + 2)
