"""A node and a rendezvous server of the reference, played on raw sockets by the protocol's documents."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

import zmq

from hopline import Node

from .frames import (
    V6,
    Fields,
    address_of,
    discovery,
    heartbeat,
    live,
    live_frames,
    read,
    registration,
    rendezvous_node,
    signature,
    text,
    wire_of,
    write,
)

PATIENCE = 20.0  # seconds within which anything comes that is to come
HELLO, EHHLO, EXCEPTION, RECEIPT = b"HELLO", b"EHHLO", b"KINO.EXCEPTION", b"KINO.RCPTCONFIRM"
NOTHING = [b"", b""]  # the envelope of what is said to a server, or by one

Socket = zmq.Socket[bytes]


def guid() -> bytes:
    return str(uuid.uuid4()).encode()


async def receive(socket: Socket) -> list[bytes]:
    """Receive a message, or fail when none comes."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            assert time.monotonic() < deadline, "nothing came"
            await asyncio.sleep(0.001)


async def receive_whenever(socket: Socket) -> list[bytes]:
    """Receive a message, however long that takes."""
    while True:
        try:
            return socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            await asyncio.sleep(0.001)


async def send(socket: Socket, frames: Sequence[bytes]) -> None:
    """Send a message, as soon as its receiver has shaken hands."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN) or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.001)
        else:
            return


class Scripted:
    """Sockets and tasks that end together."""

    def __init__(self, wire: str) -> None:
        self.wire = wire
        self._context: zmq.Context[Socket] = zmq.Context()
        self._sockets: list[Socket] = []
        self._tasks: list[asyncio.Task[None]] = []

    def socket(self, kind: int, *, connect: str | None = None, identity: bytes = b"") -> Socket:
        """Open a socket and connect it, or bind it to a free port."""
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.linger = 0
        if identity:
            socket.set(zmq.ROUTING_ID, identity)
        if kind == zmq.ROUTER:
            socket.set(zmq.ROUTER_MANDATORY, 1)
        if kind == zmq.SUB:
            socket.subscribe(b"")
        if connect is None:
            socket.bind("tcp://127.0.0.1:*")
        elif connect:
            socket.connect(connect)
        return socket

    def every(self, seconds: float, act: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Do something again and again."""

        async def repeat() -> None:
            while True:
                await act()
                await asyncio.sleep(seconds)

        task = asyncio.create_task(repeat())
        self._tasks.append(task)
        return task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for socket in self._sockets:
            socket.close(0)
        self._context.destroy(linger=0)
        for one in ended:
            assert isinstance(one, asyncio.CancelledError), one


def where(socket: Socket) -> str:
    """Give the address that a socket is bound to."""
    return socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")


