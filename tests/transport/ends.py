"""What the conformance tests run on: each implementation of the interface, and what a test opens with it.

A test is written once, against the interface, and marked with the implementations that it holds for: `on_all`, or
`on_real` for what the simulator leaves out (order, buffers that fill up, identities of senders, linger times).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

from hopline import Message, WireFormat
from hopline.errors import BindError
from hopline.simulation import VirtualLoop
from hopline.simulation.network import VirtualNetwork
from hopline.simulation.transport import SimulatedTransport
from hopline.transport import Frames, Link, Listener, Peers, Sender, SocketSettings, Subscriber, Transport, Unsent
from hopline.transport.libzmq import ZmqTransport
from hopline.transport.tcp import TcpTransport
from hopline.wire import decode, encode
from tests.network.processes import free_addresses
from tests.node.running import LONGEST, until

NODE = b"node-a"
ANYWHERE = "tcp://127.0.0.1:0"
A_WHILE = 0.2  # seconds in which a link that is not held up makes progress

Test: TypeAlias = "Callable[[World], Coroutine[Any, Any, None]]"


class Inbox:
    """A listener, and what it took."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.uri = listener.uri
        self.got: list[list[bytes]] = []

    def read(self) -> Inbox:
        self.listener.read(self.got.append)
        return self

    @property
    def bodies(self) -> list[bytes]:
        """What came from nodes."""
        return [decode(frames).body for frames in self.got]


class Outbox:
    """Links to peers, what left on them and what was given up."""

    def __init__(self, transport: Transport, clock: Callable[[], float]) -> None:
        self.gave_up: list[tuple[bytes, Unsent]] = []
        self.sent: list[bytes] = []  # bodies
        self.broken: list[bytes] = []  # peers whose connections broke
        self.waited: list[tuple[bytes, float]] = []  # bodies, as often as they were written
        self.expired: set[bytes] = set()  # bodies of messages whose lifetime is over if they have to wait
        self.peers: Peers = transport.peers(
            lambda message: message, self._write, lambda node, unsent: self.gave_up.append((node, unsent)), clock
        )
        self.peers.on_sent = lambda _, frames, __: self.sent.append(decode(frames).body)
        self.peers.on_broken = self.broken.append
        self.link = self.peers.link

    def _write(self, message: Message, node: bytes, waited: float) -> Frames:
        self.waited.append((message.body, waited))
        if waited and message.body in self.expired:
            return ()
        return encode(message.clone(socket_identity=node), WireFormat.V5)


