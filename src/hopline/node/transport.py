"""What a node or a rendezvous server opens: the ends of its connections. libzmq is one way to have them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from hopline.message import LocalError, Message
from hopline.node.links import Link
from hopline.transport import (
    DEALER,
    PUB,
    ROUTER,
    SUB,
    Backend,
    Curve,
    Frames,
    Handshakes,
    Inlet,
    OnSent,
    Outlet,
    SocketSettings,
    bind,
    connect,
    doorkeeper,
    open_socket,
    parse,
    resolve,
)

Take = Callable[[list[bytes]], None]
Unsent = list[tuple[Message, float]]  # messages that never left, and how long each waited


class Sender(Protocol):
    """Sends, and never waits."""

    def send(self, frames: Frames) -> bool:
        """Send a message, now or later, or say that there is no room."""
        ...

    def close(self, linger: float = 0.0) -> None:
        """Send nothing more; what was sent may still leave, for so many seconds."""
        ...


class Listener(Protocol):
    """Takes messages from anybody, at its address."""

    @property
    def uri(self) -> str:
        """The address that it got."""
        ...

    def read(self, take: Take) -> None:
        """Begin to take what came, and what comes."""
        ...

    def close(self) -> None:
        """Take nothing more."""
        ...


class Subscriber(Protocol):
    """Hears what others publish."""

    def connect(self, uri: str) -> None:
        """Listen there too."""
        ...

    def disconnect(self, uri: str) -> None:
        """Listen there no longer."""
        ...

    def close(self) -> None:
        """Listen nowhere."""
        ...


class PeerLink(Link, Protocol):
    """The way to one node, with how it stands."""

    @property
    def node(self) -> bytes:
        """Whom it leads to."""
        ...

    @property
    def uri(self) -> str:
        """Where that node is."""
        ...

    @property
    def waiting(self) -> int:
        """How many messages wait here."""
        ...

    @property
    def is_silent(self) -> bool:
        """Tell whether the node has not shaken hands yet, or is away."""
        ...


class Peers(Protocol):
    """The links to other nodes."""

    on_sent: OnSent | None  # who is told what left

    @property
    def links(self) -> Sequence[PeerLink]:
        """The links to all peers."""
        ...

    def link(self, node: bytes, uri: str) -> PeerLink:
        """Give the link to a peer, or raise `PeerGoneError`."""
        ...

    def disconnect(self, node: bytes, linger: float = 0.0) -> Unsent:
        """Forget a peer, and return what never left for it; what did may still get there, for so many seconds."""
        ...

    async def nothing_waits(self) -> None:
        """Wait until everything left, or was given up."""
        ...

    def close(self, linger: float) -> None:
        """Give up every peer; what left may still get there, for so many seconds."""
        ...


class Transport(Protocol):
    """Opens ends."""

    def listener(self, address: str, field: str, *, identity: bytes = b"") -> Listener:
        """Take messages at an address; `field` names it when it cannot be had."""
        ...

    def publisher(self, address: str, field: str, capacity: int) -> tuple[Sender, str]:
        """Publish at an address, and tell which that became."""
        ...

    def subscriber(self, take: Take, broke: Callable[[], None] | None = None) -> Subscriber:
        """Hear what others publish, and perhaps when a connection to them broke."""
        ...

    def sender(self, uri: str, capacity: int) -> Sender:
        """Send to the listener at an address."""
        ...

    def peers(
        self,
        prepare: Callable[[Message], Message],
        write: Callable[[Message, bytes, float], Frames],
        gave_up: Callable[[bytes, Unsent], None],
        clock: Callable[[], float],
    ) -> Peers:
        """Send to nodes. See `hopline.transport.Backend` for what is handed in."""
        ...

    def can_connect(self, uri: str) -> bool:
        """Tell whether to connect to an address that a stranger announced."""
        ...

    async def resolve(self, uri: str) -> str:
        """Give an address with its name looked up, if that is possible."""
        ...

    def close(self) -> None:
        """Open no more."""
        ...


class ZmqTransport:
    """Sockets of libzmq."""

    def __init__(self, settings: SocketSettings, curve: Curve | None) -> None:
        self._settings = settings
        self._curve = curve
        if curve is not None:
            doorkeeper.add(curve)

    def listener(self, address: str, field: str, *, identity: bytes = b"") -> Listener:
        """Bind a ROUTER socket."""
        return _ZmqListener(self._settings, self._curve, address, field, identity)

    def publisher(self, address: str, field: str, capacity: int) -> tuple[Sender, str]:
        """Bind a PUB socket."""
        socket = open_socket(PUB, self._settings, curve=self._curve, is_server=True)
        socket.sndhwm = capacity
        try:
            uri = bind(socket, parse(address, field), field)
        except LocalError:
            socket.close(0)
            raise
        return Outlet(socket, capacity), uri

    def subscriber(self, take: Take, broke: Callable[[], None] | None = None) -> Subscriber:
        """Open a SUB socket that hears everything."""
        return _ZmqSubscriber(self._settings, self._curve, take, broke)

    def sender(self, uri: str, capacity: int) -> Sender:
        """Connect a DEALER socket."""
        socket = open_socket(DEALER, self._settings, curve=self._curve)
        connect(socket, uri)
        return Outlet(socket, capacity)

    def peers(
        self,
        prepare: Callable[[Message], Message],
        write: Callable[[Message, bytes, float], Frames],
        gave_up: Callable[[bytes, Unsent], None],
        clock: Callable[[], float],
    ) -> Peers:
        """Open a ROUTER socket that connects to peers."""
        return Backend(self._settings, prepare, write, gave_up, clock, curve=self._curve)

    def can_connect(self, uri: str) -> bool:
        """Refuse what is not one place, and names: libzmq looks them up in the one thread that serves every socket."""
        try:
            address = parse(uri)
        except LocalError:
            return False
        return address.is_one_place and address.is_numeric and str(address) == uri

    async def resolve(self, uri: str) -> str:
        """Look a name up, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(None, _resolved, uri)

    def close(self) -> None:
        """Take the keys away again."""
        if self._curve is not None:
            doorkeeper.remove(self._curve)


