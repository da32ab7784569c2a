"""The sending side of the data plane: a link for every peer, each with a ROUTER socket of its own.

Theory of operation. A ROUTER socket finds the connection for a message by the identity that the peer presented in its
handshake. That is how we notice that somebody else is at a peer's address: the socket knows nobody by the identity that
we mean, and the message stays here. But it is the peer that chooses what it presents. In a socket with several
connections any of them could present the identity of another and take over its messages; whoever makes this node
connect to it, by asking for routes for instance, could do so. Therefore no two connections share a socket: an identity
that a peer presents means something on the connection to that peer's own address, and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

import zmq

from hopline.message import Message, PeerGoneError, get_logger
from hopline.transport.condition import Condition
from hopline.transport.curve import Curve
from hopline.transport.interface import Frames, GaveUp, OnBroken, OnSent, Write
from hopline.transport.libzmq.monitor import ConnectionMonitor
from hopline.transport.libzmq.sockets import connect, open_socket, send
from hopline.transport.settings import SocketSettings

log = get_logger("hopline.transport")

RETRY = 0.005  # seconds between looks whether a peer has shaken hands or has room; only while something waits


def _open(backend: Backend) -> zmq.Socket[bytes]:
    """Open the socket of a link."""
    socket = open_socket(zmq.ROUTER, backend.settings, curve=backend.curve)
    socket.rcvhwm = 1  # nobody has anything to say on this side
    # A broken connection takes its queue with it. Else what lies there would go to whoever is at that address next.
    socket.set(zmq.IMMEDIATE, 1)
    # A peer that connects again must not be taken for an impostor of its own old connection.
    socket.set(zmq.ROUTER_HANDOVER, 1)
    return socket


class PeerLink:
    """The way to one peer. What comes before its handshake, or finds no room, waits here, up to a bound."""

    def __init__(self, backend: Backend, node: bytes, uri: str) -> None:
        self.node = node
        self.uri = uri
        self.is_gone = False
        self._backend = backend
        self._socket = _open(backend)
        try:
            self._handshakes = ConnectionMonitor(self._socket, self, batch=backend.settings.batch)
        except zmq.ZMQError:
            self._socket.close(0)
            raise
        self._waiting: deque[tuple[Message, float]] = deque()
        self._changed = Condition()
        self._silent_since: float | None = backend.clock()  # None once the peer is known to be there
        self._refused_since: float | None = None  # nobody is at its address, or somebody else

    def __repr__(self) -> str:
        return f"PeerLink({self.uri}, {len(self._waiting)} waiting)"

    def connect(self) -> None:
        """Connect to the peer's address, or raise `zmq.ZMQError`: it is none, or there is no file descriptor left."""
        try:
            connect(self._socket, self.uri)
        except zmq.ZMQError:
            self._close(linger=0.0)
            raise

    def offer(self, message: Message) -> bool:
        """Take a message for the peer; return whether there was room. Raise `PeerGoneError` when the peer is gone."""
        if self.is_gone:
            raise PeerGoneError(self.node)
        backend = self._backend
        message = backend.prepare(message)
        if not self.has_room:
            return False
        frames = backend.write(message, self.node, 0.0)  # what cannot be written is told now, also if it has to wait
        if not self._waiting and self._silent_since is None and self._send(frames):
            return True
        self._waiting.append((message, backend.clock()))
        backend.look_again(self)
        return True

    async def room(self) -> None:
        """Wait until there is room, or the peer is given up. Raises `PeerGoneError` when it already was."""
        if self.is_gone:
            raise PeerGoneError(self.node)
        await self._changed.wait_for(lambda: self.has_room or self.is_gone)

    def send_pending(self) -> bool:
        """Send what waits, as far as that is possible now, and tell whether something is left."""
        now = self._backend.clock()
        while self._waiting:
            message, since = self._waiting.popleft()  # first: what it leads to may end this link
            is_sent = False
            try:
                is_sent = self._try_to_send(message, now - since)
            finally:
                if not is_sent:
                    self._waiting.appendleft((message, since))
            if not is_sent:
                break
        self._changed.notify_all()
        return bool(self._waiting)

    def _try_to_send(self, message: Message, waited: float) -> bool:
        frames = self._backend.write(message, self.node, waited)
        return not frames or self._send(frames)  # none: its lifetime is over, which the writer has told

    def _send(self, frames: Frames) -> bool:
        on_sent = self._backend.on_sent
        # Read before libzmq takes the message: the peer may have it, and say when, before that call returns.
        sent_at = 0.0 if on_sent is None else self._backend.clock()
        try:
            send(self._socket, frames)
        except zmq.Again:  # it is there, and has no room
            self._silent_since = self._refused_since = None
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:  # else nobody has presented the peer's identity
                raise
            if self._silent_since is None:  # whoever shook hands is not, or not yet known to be, the one we mean
                self._silent_since = self._backend.clock()
                self.was_refused()
            return False
        self._silent_since = self._refused_since = None
        if on_sent is not None:
            on_sent(self.node, frames, sent_at)
        return True

    @property
    def has_room(self) -> bool:
        """Return whether `offer` would take another message."""
        return len(self._waiting) < self._backend.settings.link_capacity

    @property
    def is_silent(self) -> bool:
        """Return whether there is no connection: no handshake yet, or the peer is away."""
        return self._silent_since is not None

    def is_overdue(self, now: float) -> bool:
        """Return whether the peer is gone: refused for too long, or without a handshake in time."""
        settings, silent, refused = self._backend.settings, self._silent_since, self._refused_since
        return (refused is not None and now - refused > settings.refusal_timeout) or (
            silent is not None and now - silent > settings.handshake_timeout
        )

    def came_up(self, uri: str) -> None:  # noqa: ARG002 - a link has one address
        """Note that somebody shook hands at the peer's address; whether it is the peer shows when a message goes."""
        self._silent_since = None
        self.send_pending()
        if not self._waiting:
            self._refused_since = None

    def broke(self, uri: str) -> None:  # noqa: ARG002
        """Note that the connection broke: libzmq connects again, for a while."""
        had_come_up = self._silent_since is None
        if self._silent_since is None:
            self._silent_since = self._backend.clock()
        self._backend.look_again(self)
        if had_come_up and self._backend.on_broken is not None:
            self._backend.on_broken(self.node)

    def was_refused(self, uri: str = "") -> None:  # noqa: ARG002
        """Note that nobody is at the peer's address, or somebody else."""
        if self._refused_since is None:
            self._refused_since = self._backend.clock()
        self._backend.look_again(self)

    def inherit(self, left: list[tuple[Message, float]]) -> None:
        """Take over what waited for the same peer at another address."""
        now = self._backend.clock()
        self._waiting.extend((message, now - waited) for message, waited in left)

    @property
    def waiting(self) -> int:
        """How many messages wait here."""
        return len(self._waiting)

    @property
    def unsent(self) -> Iterator[Message]:
        """The messages that wait here."""
        return (message for message, _ in self._waiting)

    def give_up(self, linger: float = 0.0) -> list[tuple[Message, float]]:
        """Close the connection, and return what never left, with how long it waited.

        What libzmq has taken may still leave, for so many seconds.
        """
        self._close(linger)
        now = self._backend.clock()
        left = [(message, now - since) for message, since in self._waiting]
        self._waiting.clear()
        self._changed.notify_all()
        return left

    def _close(self, linger: float) -> None:
        self.is_gone = True
        self._handshakes.close()
        self._socket.close(round(linger * 1000))