class World:
    """One implementation. What is opened here is closed when the test ends."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.clock: Callable[[], float] = time.monotonic
        self._closing = ExitStack()
        self._network: VirtualNetwork | None = None
        self._hosts = 0
        if kind == "simulated":
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            self._network = VirtualNetwork(loop, Random(1))
            self.clock = loop.time

    def _transport(self, settings: dict[str, Any]) -> tuple[Transport, str]:
        """Open a transport, and return it with an address that it may bind to."""
        if self._network is not None:
            self._hosts += 1
            host = f"host-{self._hosts}"
            return SimulatedTransport(self._network, host), f"tcp://{host}:0"
        sockets = SocketSettings(**settings)
        transport: Transport = TcpTransport(sockets) if self.kind == "tcp" else ZmqTransport(sockets, None)
        self._closing.callback(transport.close)
        return transport, ANYWHERE

    def transport(self, **settings: Any) -> Transport:
        return self._transport(settings)[0]

    def inbox(self, identity: bytes = b"", address: str | None = None, **settings: Any) -> Inbox:
        """Listen, at a free address unless there is one given. Nothing is read yet."""
        transport, anywhere = self._transport(settings)
        inbox = Inbox(transport.listener(address or anywhere, "address", identity=identity))
        self._closing.callback(inbox.listener.close)
        return inbox

    async def inbox_at(self, address: str, identity: bytes = b"") -> Inbox:
        """Listen where another was closed a moment ago, which libzmq lets go of in a thread of its own."""
        opened: list[Inbox] = []

        def is_open() -> bool:
            with suppress(BindError):
                opened.append(self.inbox(identity, address))
            return bool(opened)

        await until(is_open)
        return opened[0]

    def outbox(self, **settings: Any) -> Outbox:
        """Open links to peers."""
        outbox = Outbox(self._transport(settings)[0], self.clock)
        self._closing.callback(lambda: outbox.peers.close(0.0))
        return outbox

    def sender(self, uri: str, capacity: int = 100, identity: bytes = b"", **settings: Any) -> Sender:
        sender = self._transport(settings)[0].sender(uri, capacity, identity=identity)
        self._closing.callback(sender.close)
        return sender

    def publisher(self, capacity: int = 100, address: str | None = None, **settings: Any) -> tuple[Sender, str]:
        transport, anywhere = self._transport(settings)
        publisher, uri = transport.publisher(address or anywhere, "address", capacity)
        self._closing.callback(publisher.close)
        return publisher, uri

    async def publisher_at(self, address: str) -> Sender:
        """Publish where another was closed a moment ago."""
        opened: list[Sender] = []

        def is_open() -> bool:
            with suppress(BindError):
                opened.append(self.publisher(address=address)[0])
            return bool(opened)

        await until(is_open)
        return opened[0]

    def subscriber(
        self, take: Callable[[list[bytes]], None], broke: Callable[[], None] | None = None, **settings: Any
    ) -> Subscriber:
        subscriber = self._transport(settings)[0].subscriber(take, broke)
        self._closing.callback(subscriber.close)
        return subscriber

    def free_address(self) -> str:
        """Return an address where nobody listens yet.

        It is none that the system gives to connections: there, whoever tries often enough is connected to itself.
        """
        return free_addresses(1)[0] if self._network is None else "tcp://host-later:1"

    def nobody(self) -> str:
        """Return an address where connections are refused, and which nobody else takes meanwhile."""
        if self._network is not None:
            return "tcp://nobody:1"
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        self._closing.callback(taken.close)
        return f"tcp://127.0.0.1:{taken.getsockname()[1]}"

    def close(self) -> None:
        self._closing.close()


def _on(*kinds: str) -> Callable[[Test], Callable[[str], None]]:
    def decorate(test: Test) -> Callable[[str], None]:
        async def run_in_world(kind: str) -> None:
            world = World(kind)
            try:
                await test(world)
            finally:
                world.close()

        @pytest.mark.parametrize("kind", kinds)
        def run(kind: str) -> None:
            if kind != "simulated":
                asyncio.run(asyncio.wait_for(run_in_world(kind), LONGEST), debug=True)
                return
            loop = VirtualLoop()
            try:
                loop.run_until_complete(run_in_world(kind))
            finally:
                loop.close()

        run.__name__, run.__qualname__, run.__module__ = test.__name__, test.__qualname__, test.__module__
        return run

    return decorate


on_all = _on("tcp", "libzmq", "simulated")
on_real = _on("tcp", "libzmq")
on_tcp = _on("tcp")


def descriptors() -> set[str]:
    """Return the files, sockets and pipes that this process has open, by number."""
    return {link.name for link in Path("/proc/self/fd").iterdir()}


def hello(number: int = 0, padding: int = 0) -> Message:
    return Message.flow_start(b"HELLO", b"%d" % number + bytes(padding)).clone(hops=1)


def numbers(bodies: list[bytes]) -> list[int]:
    """Return the numbers in the bodies of messages that `hello` made."""
    return [int(body.rstrip(b"\0")) for body in bodies]


async def fill(link: Link, padding: int = 100_000, first: int = 0) -> int:
    """Offer messages to a link until it takes no more for a while, and return how many it took."""
    count = 0
    while True:
        while link.offer(hello(first + count, padding)):
            count += 1
        try:
            await asyncio.wait_for(link.room(), A_WHILE)
        except TimeoutError:
            return count
