"""Whatever is thrown at our ports: nothing falls, nothing changes, everything is counted, and work goes on."""

from __future__ import annotations

import asyncio
import logging
import random
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest
import zmq

from hopline import DeliveryError, Domain, DomainSecurity, Message, Node, NodeSettings, Outcome, RendezvousServer
from hopline.cluster import RendezvousAddress
from hopline.rendezvous.relay import Refusal
from hopline.transport import SocketSettings
from tests.node.running import on_loop, until

from .frames import BOTH, V5, V6, address_of, discovery, heartbeat, live, live_frames, read, registration, text, write
from .ours import Ehhlo, Hello, Reversing, attachment, handlers, knows, membership, our_node, rendezvous, tables
from .processes import free_addresses
from .scripted import EHHLO, HELLO, NOTHING, KinoNode, KinoRendezvous, Scripted, guid, receive, send, where

GREETING = b"\n\x06kino-2"
REVERSED = b"\n\x062-onik"
GIGABYTES = 2 * 1024**3
KEY = b"a secret that only members share"

in_both = pytest.mark.parametrize("wire", BOTH)


@asynccontextmanager
async def network(wire: str, **ours: Any) -> AsyncIterator[tuple[Node, Reversing, KinoNode, RendezvousServer]]:
    """Start a server and a node of ours and a scripted node; all must be as before at the end, and at work."""
    actor = Reversing()
    async with (
        rendezvous(wire) as server,
        our_node(wire, server.address, actors=(actor,), **ours) as node,
        KinoNode(wire, server.address.broadcast_uri, server.address.unicast_uri) as kino,
    ):
        await kino.join()
        await until(lambda: knows(node, kino.identity) and membership(node).is_confirmed)
        before = known(node)
        with no_errors():
            yield node, actor, kino, server
            assert known(node) == before
            assert server.is_leader
            await works(node, actor, kino)