class KinoNode(Scripted):
    """A node with one actor for HELLO and one hub, as the captured server and client were."""

    def __init__(self, wire: str, broadcast_uri: str, unicast_uri: str, *, interval: int = 2000) -> None:
        super().__init__(wire)
        self.identity, self.actor, self.hub = guid(), b"\x01" + guid(), b"\x00" + guid()
        self.interval = interval  # ms
        self.frontend = self.socket(zmq.ROUTER, identity=self.identity)
        self.backend = self.socket(zmq.ROUTER, connect="")
        self.heartbeats = self.socket(zmq.PUB)
        self.broadcast = self.socket(zmq.SUB, connect=broadcast_uri)
        self.unicast = self.socket(zmq.DEALER, connect=unicast_uri)
        self.uri, self.health_uri = where(self.frontend), where(self.heartbeats)
        self.domain, self.key = b"", b""  # in which it signs, if it has a key
        self._connected: set[str] = set()
        self._beating: asyncio.Task[None] | None = None

    # -- the rendezvous ------------------------------------------------------------------------------------------------

    async def join(self, *, routes: Sequence[tuple[bytes, Sequence[bytes]]] | None = None) -> None:
        """Wait until the broadcast is heard, begin to beat, and announce the actor and the hub."""
        while True:
            await self.say(
                live(self.wire, "server", "send", "KINO.REQCLUSTROUTES").but(identity=b"KINO.PING", body=b"")
            )
            try:
                await asyncio.wait_for(self.hear(b"KINO.PONG"), 0.1)
            except TimeoutError:
                continue
            break
        self.beat()
        await self.announce(routes)

    def routes(self) -> list[tuple[bytes, Sequence[bytes]]]:
        return [(self.actor, [HELLO]), (self.hub, [])]

    async def announce(self, routes: Sequence[tuple[bytes, Sequence[bytes]]] | None = None) -> None:
        body = registration(self.uri, self.identity, routes or self.routes(), self.health_uri, self.interval)
        await self.say(live(self.wire, "server", "send", "KINO.REGEXTROUTE").but(body=body))

    async def say(self, message: Fields) -> None:
        """Send a message to the rendezvous server, for everybody."""
        await send(self.unicast, NOTHING + write(self.wire, self.signed(message)))

    def signed(self, message: Fields) -> Fields:
        """Label and sign a message, in a network where that is done."""
        if not self.key:
            return message
        return message.but(domain=self.domain, signature=signature(message, self.key))

    async def say_plainly(self, identity: bytes, body: bytes) -> None:
        """Say it with the headers that all service messages have."""
        await self.say(live(self.wire, "server", "send", "KINO.UNREGNODE").but(identity=identity, body=body))

    async def hear(self, identity: bytes) -> list[bytes]:
        """Wait for the next broadcast of a kind; what is in another format is dropped, as the reference does."""
        while True:
            frames = await receive(self.broadcast)
            if wire_of(frames) == self.wire and read(self.wire, frames).identity == identity:
                return frames

    async def hear_from(self, node: bytes, *identities: bytes) -> list[list[bytes]]:
        """Wait until a node has said one message of each kind, in whatever order, and return them in this one."""
        heard: dict[bytes, list[bytes]] = {}
        while heard.keys() < set(identities):
            frames = await receive(self.broadcast)
            if wire_of(frames) != self.wire:
                continue
            message = read(self.wire, frames)
            if message.identity in identities and node in message.body:
                heard[message.identity] = frames
        return [heard[identity] for identity in identities]

    async def hear_any(self) -> list[bytes]:
        """Wait for the next broadcast, however long that takes."""
        return await receive_whenever(self.broadcast)

    async def frontend_message(self) -> list[bytes]:
        """Wait for whatever another node sends, however long that takes."""
        return await receive_whenever(self.frontend)

    def beat(self) -> None:
        """Give signs of life from now on."""
        message = live(self.wire, "server", "send", "KINO.HEARTBEAT")
        body = heartbeat(self.interval, self.identity, self.health_uri)
        frames = NOTHING + write(self.wire, message.but(body=body))
        self._beating = self.every(self.interval / 1000, lambda: send(self.heartbeats, frames))

    def fall_silent(self) -> None:
        """Give no more signs of life."""
        assert self._beating is not None
        self._beating.cancel()

    # -- other nodes ---------------------------------------------------------------------------------------------------

    async def received(self) -> list[bytes]:
        """Wait for what another node sends, besides its registrations: every link begins with one."""
        while True:
            frames = await receive(self.frontend)
            assert wire_of(frames) == self.wire, "a node of the reference reads one format"
            if read(self.wire, frames).identity != b"KINO.REGEXTROUTE":
                return frames

    async def registered(self) -> list[bytes]:
        """Wait for the next registration that another node sends straight to this one."""
        while True:
            frames = await receive(self.frontend)
            assert wire_of(frames) == self.wire, "a node of the reference reads one format"
            if read(self.wire, frames).identity == b"KINO.REGEXTROUTE":
                return frames

    async def tell(self, node: bytes, uri: str, message: Fields) -> None:
        """Send a message to another node."""
        if uri not in self._connected:
            self._connected.add(uri)
            self.backend.connect(uri)
        await send(self.backend, [node, b"", *write(self.wire, self.signed(message))])

    def request(self, body: bytes = b"\n\x06kino-2", *, callbacks: Sequence[bytes] = (EHHLO, EXCEPTION)) -> Fields:
        """Make the captured client's request this node's own."""
        return live(self.wire, "server", "recv", "HELLO").but(
            body=body,
            callback_node=self.identity,
            callback_receiver=self.hub,
            key=7,
            routing=((self.uri.encode(), self.identity),),
            callbacks=tuple((b"", 1, identity) for identity in callbacks),
            correlation=guid(),
        )

    def expected(self, node: Node, request: Fields, identity: bytes, body: bytes) -> Fields:
        """Return what a node of ours must say to a request of this node."""
        return live(self.wire, "server", "send", "EHHLO").but(
            identity=identity,
            body=body,
            receiver=self.hub,
            receiver_node=self.identity,
            callback_node=self.identity,
            callback_receiver=self.hub,
            key=request.key,
            correlation=request.correlation,
            callbacks=request.callbacks,
            routing=(*request.routing, (node.uri.encode(), node.identity)),
        )

    def reply(self, frames: Sequence[bytes], identity: bytes, body: bytes) -> Fields:
        """Answer a request as the reference does; its V5 reader turns both lists round."""
        request = read(self.wire, frames)
        turn = slice(None, None, 1 if self.wire == V6 else -1)
        return live(self.wire, "server", "send", "EHHLO").but(
            identity=identity,
            body=body,
            receiver=request.callback_receiver,
            receiver_node=request.callback_node,
            trace=request.trace,
            callback_node=request.callback_node,
            key=request.key,
            routing=(*request.routing[turn], (self.uri.encode(), self.identity)),
            callbacks=request.callbacks[turn],
            callback_receiver=request.callback_receiver,
            correlation=request.correlation,
        )

    def receipt(self, frames: Sequence[bytes]) -> Fields:
        """Confirm a request as the reference does."""
        return self.reply(frames, RECEIPT, b"").but(callbacks=((b"", 1, RECEIPT),))

    def goodbye(self) -> bytes:
        return address_of(self.uri, self.identity)

    def search(self, identity: bytes | None = None, receiver: bytes | None = None) -> bytes:
        return discovery(self.uri, self.identity, identity, receiver)