class _ZmqListener:
    def __init__(
        self, settings: SocketSettings, curve: Curve | None, address: str, field: str, identity: bytes
    ) -> None:
        self._batch = settings.batch
        self._socket = open_socket(ROUTER, settings, identity=identity, curve=curve, is_server=True)
        self._inlet: Inlet | None = None
        try:
            self.uri = bind(self._socket, parse(address, field), field)
        except LocalError:
            self._socket.close(0)
            raise

    def read(self, take: Take) -> None:
        self._inlet = Inlet(self._socket, take, batch=self._batch)

    def close(self) -> None:
        if self._inlet is None:
            self._socket.close(0)
        else:
            self._inlet.close()


class _ZmqSubscriber:
    def __init__(
        self, settings: SocketSettings, curve: Curve | None, take: Take, broke: Callable[[], None] | None
    ) -> None:
        socket = open_socket(SUB, settings, curve=curve)
        socket.subscribe(b"")
        batch = settings.batch
        self._tell_broke = broke
        self._handshakes = None if broke is None else Handshakes(socket, self, batch=batch)
        self._inlet = Inlet(socket, take, batch=batch)
        self.connect = self._inlet.connect
        self.disconnect = self._inlet.disconnect

    def came_up(self, uri: str) -> None:
        """Leave it to what comes over a connection to tell that it came up."""

    def broke(self, uri: str) -> None:  # noqa: ARG002 - who asks to be told has one
        if self._tell_broke is not None:
            self._tell_broke()

    def was_refused(self, uri: str) -> None:
        self.broke(uri)

    def close(self) -> None:
        if self._handshakes is not None:
            self._handshakes.close()
        self._inlet.close()


def _resolved(uri: str) -> str:
    try:
        return resolve(uri)
    except LocalError:
        return uri