class Errors(logging.Handler):
    """Keeps what is logged as an error: something fell that should not."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def no_errors() -> Iterator[None]:
    """Check that nothing is logged as an error, by us or by the event loop."""
    errors = Errors()
    logging.getLogger().addHandler(errors)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(errors)
    assert not errors.records, errors.records


def known(node: Node) -> Any:
    """Give all that a node knows of others, and whom it follows."""
    external = tables(node).external
    nodes = {name: (one.uri, sorted(one.hubs), sorted(one.actors)) for name, one in external._nodes.items()}
    return nodes, handlers(node, HELLO), membership(node).follower.server, membership(node).follower.changes


async def works(node: Node, actor: Reversing, kino: KinoNode) -> None:
    """Let the peer ask us, us ask the peer, and both find each other through the server."""
    request = kino.request(GREETING)
    await kino.tell(node.identity, node.uri, request)
    reply = read(kino.wire, await kino.received())
    assert (reply.body, reply.correlation) == (REVERSED, request.correlation)
    await node.remove(actor)  # so that the peer is the only one to ask
    asking = asyncio.create_task(node.hub.send(Hello(GREETING), callback=Ehhlo))
    await kino.tell(node.identity, node.uri, kino.reply(await kino.received(), EHHLO, REVERSED))
    assert await asking == REVERSED
    await kino.say_plainly(b"KINO.DISCOVMSGROUTE", kino.search(receiver=node.hub.identity))
    await kino.registered()


# -- bytes that are no ZMTP --------------------------------------------------------------------------------------------

SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
NULL_GREETING = SIGNATURE + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)


def ready(kind: bytes) -> bytes:
    """Introduce a socket of a kind, as ZMTP 3.0 does."""
    properties = b"\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    properties += b"\x08Identity" + struct.pack(">I", 0)
    command = b"\x05READY" + properties
    return b"\x04" + bytes((len(command),)) + command


def noises() -> Iterator[tuple[str, bytes]]:
    """Give bytes to throw at a port."""
    source = random.Random(20_240_101)
    yield "random bytes", source.randbytes(4096)
    yield "random bytes behind a signature", SIGNATURE + b"\x03" + source.randbytes(4096)
    yield "a web browser", b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    yield "TLS", bytes.fromhex("16030100a5010000a10303") + source.randbytes(160)
    yield "half a greeting", NULL_GREETING[:11]
    yield "a greeting and no more", NULL_GREETING
    yield "zeros", bytes(1000)
    yield (
        "another mechanism",
        SIGNATURE + b"\x03\x00" + b"PLAIN".ljust(20, b"\0") + b"\0" + bytes(31) + source.randbytes(50),
    )
    yield "no such socket", NULL_GREETING + ready(b"WARDROBE")
    yield "a broken introduction", NULL_GREETING + b"\x04\x08\x05READY\xff\xff"


def huge_frames() -> Iterator[tuple[str, bytes]]:
    """Give headers of frames that would not fit anywhere."""
    for kind in (b"DEALER", b"ROUTER"):
        yield (
            f"a frame of 2 GB from a {kind.decode()}",
            NULL_GREETING + ready(kind) + b"\x02" + struct.pack(">Q", GIGABYTES),
        )
    yield "a command of 2 GB", NULL_GREETING + b"\x06" + struct.pack(">Q", GIGABYTES)
    yield "a frame of 16 EB", NULL_GREETING + ready(b"DEALER") + b"\x02" + b"\xff" * 8


async def throw(uri: str, noise: bytes, *, until_closed: bool = False) -> None:
    """Connect to a port, write bytes there, and go; or wait until the other side hangs up."""
    host, port = uri.removeprefix("tcp://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(noise)
        await writer.drain()
        if until_closed:
            await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        pass
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@on_loop
async def test_bytes_that_are_no_zmtp_do_nothing_to_any_port() -> None:
    async with network(V5) as (node, _, _, server):
        before = node.stats()
        address = server.address
        ports = (
            node.uri,
            attachment(node).health_uri,
            address.unicast_uri,
            address.broadcast_uri,
            address.partner_broadcast_uri,
        )
        for uri in ports:
            for _, noise in noises():
                await throw(uri, noise)
        # Where libzmq takes noise for the frames of a very old peer, it comes in and is counted.
        await until(lambda: node.stats().received == node.stats().outcomes[Outcome.REJECTED])
        assert node.stats().submitted == before.submitted
        assert set(server.statistics.refused) <= {Refusal.MALFORMED}
        assert not membership(node).traffic.refused


@on_loop
async def test_a_frame_that_claims_to_be_huge_costs_its_sender_the_connection() -> None:
    async with network(V5) as (node, _, _, server):
        for uri in (node.uri, server.address.unicast_uri):
            for _, noise in huge_frames():
                await throw(uri, noise, until_closed=True)


@on_loop
async def test_a_connection_that_never_says_anything_keeps_nobody_waiting() -> None:
    async with network(V5) as (node, _, kino, server):
        idle = []
        for uri in (node.uri, server.address.unicast_uri, server.address.broadcast_uri):
            host, port = uri.removeprefix("tcp://").split(":")
            for _ in range(20):
                idle.append(await asyncio.open_connection(host, int(port)))
        for _, writer in idle[::2]:
            writer.write(NULL_GREETING[:30])
        await kino.tell(node.identity, node.uri, kino.request(GREETING))
        assert read(V5, await kino.received()).body == REVERSED
        for _, writer in idle:
            writer.close()
            await writer.wait_closed()


# -- frames that are no messages ---------------------------------------------------------------------------------------


def junk(wire: str) -> list[list[bytes]]:
    """Give multipart messages that nobody can read."""
    source = random.Random(20_240_102)
    hello = live_frames(wire, "server", "recv", "HELLO")[1:]
    messages = [
        [b""],
        [b"", b""],
        [source.randbytes(200)],
        [b"", b"", source.randbytes(3)],
        [source.randbytes(source.randrange(1, 60)) for _ in range(30)],
        [b"x"] * 9_000,
        hello[:-1],
        [*hello[:-1], b"\x09\x00"],
        [*hello[:-1], hello[-1] + b"\xff" if wire == V5 else hello[-1][:40]],
    ]
    if wire == V5:
        messages += [
            [*hello[:-2], b"\xff\xff\x01\x00\x00\x00\x00\x00", hello[-1]],
            hello[5:],
            [*hello[:-3], b"now", *hello[-2:]],
        ]
    else:
        messages += [[*hello[:-1], hello[-1][:size]] for size in range(2, len(hello[-1]), 37)]
        messages += [[*hello[:-1], hello[-1].replace(b"\x05\0\0\0HELLO", b"\xff\xff\xff\x7fHELLO")]]
    return messages


@in_both
@on_loop
async def test_junk_at_our_frontend_is_rejected_and_counted(wire: str) -> None:
    async with network(wire) as (node, _, _, _), Scripted(wire) as stranger:
        dealer = stranger.socket(zmq.DEALER, connect=node.uri)
        router = stranger.socket(zmq.ROUTER, connect=node.uri)
        messages = junk(wire)
        for message in messages:
            await send(dealer, message)
            await send(router, [node.identity, *message])
        await until(lambda: node.stats().outcomes[Outcome.REJECTED] == 2 * len(messages))


@in_both
@on_loop
async def test_junk_at_our_rendezvous_server_is_refused_and_counted(wire: str) -> None:
    async with network(wire) as (node, _, _, server), Scripted(wire) as stranger:
        heard = membership(node).traffic.received
        dealer = stranger.socket(zmq.DEALER, connect=server.address.unicast_uri)
        messages = junk(wire)
        for message in messages:
            await send(dealer, message)
        await until(lambda: sum(server.statistics.refused.values()) == len(messages))
        assert set(server.statistics.refused) <= {Refusal.MALFORMED, Refusal.AMBIGUOUS}
        assert membership(node).traffic.received == heard
        statistics = server.statistics
        assert statistics.received == statistics.relayed + statistics.pings + len(messages)


@in_both
@on_loop
async def test_junk_from_a_server_or_a_peers_heart_is_refused_and_counted(wire: str) -> None:
    actor = Reversing()
    async with (
        KinoRendezvous(wire) as server,
        our_node(wire, RendezvousAddress(server.broadcast_uri, server.unicast_uri), actors=(actor,)) as node,
        KinoNode(wire, server.broadcast_uri, server.unicast_uri) as kino,
    ):
        await kino.join()
        await until(lambda: knows(node, kino.identity) and membership(node).is_confirmed)
        before, refused = known(node), membership(node).traffic.refused
        for message in junk(wire):
            await send(server.broadcast, message)
        await until(lambda: refused["malformed"] == len(junk(wire)))
        await kino.tell(node.identity, node.uri, kino.request(GREETING))
        await kino.received()  # from now on its heart is listened for
        health = membership(node).health._peers[kino.identity]
        heard_at = health.heard_at  # only once the connection stands is anything heard
        kino.fall_silent()
        kino.beat()
        await until(lambda: health.heard_at > heard_at)
        for message in junk(wire):
            await send(kino.heartbeats, message)
        await until(lambda: refused["malformed"] == 2 * len(junk(wire)))
        pulse = live(wire, "server", "send", "KINO.HEARTBEAT")
        for body in (heartbeat(5000, guid(), kino.health_uri), heartbeat(5000), b""):
            await send(kino.heartbeats, NOTHING + write(wire, pulse.but(body=body)))
        await until(lambda: refused["heartbeat of a stranger"] == 3)
        await send(kino.heartbeats, NOTHING + write(wire, pulse.but(body=b"\xff\xff\xff")))
        await send(kino.heartbeats, NOTHING + write(wire, pulse.but(identity=b"KINO.UNREGNODE", body=kino.goodbye())))
        await until(lambda: refused["malformed"] == 2 * len(junk(wire)) + 2)
        assert known(node) == before
        await works(node, actor, kino)


@on_loop
async def test_sockets_of_the_wrong_kind_get_nowhere() -> None:
    async with network(V5) as (node, _, _, server), Scripted(V5) as stranger:
        before = node.stats()
        hello = live_frames(V5, "server", "recv", "HELLO")
        for uri in (node.uri, server.address.unicast_uri):
            for kind in (zmq.PUB, zmq.PUSH, zmq.PAIR, zmq.XSUB, zmq.REP):
                socket = stranger.socket(kind, connect="")
                monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_DISCONNECTED)
                socket.connect(uri)
                with suppress(zmq.ZMQError):  # who has no peer cannot send
                    socket.send_multipart(hello, zmq.NOBLOCK)
                await receive(monitor)  # it was hung up on
                socket.disable_monitor()
                monitor.close(0)
        for uri in (attachment(node).health_uri, server.address.broadcast_uri, server.address.partner_broadcast_uri):
            subscriber = stranger.socket(zmq.XSUB, connect=uri)
            source = random.Random(3)
            for _ in range(200):  # subscriptions to anything, and messages that nobody reads
                await send(subscriber, [source.choice([b"\x01", b"\x00", b"\x07"]) + source.randbytes(30)])
            await send(subscriber, [b"\x01"])
            await receive(subscriber)  # it is served as anybody
        assert node.stats() == before


# -- messages that are not what they seem ------------------------------------------------------------------------------


@in_both
@on_loop
async def test_what_only_a_server_or_the_node_itself_may_say_is_refused_from_anybody_else(wire: str) -> None:
    async with network(wire) as (node, _, kino, server):
        stranger = text(1, b"tcp://127.0.0.1:1") + text(2, b"tcp://127.0.0.1:2")
        plain = live(wire, "server", "send", "KINO.UNREGNODE")
        local_only = [
            b"KINO.UNREGUNREACHABLENODE",
            b"KINO.ADDPEER",
            b"KINO.STARTPEERMON",
            b"KINO.DELETEPEER",
            b"KINO.CHCKDEADPEERS",
            b"KINO.CHCKSTALEPEERS",
            b"KINO.CHCKPEERCON",
            b"KINO.QUORUM-RECONNECT",
        ]
        for identity in local_only:
            await kino.tell(node.identity, node.uri, plain.but(identity=identity, body=text(1, kino.identity)))
        await until(lambda: node.stats().outcomes[Outcome.REJECTED] == len(local_only))
        for identity in (b"KINO.RNDZVNOTLEADER", b"KINO.RNDZVRECONFIG"):
            await kino.say(plain.but(identity=identity, body=text(1, stranger)))
        await kino.say(plain.but(identity=b"KINO.UNREGUNREACHABLENODE", body=text(1, kino.identity)))
        await kino.say(plain.but(identity=b"KINO.HEARTBEAT", body=heartbeat(1)))
        await until(lambda: server.statistics.refused == {Refusal.LEADERS_ONLY: 3, Refusal.EVICTION: 1})


@in_both
@on_loop
async def test_service_messages_with_bodies_that_cannot_be_read_are_refused_and_counted(wire: str) -> None:
    async with network(wire) as (node, _, kino, _):
        refused = membership(node).traffic.refused
        uri, health_uri, actor = kino.uri, kino.health_uri, [(kino.actor, [HELLO])]
        bodies = {
            b"KINO.REGEXTROUTE": [
                b"\xff",
                b"",
                registration("http://127.0.0.1", kino.identity, actor, health_uri, 1000),
                registration(uri, b"", actor, health_uri, 1000),
                registration(uri, kino.identity, actor, "", 1000),
                registration(uri, kino.identity, actor, health_uri, 1000).replace(
                    b"\x12\x04\x08\x02\x10\x03", b"\x12\x00"
                ),
                text(1, b"tcp://\xff\xfe") + text(2, kino.identity),
            ],
            b"KINO.UNREGMSGROUTE": [b"\x0a\xff", text(3, text(1, kino.actor) + text(2, b"\x08\xff\xff\xff\xff\x0f"))],
            b"KINO.UNREGNODE": [b"\x12\x50short"],
            b"KINO.REQCLUSTROUTES": [b"\x08"],
            b"KINO.DISCOVMSGROUTE": [b"\xff\xff"],
            b"KINO.REQNODEROUTES": [b"\x0a"],
        }
        count = 0
        for identity, some in bodies.items():
            for body in some:
                await kino.say_plainly(identity, body)
                plain = live(wire, "server", "send", "KINO.UNREGNODE").but(identity=identity, body=body)
                await kino.tell(node.identity, node.uri, plain)
                count += 2
                await until(lambda: refused["malformed"] == count)  # noqa: B023
        assert set(refused) == {"malformed"}


NO_ADDRESSES = (
    "tcp://",
    "tcp://127.0.0.1",
    "tcp://127.0.0.1:",
    "tcp://127.0.0.1:0",
    "tcp://127.0.0.1:99999",
    "tcp://127.0.0.1:5101-5130",
    "tcp://127.0.0.1:5101/",
    "tcp://*:5101",
    "tcp://[::1:5",
    "tcp://10.77.0.\x11:6210",
    "tcp://eth0;127.0.0.1:5101",
    "ipc:///tmp/socket",
    "inproc://zeromq.zap.01",
)


@in_both
@on_loop
async def test_routes_to_what_is_no_address_are_refused_and_counted(wire: str) -> None:
    async with network(wire) as (node, _, kino, _):
        refused = membership(node).traffic.refused
        for uri in NO_ADDRESSES:
            before = refused["malformed"]
            for uris in ((uri, kino.health_uri), (kino.uri, uri)):
                body = registration(uris[0], guid(), [(b"\x01" + guid(), [HELLO])], uris[1], 60_000)
                await kino.say_plainly(b"KINO.REGEXTROUTE", body)
            await until(lambda: refused["malformed"] == before + 2)  # noqa: B023
            await kino.say_plainly(b"KINO.REQCLUSTROUTES", address_of(uri, guid()))
            await until(lambda: refused["malformed"] == before + 3)  # noqa: B023


@in_both
@on_loop
async def test_routes_to_where_nobody_is_do_no_harm(wire: str) -> None:
    sockets, settings = SocketSettings(refusal_timeout=0.2, handshake_timeout=0.5), NodeSettings(discovery_timeout=0.5)
    async with network(wire, sockets=sockets, settings=settings) as (node, _, kino, _):
        nowhere = free_addresses(3)
        ghosts = [guid() for _ in nowhere]
        for ghost, uri in zip(ghosts, nowhere, strict=True):
            body = registration(uri, ghost, [(b"\x01" + guid(), [b"GHOST"])], uri, 60_000)
            await kino.say_plainly(b"KINO.REGEXTROUTE", body)
        await until(lambda: sorted(handlers(node, b"GHOST")) == sorted(ghosts))
        with pytest.raises(DeliveryError):
            await node.hub.send(Message.flow_start(b"GHOST"), callback=Ehhlo, timeout=5)
        for ghost in ghosts:
            await kino.say_plainly(b"KINO.UNREGNODE", address_of("tcp://127.0.0.1:1", ghost))
        await until(lambda: not handlers(node, b"GHOST"))


@in_both
@on_loop
async def test_who_asks_in_the_name_of_another_does_not_draw_its_messages_away(wire: str) -> None:
    async with network(wire) as (node, _, kino, _), Scripted(wire) as thief:
        await kino.tell(node.identity, node.uri, kino.request(GREETING))
        assert read(wire, await kino.received()).body == REVERSED  # the link to the peer stands
        trap = where(thief.socket(zmq.ROUTER, identity=kino.identity))
        await kino.say_plainly(b"KINO.REQCLUSTROUTES", address_of(trap, kino.identity))
        await kino.say_plainly(b"KINO.DISCOVMSGROUTE", discovery(trap, kino.identity, HELLO))
        await until(lambda: membership(node).traffic.refused["wrong address"] == 2)


def secured() -> DomainSecurity:
    domain = Domain("greetings", KEY, ["HELLO", "EHHLO"], refuse_replays=True)
    return DomainSecurity([domain], clock=time.time)


@in_both
@on_loop
async def test_forged_and_replayed_routes_are_refused_where_there_are_keys(wire: str) -> None:
    async with (
        rendezvous(wire) as server,
        KinoNode(wire, server.address.broadcast_uri, server.address.unicast_uri) as spy,
        our_node(wire, server.address, security=secured(), actors=(Reversing(),)) as node,
    ):
        await spy.join()
        async with our_node(wire, server.address, security=secured()) as other:
            asked = await spy.hear(b"KINO.REQCLUSTROUTES")
            announced = await spy.hear(b"KINO.REGEXTROUTE")
            while other.identity not in announced[2]:
                announced = await spy.hear(b"KINO.REGEXTROUTE")
            await until(lambda: knows(node, other.identity) and knows(other, node.identity))
            assert await other.hub.send(Hello(GREETING), callback=Ehhlo) == REVERSED
            refused = membership(node).traffic.refused
            assert refused["unknown_domain"] == 1  # the spy's own routes, in the domain without a name
            before = known(node)

            await send(spy.unicast, announced)
            await send(spy.unicast, asked)
            await until(lambda: refused["replayed"] >= 2)
            message = read(wire, announced)
            forged = message.but(body=message.body.replace(other.uri.encode(), spy.uri.encode().ljust(len(other.uri))))
            await spy.say(forged)
            await until(lambda: refused["wrong_signature"] == 1)
            await spy.say(message.but(signature=b""))
            await spy.say(
                message.but(identity=b"KINO.UNREGNODE", body=address_of(other.uri, other.identity), signature=b"")
            )
            await until(lambda: refused["unsigned"] == 2)
            await spy.say(message.but(identity=b"KINO.UNREGNODE"))
            await until(lambda: refused["wrong_signature"] == 2)
            assert known(node) == before

            rejected = node.stats().outcomes[Outcome.REJECTED]
            await spy.tell(node.identity, node.uri, spy.request())
            await until(lambda: node.stats().outcomes[Outcome.REJECTED] == rejected + 1)
            assert await other.hub.send(Hello(GREETING), callback=Ehhlo) == REVERSED
            membership(other).traffic.refused.clear()


@on_loop
async def test_junk_in_a_synod_is_counted_and_changes_nothing() -> None:
    member, evil = free_addresses(2)
    async with Scripted(V6) as script:
        publisher = script.socket(zmq.PUB, connect="")
        publisher.bind(evil)
        async with rendezvous(V6, synod=[member, evil], synod_address=member) as server:
            assert server.is_running
            messages = [*junk(V6), NOTHING + write(V6, live(V6, "rendezvous", "send", "KINO.HEARTBEAT"))]
            lease = live(V6, "rendezvous", "send", "KINO.WRITELEASE")
            messages += [NOTHING + write(V6, lease.but(body=body)) for body in (b"\xff", b"\x0a\x02\x08")]
            running = server.runtime
            count = await _joined(publisher, lambda: running.refused_in_synod)
            for message in messages:
                await send(publisher, message)
            await until(lambda: running.refused_in_synod == count + len(messages))
            assert server.lease is None
            assert not server.is_leader


async def _joined(publisher: Any, heard: Callable[[], int]) -> int:
    """Publish something unreadable until it is heard, and give how often it was."""
    sent = 0
    while not heard():
        await send(publisher, [b"?"])
        sent += 1
        await asyncio.sleep(0.01)
    await send(publisher, [b"?"])
    count = heard()
    await until(lambda: heard() > count)
    return heard()
