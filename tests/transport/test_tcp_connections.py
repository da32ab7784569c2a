"""What our own transport does about peers that are slow, silent, old or greedy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hopline.transport.tcp.connection import WRITE_SIZE
from hopline.transport.tcp.listeners import TcpListener
from hopline.zmtp import Ping, SocketType, Version, encode_into
from hopline.zmtp.commands import ping
from tests.network.old_zmtp import DEALER, OldSockets
from tests.node.running import until

from .ends import NODE, World, descriptors, hello, on_tcp
from .raw import RawPeer

RESTLESS: dict[str, Any] = {"heartbeat_interval": 0.1, "heartbeat_timeout": 0.3}


@on_tcp
async def test_who_connects_and_does_not_shake_hands_is_left(world: World) -> None:
    inbox = world.inbox(handshake_timeout=0.2).read()
    _, uri = world.publisher(handshake_timeout=0.2)
    for address in (inbox.uri, uri):
        async with RawPeer(SocketType.DEALER) as silent:
            await silent.dial(address)
            await silent.read_to_the_end()


@on_tcp
async def test_who_accepts_and_does_not_shake_hands_is_left(world: World) -> None:
    async with RawPeer(SocketType.ROUTER) as silent:
        world.sender(silent.listen(), handshake_timeout=0.2)
        await silent.accept()
        await silent.read_to_the_end()


@on_tcp
async def test_a_peer_that_stops_answering_is_left(world: World) -> None:
    inbox = world.inbox(**RESTLESS).read()
    async with RawPeer(SocketType.DEALER) as halted:
        await halted.connect(inbox.uri)
        await halted.read_to_the_end()
        assert any(isinstance(event, Ping) for event in halted.events)
    async with RawPeer(SocketType.ROUTER, NODE) as halted:
        outbox = world.outbox(refusal_timeout=60.0, handshake_timeout=60.0, **RESTLESS)
        link = outbox.link(NODE, halted.listen())
        await halted.accept()
        await halted.shake()
        await until(lambda: not link.is_silent)
        await halted.read_to_the_end()
        await until(lambda: link.is_silent)


@on_tcp
async def test_a_peer_of_an_older_version_is_sent_no_ping_and_may_be_silent(world: World) -> None:
    inbox = world.inbox(**RESTLESS).read()
    async with RawPeer(SocketType.DEALER, version=Version.V3_0) as older, OldSockets() as sockets:
        assert (await older.connect(inbox.uri)).version is Version.V3_1  # what we could speak
        oldest = await sockets.connect(inbox.uri, DEALER)
        for _ in range(2):  # the time in which others are left
            async with RawPeer(SocketType.DEALER) as halted:
                await halted.connect(inbox.uri)
                await halted.read_to_the_end()
        await older.write(b"\x00\x053.0 !")
        await oldest.send([b"2.0 !"])
        await until(lambda: len(inbox.got) == 2)
        assert sorted(frames[1] for frames in inbox.got) == [b"2.0 !", b"3.0 !"]
        for silence in (older.read(), oldest.receive()):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(silence, 0.05)
        assert older.events == []


@on_tcp
async def test_a_peer_that_answers_is_kept_however_short_the_timeout_is(world: World) -> None:
    inbox = world.inbox(heartbeat_interval=0.0).read()
    sender = world.sender(inbox.uri, heartbeat_interval=1.0, heartbeat_timeout=1.0)
    assert sender.send([b"before"])
    for _ in range(2):  # the time in which it would be left
        async with RawPeer(SocketType.ROUTER) as halted:
            world.sender(halted.listen(), heartbeat_interval=1.0, heartbeat_timeout=1.0)
            await halted.accept()
            await halted.shake()
            await halted.read_to_the_end()
    assert sender.send([b"after"])
    await until(lambda: len(inbox.got) == 2)
    assert inbox.got[0][0] == inbox.got[1][0]  # the identity that a connection was given


@on_tcp
async def test_a_timeout_of_weeks_is_no_obstacle(world: World) -> None:
    weeks: dict[str, Any] = {"heartbeat_interval": 10.0, "heartbeat_timeout": 1e7}
    inbox = world.inbox(**weeks).read()
    assert world.sender(inbox.uri, **weeks).send([b"hello"])
    await until(lambda: inbox.got)


@on_tcp
async def test_pings_of_a_peer_that_reads_nothing_fill_no_memory(world: World) -> None:
    inbox = world.inbox().read()
    assert isinstance(inbox.listener, TcpListener)
    async with RawPeer(SocketType.DEALER) as greedy:
        await greedy.dial(inbox.uri, buffer=4_096)
        await greedy.shake()
        await until(lambda: inbox.listener._by_identity)  # type: ignore[attr-defined]
        (connection,) = inbox.listener._by_identity.values()
        many = ping(60.0, bytes(16)) * 20_000
        for _ in range(30):
            await greedy.write(many)
        assert connection.is_blocked
        assert connection._size < WRITE_SIZE


@on_tcp
async def test_a_burst_larger_than_a_publisher_keeps_is_heard_by_who_listens(world: World) -> None:
    publisher, uri = world.publisher(capacity=10)
    heard: list[list[bytes]] = []
    world.subscriber(heard.append).connect(uri)

    def is_heard() -> bool:
        publisher.send([b"are you there"])
        return bool(heard)

    await until(is_heard)
    heard.clear()
    for number in range(500):
        publisher.send([b"%d" % number])
    await until(lambda: heard and heard[-1] == [b"499"])
    assert [int(frames[0]) for frames in heard if frames[0].isdigit()] == list(range(500))


@on_tcp
async def test_a_sender_that_lingers_is_gone_when_its_last_words_have_left(world: World) -> None:
    inbox = world.inbox().read()
    before = len(descriptors())
    sender = world.sender(inbox.uri)
    assert sender.send([b"goodbye"])
    sender.close(linger=300.0)  # before there is a connection
    await until(lambda: inbox.got)
    await until(lambda: len(descriptors()) == before)


@on_tcp
async def test_a_peer_that_breaks_the_protocol_is_left_and_others_are_not(world: World) -> None:
    inbox = world.inbox().read()
    sender = world.sender(inbox.uri)
    assert sender.send([b"before"])
    async with RawPeer(SocketType.DEALER) as broken:
        await broken.connect(inbox.uri)
        await broken.write(b"\xf8 reserved flags")
        await broken.read_to_the_end()
    assert sender.send([b"after"])
    await until(lambda: len(inbox.got) == 2)
    assert inbox.got[0][0] == inbox.got[1][0]


@on_tcp
async def test_what_a_peer_sent_before_it_reset_the_connection_is_taken_in_although_nothing_can_be_written(
    world: World,
) -> None:
    inbox = world.inbox().read()
    assert isinstance(inbox.listener, TcpListener)
    pieces: list[bytes] = []
    for number in range(200):
        encode_into(pieces, [b"%d" % number, bytes(100)])
    async with RawPeer(SocketType.DEALER) as gone:
        await gone.connect(inbox.uri)
        await until(lambda: inbox.listener._by_identity)  # type: ignore[attr-defined]
        (connection,) = inbox.listener._by_identity.values()
        gone.write_and_reset(b"".join(pieces))
        connection._send_control(ping(60.0, b""))
        connection.flush()  # before the loop sees that there is something to read
    assert not connection.is_open
    assert [frames[1] for frames in inbox.got] == [b"%d" % number for number in range(200)]


@on_tcp
async def test_a_peer_of_the_wrong_kind_is_refused(world: World) -> None:
    _, uri = world.publisher()
    outbox = world.outbox(refusal_timeout=0.2)
    outbox.link(NODE, uri).offer(hello(1))
    await until(lambda: outbox.gave_up)
    assert outbox.sent == []