class Backend:
    """Connects to peers and sends to them. Nobody waits for anybody: each peer has its own room in libzmq, and here.

    `prepare` makes a message fit to leave, `write` gives its frames. `gave_up` is told of a peer that did not shake
    hands or come back in time.
    """

    def __init__(
        self,
        settings: SocketSettings,
        prepare: Callable[[Message], Message],
        write: Write,
        gave_up: GaveUp,
        clock: Callable[[], float],
        *,
        curve: Curve | None = None,
    ) -> None:
        self.settings = settings
        self.prepare = prepare
        self.write = write
        self.clock = clock
        self.curve = curve
        self.on_sent: OnSent | None = None
        self.on_broken: OnBroken | None = None
        self.unacknowledged = 0  # libzmq does not say
        self._gave_up = gave_up
        self._loop = asyncio.get_running_loop()
        self._links: dict[bytes, PeerLink] = {}
        self._pending: dict[PeerLink, None] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._changed = Condition()  # what waits may have become less

    def link(self, node: bytes, uri: str) -> PeerLink:
        """Return the link to a peer, and connect if there is none."""
        link = self._links.get(node)
        if link is not None and link.uri == uri and not link.is_gone:
            return link
        left = [] if link is None else self._drop(link)
        try:
            link = PeerLink(self, node, uri)
            link.connect()
        except zmq.ZMQError as error:
            self._gave_up(node, left)
            raise PeerGoneError(node) from error
        self._links[node] = link
        link.inherit(left)
        self.look_again(link)
        return link

    def disconnect(self, node: bytes, linger: float = 0.0) -> list[tuple[Message, float]]:
        """Forget a peer, and return what never left for it; what libzmq has may still leave, for so many seconds."""
        link = self._links.get(node)
        return [] if link is None else self._drop(link, linger)

    @property
    def links(self) -> tuple[PeerLink, ...]:
        """The links to all peers."""
        return tuple(self._links.values())

    @property
    def waiting(self) -> int:
        """How many messages wait to leave."""
        return sum(link.waiting for link in self._pending)

    async def nothing_waits(self) -> None:
        """Wait until everything left, or was given up."""
        await self._changed.wait_for(lambda: not self.waiting)

    def _abandon(self, link: PeerLink) -> None:
        """Drop a link, and tell what never left."""
        self._gave_up(link.node, self._drop(link))

    def _drop(self, link: PeerLink, linger: float = 0.0) -> list[tuple[Message, float]]:
        del self._links[link.node]
        self._pending.pop(link, None)
        self._changed.notify_all()
        return link.give_up(linger)

    # -- looking after those that wait ---------------------------------------------------------------------------------

    def look_again(self, link: PeerLink) -> None:
        """Look after a link until it stands and nothing waits in it."""
        self._pending[link] = None
        if self._retry is None:
            self._retry = self._loop.call_later(RETRY, self._look)

    def _look(self) -> None:
        self._retry = None
        now = self.clock()
        for link in list(self._pending):
            if link.is_gone:  # by what happened to another one
                continue
            try:
                has_waiting = link.send_pending()
            except Exception:  # one link must never stop the looking after the others
                log.exception("what waits for %s cannot be sent", link.uri)
                self._abandon(link)
                continue
            if link.is_overdue(now):
                self._abandon(link)
            elif not (has_waiting or link.is_silent):
                self._pending.pop(link, None)
        if self._pending and self._retry is None:
            self._retry = self._loop.call_later(RETRY, self._look)
        self._changed.notify_all()

    def close(self, linger: float) -> None:
        """Close all links; libzmq goes on sending what it holds for so many seconds."""
        for link in list(self._links.values()):
            del self._links[link.node]
            self._gave_up(link.node, link.give_up(linger))
        self._pending.clear()
        self._changed.notify_all()
        if self._retry is not None:
            self._retry.cancel()