class KinoRendezvous(Scripted):
    """A rendezvous server that leads, follows another, or says nothing."""

    LEADS, FOLLOWS, SILENT = "leads", "follows", "silent"

    def __init__(self, wire: str, *, part: str = LEADS, interval: int = 100) -> None:
        super().__init__(wire)
        self.part = part
        self.interval = interval
        self.leader: KinoRendezvous | None = None
        self.unicast = self.socket(zmq.ROUTER)
        self.broadcast = self.socket(zmq.PUB)
        self.unicast_uri, self.broadcast_uri = where(self.unicast), where(self.broadcast)
        self.relays = True
        self.arrived: list[list[bytes]] = []
        self.unreadable: list[list[bytes]] = []  # in another format than its own, and dropped

    async def __aenter__(self) -> Self:
        self.every(0.001, self._serve)
        self.every(self.interval / 1000, self._beat)
        return self

    async def _beat(self) -> None:
        if self.part == self.LEADS:
            message = live(self.wire, "rendezvous", "send", "KINO.HEARTBEAT").but(body=heartbeat(self.interval))
            # It sends the heartbeat to itself, and relays it as any other message.
            front = live_frames(V6, "libzmq_sub", "sub", "KINO.HEARTBEAT")[0] if self.wire == V6 else b""
            await send(self.broadcast, [front, b"", *write(self.wire, message)])
        elif self.part == self.FOLLOWS:
            await self._name_the_leader()

    async def _serve(self) -> None:
        while True:
            try:
                frames = self.unicast.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if wire_of(frames) != self.wire:
                self.unreadable.append(frames)
                continue
            self.arrived.append(frames)
            if self.part == self.FOLLOWS:
                await self._name_the_leader()
            elif self.part == self.LEADS and self.relays:
                await self._relay(frames)

    async def _relay(self, frames: list[bytes]) -> None:
        message = read(self.wire, frames)
        if message.identity == b"KINO.PING":
            await send(self.broadcast, NOTHING + write(self.wire, message.but(identity=b"KINO.PONG", body=b"")))
        else:
            await send(self.broadcast, [frames[0] if self.wire == V6 else b"", b"", *write(self.wire, message)])

    async def _name_the_leader(self) -> None:
        """Say it twice: once for each queue."""
        assert self.leader is not None
        for _ in range(2):
            await self.say(b"KINO.RNDZVNOTLEADER", text(1, self.leader.node()))

    def node(self) -> bytes:
        return rendezvous_node(self.broadcast_uri, self.unicast_uri, self.broadcast_uri)

    async def say(self, identity: bytes, body: bytes) -> None:
        """Publish a message of its own."""
        message = live(self.wire, "rendezvous", "send", "KINO.HEARTBEAT").but(identity=identity, body=body)
        await send(self.broadcast, NOTHING + write(self.wire, message))

    def heard(self, identity: bytes) -> list[list[bytes]]:
        """Give what came of a kind."""
        return [frames for frames in self.arrived if read(self.wire, frames).identity == identity]

    async def hear(self, identity: bytes, count: int = 1) -> list[bytes]:
        """Wait until so many messages of a kind came, and give the last."""
        deadline = time.monotonic() + PATIENCE
        while len(heard := self.heard(identity)) < count:
            assert time.monotonic() < deadline, f"{identity!r} never came"
            await asyncio.sleep(0.001)
        return heard[count - 1]
