"""`Connection` on plain TCP against the sockets of libzmq, which know the protocol best."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
import zmq

from hopline.zmtp import (
    Connection,
    Event,
    PeerError,
    Ping,
    Pong,
    Ready,
    SocketType,
    Subscription,
    Version,
    Violation,
    encode_message,
)

PATIENCE = 10.0  # seconds
MOMENT = 0.02
LOCAL = "127.0.0.1"
SIZES = (0, 1, 254, 255, 256, 257, 65_536, 3_000_000)
E = TypeVar("E")


class Link:
    """A connection on a socket, which blocks, but never for longer than `PATIENCE`."""

    def __init__(
        self, stream: socket.socket, peer: zmq.Socket[bytes], socket_type: SocketType, identity: bytes = b""
    ) -> None:
        self._stream = stream
        self._stream.settimeout(PATIENCE)
        self._peer = peer
        self.connection = Connection(socket_type, identity)
        self._events: deque[Event] = deque()
        self.send(b"")

    def send(self, data: bytes) -> None:
        self._stream.sendall(self.connection.take_output() + data)

    def has_data(self) -> bool:
        """Wait a moment for bytes of libzmq; asking for its events lets it go on with what its own threads began."""
        self._peer.get(zmq.EVENTS)
        return bool(select.select([self._stream], [], [], MOMENT)[0])

    def receive(self) -> bytes:
        deadline = time.monotonic() + PATIENCE
        while not self.has_data():
            assert time.monotonic() < deadline, "libzmq says nothing"
        try:
            return self._stream.recv(65_536)
        except ConnectionResetError:
            return b""

    def next_event(self) -> Event:
        while not self._events:
            data = self.receive()
            assert data, "libzmq closed the connection"
            self._events.extend(self.connection.receive(data))
            self.send(b"")
        return self._events.popleft()

    def next_of(self, kind: type[E]) -> E:
        """Return the next event of a kind; what comes before it is passed over."""
        while True:
            event = self.next_event()
            assert not isinstance(event, Violation | PeerError)
            if isinstance(event, kind):
                return event

    def events_until_the_end(self) -> list[Event]:
        """Return what is reported until libzmq closes the connection, without any answer from us."""
        events = list(self._events)
        while data := self.receive():
            events.extend(self.connection.receive(data))
        return events


class Stage:
    """Sockets of libzmq and links to them, which are closed together."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._peers: list[zmq.Socket[bytes]] = []
        self._streams: list[socket.socket] = []

    def zmq_socket(self, kind: int, **options: int | bytes) -> zmq.Socket[bytes]:
        peer = self._context.socket(kind)
        self._peers.append(peer)
        peer.linger = 0
        peer.rcvtimeo = peer.sndtimeo = int(PATIENCE * 1000)
        for name, value in options.items():
            peer.set(getattr(zmq, name), value)
        return peer

    def connect(self, peer: zmq.Socket[bytes], socket_type: SocketType, identity: bytes = b"") -> Link:
        """Let libzmq bind, and connect to it."""
        port = peer.bind_to_random_port(f"tcp://{LOCAL}")
        stream = socket.create_connection((LOCAL, port), PATIENCE)
        self._streams.append(stream)
        return Link(stream, peer, socket_type, identity)

    def accept(self, peer: zmq.Socket[bytes], socket_type: SocketType, identity: bytes = b"") -> Link:
        """Bind, and let libzmq connect."""
        with socket.create_server((LOCAL, 0)) as server:
            server.settimeout(PATIENCE)
            peer.connect(f"tcp://{LOCAL}:{server.getsockname()[1]}")
            stream, _ = server.accept()
        self._streams.append(stream)
        return Link(stream, peer, socket_type, identity)

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        for peer in self._peers:
            peer.close()
        self._context.term()


Joining = Callable[[Stage, "zmq.Socket[bytes]", SocketType, bytes], Link]


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


@pytest.fixture(params=[Stage.connect, Stage.accept], ids=["connecting", "binding"])
def join(request: pytest.FixtureRequest) -> Joining:
    joining: Joining = request.param
    return joining


def test_a_dealer_talks_to_the_router_of_libzmq(stage: Stage, join: Joining) -> None:
    router = stage.zmq_socket(zmq.ROUTER)
    link = join(stage, router, SocketType.DEALER, b"us")
    assert link.next_event() == Ready(Version.V3_1, SocketType.ROUTER, b"")
    for size in SIZES:
        frames = [b"x" * size, b"", b"y" * size]
        link.send(encode_message(frames))
        assert router.recv_multipart() == [b"us", *frames]
        router.send_multipart([b"us", *frames])
        assert link.next_event() == frames


def test_a_router_talks_to_the_dealer_of_libzmq(stage: Stage, join: Joining) -> None:
    dealer = stage.zmq_socket(zmq.DEALER, ROUTING_ID=b"them")
    link = join(stage, dealer, SocketType.ROUTER, b"us")
    assert link.next_event() == Ready(Version.V3_1, SocketType.DEALER, b"them")
    for size in SIZES:
        frames = [b"x" * size, b"", b"y" * size]
        dealer.send_multipart(frames)
        assert link.next_event() == frames
        link.send(encode_message(frames))
        assert dealer.recv_multipart() == frames


