"""What only links by libzmq have: retries instead of a writer, and encryption. The rest is in the conformance tests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import zmq

from hopline import ArgumentError, Curve, Message, WireFormat
from hopline.errors import BindError
from hopline.node.routing.links import Links
from hopline.transport import Frames, SocketSettings, new_keys, parse
from hopline.transport.libzmq import peers
from hopline.transport.libzmq.authenticator import zap_authenticator
from hopline.transport.libzmq.peers import Backend, PeerLink
from hopline.transport.libzmq.reader import SocketReader
from hopline.transport.libzmq.sockets import bind, open_socket, send
from hopline.wire import decode, encode
from tests.node.running import on_loop, soon, turns, until

HASTY = SocketSettings(refusal_timeout=0.2, handshake_timeout=0.5)
NODE = b"node-a"


class Peer:
    """A frontend that keeps what it gets."""

    def __init__(
        self, identity: bytes = NODE, address: str = "tcp://127.0.0.1:0", curve: Curve | None = None, **settings: int
    ) -> None:
        self.got: list[Message] = []
        opened = open_socket(zmq.ROUTER, SocketSettings(**settings), identity=identity, curve=curve, is_server=True)
        self._socket = opened
        try:
            self.uri = bind(opened, parse(address))
        except BindError:
            opened.close(0)
            raise
        self._inlet: SocketReader | None = None

    def read(self) -> None:
        self._inlet = SocketReader(self._socket, lambda frames: self.got.append(decode(frames)), batch=10)

    def close(self) -> None:
        if self._inlet is not None:
            self._inlet.close()
        self._socket.close(0)


class Sender:
    """A backend, and what it gave up."""

    def __init__(self, settings: SocketSettings = HASTY, curve: Curve | None = None) -> None:
        self.gave_up: list[tuple[bytes, list[tuple[Message, float]]]] = []
        self.backend = Backend(
            settings,
            lambda message: message,
            lambda message, node, _: encode(message.clone(socket_identity=node), WireFormat.V5),
            lambda node, left: self.gave_up.append((node, left)),
            time.monotonic,
            curve=curve,
        )


@asynccontextmanager
async def sender(settings: SocketSettings = HASTY, curve: Curve | None = None) -> AsyncIterator[Sender]:
    one = Sender(settings, curve)
    try:
        yield one
    finally:
        one.backend.close(0)


def hello(number: int = 0) -> Message:
    return Message.flow_start(b"HELLO", b"%d" % number).clone(hops=1)


@on_loop
async def test_a_message_was_sent_before_libzmq_took_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]

    def slow_send(socket: zmq.Socket[bytes], frames: Frames) -> None:
        send(socket, frames)
        now[0] += 0.022  # another process has the processor meanwhile, and the message has arrived

    monkeypatch.setattr(peers, "send", slow_send)
    peer = Peer()
    peer.read()
    async with sender() as one:
        sent: list[tuple[bytes, float]] = []
        one.backend.clock = lambda: now[0]
        one.backend.on_sent = lambda node, _, when: sent.append((node, when))
        link = one.backend.link(NODE, peer.uri)
        assert link.offer(hello())
        await until(lambda: peer.got)
        assert sent == [(NODE, 100.0)]
    peer.close()


@asynccontextmanager
async def full_link() -> AsyncIterator[tuple[Backend, PeerLink]]:
    """Give a link that is full, to a peer that is there. What waits has expired when it is looked at next."""
    peer = Peer()
    peer.read()
    async with sender(SocketSettings(link_capacity=5)) as one:
        backend = one.backend
        link = backend.link(NODE, peer.uri)
        link.offer(hello())
        await until(lambda: peer.got and not backend._pending)
        link._silent_since = time.monotonic()  # so that what is offered waits
        write = backend.write
        backend.write = lambda message, node, waited: () if waited else write(message, node, waited)
        while link.offer(hello()):
            pass
        link._silent_since = None
        yield backend, link
    peer.close()


@on_loop
async def test_room_that_came_before_anybody_waited_for_it_is_seen() -> None:
    async with full_link() as (backend, link):
        waiting = asyncio.create_task(link.room())
        backend._look()  # empties the link before the task begins, and looks after it no longer
        assert not link.waiting
        await soon(waiting)


@on_loop
async def test_a_router_hears_of_room_that_came_before_its_watch_began() -> None:
    async with full_link() as (backend, link):
        heard: list[bytes | None] = []
        links = Links(backend.link, lambda _: link.uri, heard.append)
        links.watch(NODE, link)
        backend._look()
        await until(lambda: heard)
        assert heard == [None]
        links.stop_watching()


@on_loop
async def test_all_who_wait_until_nothing_waits_are_told() -> None:
    async with full_link() as (backend, _):
        waiting = [asyncio.create_task(backend.nothing_waits()) for _ in range(2)]
        await turns(2)
        await soon(asyncio.gather(*waiting))


@on_loop
async def test_what_ended_while_its_peer_was_left_is_not_given_back() -> None:
    async with sender() as one:
        given_back: list[Message] = []

        def write(message: Message, node: bytes, waited: float) -> list[bytes]:
            if waited and message.body == b"0":  # its lifetime is over, and telling that leads elsewhere
                given_back.extend(left for left, _ in one.backend.disconnect(node))
            return []

        one.backend.write = write
        link = one.backend.link(NODE, "tcp://127.0.0.1:1")
        link.offer(hello(0))
        link.offer(hello(1))
        await until(lambda: given_back)
        assert [message.body for message in given_back] == [b"1"]
        assert not one.backend.waiting
        one.backend.link(b"node-b", "tcp://127.0.0.1:1").offer(hello(2))
        await until(lambda: not one.backend.waiting)  # others are still looked after


# -- encryption --------------------------------------------------------------------------------------------------------


def keys(network: tuple[bytes, bytes], admitted: frozenset[bytes] = frozenset()) -> Curve:
    public, secret = new_keys()
    return Curve(network_public=network[0], network_secret=network[1], public=public, secret=secret, admitted=admitted)


@on_loop
async def test_members_of_an_encrypted_network_reach_each_other() -> None:
    network = new_keys()
    member = keys(network)
    host = keys(network, frozenset({member.public}))
    zap_authenticator.add(host)
    peer = Peer(curve=host)
    peer.read()
    async with sender(curve=member) as one:
        one.backend.link(NODE, peer.uri).offer(hello())
        await until(lambda: peer.got)
    peer.close()
    zap_authenticator.remove(host)


@pytest.mark.parametrize("stranger", ["without keys", "of another network", "not admitted"])
def test_strangers_do_not_get_into_an_encrypted_network(stranger: str) -> None:
    @on_loop
    async def run() -> None:
        network = new_keys()
        host = keys(network, frozenset({keys(network).public}))
        curves = {"without keys": None, "of another network": keys(new_keys()), "not admitted": keys(network)}
        zap_authenticator.add(host)
        before = zap_authenticator.refused
        peer = Peer(curve=host)
        peer.read()
        async with sender(curve=curves[stranger]) as one:
            one.backend.link(NODE, peer.uri).offer(hello())
            await until(lambda: one.gave_up)
            assert peer.got == []
        if stranger == "not admitted":
            assert zap_authenticator.refused > before
        peer.close()
        zap_authenticator.remove(host)

    run()


@on_loop
async def test_no_peer_is_admitted_without_an_authenticator() -> None:
    network = new_keys()
    peer = Peer(curve=keys(network, frozenset({keys(network).public})))
    peer.read()
    async with sender(curve=keys(network)) as one:
        one.backend.link(NODE, peer.uri).offer(hello())
        await until(lambda: one.gave_up)
        assert peer.got == []
    peer.close()


@pytest.mark.parametrize("is_in_order", [True, False])
def test_the_door_is_kept_when_the_loop_that_kept_it_has_ended(is_in_order: bool) -> None:
    network = new_keys()
    first, second, member = keys(network), keys(network), keys(network)
    is_kept, is_enough = threading.Event(), threading.Event()

    async def keep_for_a_while() -> None:
        zap_authenticator.add(first)
        is_kept.set()
        await asyncio.to_thread(is_enough.wait)
        if is_in_order:
            zap_authenticator.remove(first)

    @on_loop
    async def reach_each_other() -> None:
        if not is_in_order:
            is_enough.set()
            await asyncio.to_thread(before.join)
        zap_authenticator.add(second)
        is_enough.set()
        await asyncio.to_thread(before.join)
        peer = Peer(curve=second)
        peer.read()
        async with sender(curve=member) as one:
            one.backend.link(NODE, peer.uri).offer(hello())
            await until(lambda: peer.got)
        peer.close()
        zap_authenticator.remove(second)

    before = threading.Thread(target=lambda: asyncio.run(keep_for_a_while()))
    before.start()
    is_kept.wait()
    reach_each_other()


def test_keys_are_never_shown() -> None:
    network = new_keys()
    member = keys(network)
    for shown in (repr(member), str(member)):
        assert member.secret.decode() not in shown
        assert network[1].decode() not in shown
    with pytest.raises(ArgumentError) as refused:
        Curve(network_public=network[0], network_secret=b"too short", public=member.public, secret=member.secret)
    assert "too short" not in str(refused.value)
