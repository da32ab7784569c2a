"""What our own transport promises beyond the interface: exact room, one write a turn, nothing lost or doubled."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from hopline.transport import SocketSettings, Unsent
from hopline.transport.tcp import dialer
from hopline.transport.tcp.peers import TcpPeerLink
from hopline.transport.tcp.sockets import tune
from hopline.zmtp import SocketType
from tests.node.running import on_loop, until

from .ends import NODE, World, fill, hello, numbers, on_tcp
from .raw import RawPeer

CAPACITY = 10
SMALL_BUFFER = 4_096
PADDING = 20_000


def bodies(unsent: Unsent) -> list[bytes]:
    return [message.body for message, _ in unsent]


@on_tcp
async def test_room_is_exact_and_there_is_no_hidden_queue(world: World) -> None:
    async with RawPeer(SocketType.ROUTER, NODE) as peer:
        outbox = world.outbox(link_capacity=CAPACITY)
        link = outbox.link(NODE, peer.listen(SMALL_BUFFER))
        accepted = 0
        while link.offer(hello(accepted, PADDING)):
            accepted += 1
        assert (accepted, outbox.sent) == (CAPACITY, [])
        await peer.accept()
        await peer.shake()  # and read nothing more
        accepted += await fill(link, PADDING, first=accepted)
        assert accepted - len(outbox.sent) == link.waiting == CAPACITY
        returned = bodies(outbox.peers.disconnect(NODE))
        assert len(returned) == CAPACITY
        await peer.read_to_the_end()
        assert peer.bodies == outbox.sent
        assert numbers(peer.bodies + returned) == list(range(accepted))


@on_tcp
async def test_a_message_that_left_in_part_is_sent_again_whole(world: World) -> None:
    async with RawPeer(SocketType.ROUTER, NODE) as peer:
        outbox = world.outbox(link_capacity=CAPACITY, refusal_timeout=60.0, handshake_timeout=60.0)
        link = outbox.link(NODE, peer.listen(SMALL_BUFFER))
        assert link.offer(hello(0, PADDING))
        await peer.accept()
        await peer.shake()
        accepted = 1 + await fill(link, PADDING, first=1)
        peer.drop()
        await peer.accept()
        await peer.shake()
        await peer.read_until(lambda: len(peer.bodies) >= CAPACITY)
        arrived = numbers(peer.bodies)
        assert arrived == list(range(accepted - len(arrived), accepted))
        assert numbers(outbox.sent) == list(range(accepted))  # each was reported once
        waited = dict(outbox.waited)
        assert all(waited[body] > 0 for body in peer.bodies)
        assert (link.waiting, outbox.gave_up) == (0, [])


@on_tcp
async def test_a_message_that_left_in_part_is_returned_whole_when_the_peer_does_not_come_back(world: World) -> None:
    async with RawPeer(SocketType.ROUTER, NODE) as peer:
        outbox = world.outbox(link_capacity=CAPACITY, refusal_timeout=0.2)
        link = outbox.link(NODE, peer.listen(SMALL_BUFFER))
        assert link.offer(hello(0, PADDING))
        await peer.accept()
        await peer.shake()
        accepted = 1 + await fill(link, PADDING, first=1)
        peer.close()
        await until(lambda: outbox.gave_up)
        ((_, unsent),) = outbox.gave_up
        assert numbers(outbox.sent + bodies(unsent)) == list(range(accepted))
        assert unsent


@on_tcp
async def test_what_left_is_not_returned_to_who_disconnects_when_told_of_it(world: World) -> None:
    peer = world.inbox(NODE).read()
    outbox = world.outbox()
    link = outbox.link(NODE, peer.uri)
    link.offer(hello(0))
    await until(lambda: peer.got)
    returned: list[bytes] = []
    outbox.peers.on_sent = lambda node, _, __: returned.extend(bodies(outbox.peers.disconnect(node, 30.0)))
    assert all(link.offer(hello(number)) for number in range(1, 10))
    await until(lambda: len(peer.got) == 10)
    assert returned == []


class SpyingSocket:
    """A socket that counts what is written to it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.writes = 0

    def send(self, data: bytes) -> int:
        self.writes += 1
        return self._socket.send(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


@on_tcp
async def test_everything_that_is_sent_in_one_turn_is_written_at_once(world: World) -> None:
    peer = world.inbox(NODE).read()
    link = world.outbox().link(NODE, peer.uri)
    assert isinstance(link, TcpPeerLink)
    link.offer(hello(0))
    await until(lambda: peer.got)
    assert link._connection is not None
    spy = SpyingSocket(link._connection._socket)
    link._connection._socket = spy  # type: ignore[assignment]
    for turn in range(1, 4):
        assert all(link.offer(hello(number)) for number in range(100))
        assert spy.writes == turn - 1
        await until(lambda turn=turn: len(peer.got) == 1 + 100 * turn)  # type: ignore[misc]
        assert spy.writes == turn


def test_a_connection_to_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def bind_to_target(sock: socket.socket, settings: SocketSettings) -> None:
        tune(sock, settings)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", int(uri.rpartition(":")[2])))

    @on_loop
    async def run() -> None:
        world = World("tcp")
        outbox = world.outbox(refusal_timeout=0.2)
        outbox.link(NODE, uri).offer(hello(1))
        outbox.link(b"", uri).offer(hello(2))  # which is the identity that it would present to itself
        await until(lambda: len(outbox.gave_up) == 2)
        assert outbox.sent == []
        world.close()

    uri = World("tcp").free_address()
    monkeypatch.setattr(dialer, "tune", bind_to_target)
    run()