def test_routers_know_each_other_by_their_identities(stage: Stage, join: Joining) -> None:
    router = stage.zmq_socket(zmq.ROUTER, ROUTING_ID=b"t" * 255)
    link = join(stage, router, SocketType.ROUTER, b"u" * 255)
    assert link.next_event() == Ready(Version.V3_1, SocketType.ROUTER, b"t" * 255)
    link.send(encode_message([b"hello"]))
    assert router.recv_multipart() == [b"u" * 255, b"hello"]


def test_a_subscriber_gets_from_the_publisher_of_libzmq_what_it_subscribed_to(stage: Stage, join: Joining) -> None:
    publisher = stage.zmq_socket(zmq.XPUB)  # a PUB that shows its subscriptions
    link = join(stage, publisher, SocketType.SUB, b"")
    assert link.next_event() == Ready(Version.V3_1, SocketType.XPUB, b"")
    link.send(link.connection.subscription(b"a") + link.connection.subscription(b"t" * 300))
    assert publisher.recv() == b"\1a"
    assert publisher.recv() == b"\1" + b"t" * 300
    for frames in ([b"b", b"unwanted"], [b"apple", b"1"], [b"t" * 300, b"2"]):
        publisher.send_multipart(frames)
    assert [link.next_event(), link.next_event()] == [[b"apple", b"1"], [b"t" * 300, b"2"]]
    link.send(link.connection.subscription(b"a", is_wanted=False))
    assert publisher.recv() == b"\0a"
    publisher.send_multipart([b"apple", b"unwanted"])
    publisher.send_multipart([b"t" * 300, b"3"])
    assert link.next_event() == [b"t" * 300, b"3"]


def test_a_plain_pub_of_libzmq_is_understood(stage: Stage, join: Joining) -> None:
    publisher = stage.zmq_socket(zmq.PUB)
    link = join(stage, publisher, SocketType.SUB, b"")
    assert link.next_event() == Ready(Version.V3_1, SocketType.PUB, b"")
    link.send(link.connection.subscription(b"a"))
    deadline = time.monotonic() + PATIENCE
    while not link.has_data():  # a PUB tells nobody that it has taken a subscription
        assert time.monotonic() < deadline
        publisher.send_multipart([b"b", b"unwanted"])
        publisher.send_multipart([b"apple", b"1"])
    assert link.next_event() == [b"apple", b"1"]


def test_a_publisher_learns_what_the_subscriber_of_libzmq_wants(stage: Stage, join: Joining) -> None:
    subscriber = stage.zmq_socket(zmq.SUB, SUBSCRIBE=b"early")
    link = join(stage, subscriber, SocketType.PUB, b"")
    assert link.next_event() == Ready(Version.V3_1, SocketType.SUB, b"")
    assert link.next_event() == Subscription(b"early", is_wanted=True)
    subscriber.set(zmq.SUBSCRIBE, b"t" * 300)
    assert link.next_event() == Subscription(b"t" * 300, is_wanted=True)
    subscriber.set(zmq.UNSUBSCRIBE, b"early")
    assert link.next_event() == Subscription(b"early", is_wanted=False)
    link.send(encode_message([b"t" * 300, b"body"]))
    assert subscriber.recv_multipart() == [b"t" * 300, b"body"]


def test_libzmq_answers_our_ping(stage: Stage, join: Joining) -> None:
    router = stage.zmq_socket(zmq.ROUTER)
    link = join(stage, router, SocketType.DEALER, b"us")
    link.next_of(Ready)
    link.send(link.connection.ping(30))
    assert link.next_event() == Pong(b"")


def test_we_answer_the_pings_of_libzmq_and_so_stay_connected(stage: Stage, join: Joining) -> None:
    options = {"HEARTBEAT_IVL": 20, "HEARTBEAT_TTL": 1500, "HEARTBEAT_TIMEOUT": 5000}
    dealer = stage.zmq_socket(zmq.DEALER, ROUTING_ID=b"them", **options)
    link = join(stage, dealer, SocketType.ROUTER, b"us")
    link.next_of(Ready)
    assert [link.next_of(Ping) for _ in range(5)] == [Ping(1.5)] * 5
    dealer.send_multipart([b"still", b"here"])
    assert link.next_of(list) == [b"still", b"here"]


def test_libzmq_gives_up_a_peer_that_does_not_answer_its_pings(stage: Stage) -> None:
    """The counterpart of the test above: it is our answers that keep the connection."""
    router = stage.zmq_socket(zmq.ROUTER, HEARTBEAT_IVL=20, HEARTBEAT_TIMEOUT=100)
    link = stage.connect(router, SocketType.DEALER)
    link.next_of(Ready)
    assert set(map(type, link.events_until_the_end())) <= {Ping}


def test_sockets_that_do_not_fit_together_do_not_become_ready(stage: Stage, join: Joining) -> None:
    publisher = stage.zmq_socket(zmq.PUB)
    link = join(stage, publisher, SocketType.DEALER, b"")
    # We send READY only when its greeting has come, which is the first thing; then it refuses us.
    while b"READY" not in (output := link.connection.take_output()):
        link.send(output)
        link.connection.receive(link.receive())
    link.send(output)
    events = link.events_until_the_end()
    assert all(isinstance(event, Violation | PeerError) for event in events)
    assert not link.connection.is_ready
