"""The links to other nodes, each a connection of its own that is made when the first message goes there.

Theory of operation. A message that is offered to a link is in one of three places, always in this order:

* waiting: there is no connection yet, or the system takes no more. It is not encoded, so that its remaining lifetime
  can be written when it leaves.
* given: it was encoded and handed to the connection, and the system has not taken its last byte. Most messages are
  there until the end of the turn of the loop.
* left: the system has taken all of it. From here on nobody knows what becomes of it, unless the peer answers.

Room is exact: what waits and what was given together are never more than `link_capacity`. When a connection breaks,
what was given goes back to those that wait, in front: a peer drops a message that it has received a part of.

Whoever answers at the peer's address must present the peer's identity. A connection is used for one peer only, so it
does not matter which identity anybody else presents, on a connection of its own.

A link is given up when its peer was refused for `refusal_timeout` (nobody is at its address, or somebody else), or did
not shake hands for `handshake_timeout`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from hopline.message import ArgumentError, Message, PeerGoneError, get_logger
from hopline.transport.condition import Condition
from hopline.transport.interface import Frames, GaveUp, OnBroken, OnSent, Unsent, Write
from hopline.transport.settings import SocketSettings
from hopline.transport.tcp.connection import Connection
from hopline.transport.tcp.dialer import Dialer
from hopline.zmtp import Connection as Protocol
from hopline.zmtp import Limits, Ready, SocketType

log = get_logger("hopline.transport")

_A_MOMENT = 1e-9  # seconds that a message has waited at the least when it did wait


class TcpPeerLink(Dialer):
    """The way to one peer."""

    def __init__(self, peers: TcpPeers, node: bytes, uri: str, unsent: Unsent) -> None:
        self.node = node
        self.uri = uri
        self.is_gone = False
        self._peers = peers
        self._prepare = peers.prepare
        self._write = peers.write
        self._capacity = peers.settings.link_capacity
        now = peers.clock()
        self._waiting: deque[tuple[Message, float]] = deque((message, now - waited) for message, waited in unsent)
        self._given: deque[tuple[Message, float, Frames]] = deque()
        self._up: Connection | None = None  # the connection, once the peer has shown that it is the one we mean
        self._changed = Condition()
        self._silent_since: float | None = asyncio.get_running_loop().time()
        self._refused_since: float | None = None
        self._overdue: asyncio.TimerHandle | None = None
        super().__init__(uri, peers.protocol, peers.settings, peers.clock)
        self._watch()

    def __repr__(self) -> str:
        return f"TcpPeerLink({self.uri}, {self.waiting} waiting)"

    @property
    def waiting(self) -> int:
        """How many messages have not left."""
        return len(self._waiting) + len(self._given)

    @property
    def unsent(self) -> Iterator[Message]:
        """The messages that have not left."""
        for message, _, _ in self._given:
            yield message
        for message, _ in self._waiting:
            yield message

    @property
    def has_room(self) -> bool:
        """Return whether `offer` would take another message."""
        return len(self._waiting) + len(self._given) < self._capacity

    @property
    def is_silent(self) -> bool:
        """Return whether the peer has not shaken hands yet, or is away."""
        return self._silent_since is not None

    # -- taking messages -----------------------------------------------------------------------------------------------

    def offer(self, message: Message) -> bool:
        """Take a message for the peer; return whether there was room. Raise `PeerGoneError` when the peer is gone."""
        if self.is_gone:
            raise PeerGoneError(self.node)
        message = self._prepare(message)
        if len(self._waiting) + len(self._given) >= self._capacity and not self._make_room():
            return False
        frames = self._write(message, self.node, 0.0)  # what cannot be written is told now, also if it has to wait
        connection = self._up
        if connection is None or connection.is_blocked or self._waiting:
            self._waiting.append((message, self._clock()))
        else:
            self._given.append((message, self._clock(), frames))
            connection.send(frames[1:])  # the first one names the peer, and stays here
        return True

    def _make_room(self) -> bool:
        """Write before the end of the turn, and return whether that made room."""
        if self._up is not None:
            self._up.flush()
        return self.has_room

    async def room(self) -> None:
        """Wait until there is room, or the peer is given up. Raise `PeerGoneError` when it already was."""
        if self.is_gone:
            raise PeerGoneError(self.node)
        await self._changed.wait_for(lambda: self.has_room or self.is_gone)

    # -- what the connection reports -----------------------------------------------------------------------------------

    def came_up(self, connection: Connection, peer: Ready) -> None:
        """Send what waits, if whoever answered is the peer."""
        if peer.identity != self.node:
            self.redial("somebody else is at the peer's address")
            return
        self._up = connection
        self._silent_since = self._refused_since = None
        self._watch()
        self.drained()

    def written(self, count: int) -> None:
        """Note that messages have left."""
        given = self._given
        left = [given.popleft() for _ in range(count)]  # all of them first: whoever is told may end this link
        on_sent = self._peers.on_sent
        if on_sent is not None:
            began = 0.0 if self._up is None else self._up.write_began
            for _, _, frames in left:
                on_sent(self.node, frames, began)
        self._notify()

    def drained(self) -> None:
        """Send what waits, as far as the connection takes it."""
        connection = self._up
        while self._waiting and connection is not None and connection is self._up and not connection.is_blocked:
            message, since = self._waiting.popleft()
            waited = max(_A_MOMENT, self._clock() - since)
            try:
                frames = self._write(message, self.node, waited)
            except Exception:  # one message must never stop the ones behind it
                log.exception("what waits for %s cannot be sent", self.uri)
                self._waiting.appendleft((message, since))
                self._peers.abandon(self)
                return
            if not frames:  # its lifetime is over, which the writer has told
                continue
            self._given.append((message, since, frames))
            connection.send(frames[1:])
        self._notify()

    def went_down(self, reason: str) -> None:
        """Keep what has not left for the next connection, and count what left in vain."""
        had_come_up = self._up is not None
        if self._up is not None:
            self._count_lost(self._up.unacknowledged, reason)
        self._up = None
        if self._silent_since is None:
            self._silent_since = self._loop.time()
        self._take_back_given()
        self._watch()
        if had_come_up and self._peers.on_broken is not None:
            self._peers.on_broken(self.node)

    def _count_lost(self, unacknowledged: int, reason: str) -> None:
        if unacknowledged:
            self._peers.unacknowledged += unacknowledged
            log.warning("%d messages were lost on the way to %s: %s", unacknowledged, self.uri, reason)

    def _take_back_given(self) -> None:
        self._waiting.extendleft((message, since) for message, since, _ in reversed(self._given))
        self._given.clear()

    def unreachable(self, reason: str) -> None:  # noqa: ARG002
        """Note that nobody is at the peer's address, or somebody else."""
        if self._refused_since is None:
            self._refused_since = self._loop.time()
        self._watch()

    def _notify(self) -> None:
        self._changed.notify_all()
        self._peers.changed.notify_all()

    # -- giving up -----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Look again when the peer may have been away for too long."""
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        deadline = self._deadline()
        if deadline is not None and not self.is_gone:
            self._overdue = self._loop.call_at(deadline, self._give_up_if_overdue)

    def _deadline(self) -> float | None:
        settings, silent, refused = self._settings, self._silent_since, self._refused_since
        deadlines = [] if silent is None else [silent + settings.handshake_timeout]
        if refused is not None:
            deadlines.append(refused + settings.refusal_timeout)
        return min(deadlines, default=None)

    def _give_up_if_overdue(self) -> None:
        self._overdue = None
        deadline = self._deadline()
        if deadline is not None and deadline <= self._loop.time() and not self.is_gone:
            self._peers.abandon(self)
        else:
            self._watch()

    def give_up(self, linger: float = 0.0) -> Unsent:
        """Close the connection, and return what never left; what did may still arrive, within so many seconds."""
        if self._up is not None:
            self._up.flush()
        self.is_gone = True
        if self._overdue is not None:
            self._overdue.cancel()
        # A message of which a part has left is returned with those that have not: the rest of it must not follow.
        linger = 0.0 if self._given else linger
        if self._up is not None and linger <= 0:  # a peer that was silent may not have taken what left
            self._count_lost(self._up.count_unacknowledged(), "the peer was given up")
        self.close(linger)
        self._up = None
        self._take_back_given()
        now = self._clock()
        unsent = [(message, now - since) for message, since in self._waiting]
        self._waiting.clear()
        self._notify()
        return unsent


class TcpPeers:
    """All links of one node."""

    def __init__(
        self,
        settings: SocketSettings,
        prepare: Callable[[Message], Message],
        write: Write,
        gave_up: GaveUp,
        clock: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.prepare = prepare
        self.write = write
        self.clock = clock
        self.on_sent: OnSent | None = None
        self.on_broken: OnBroken | None = None
        self.unacknowledged = 0
        self.changed = Condition()  # what waits may have become less
        self._gave_up = gave_up
        self._limits = Limits(frame_size=settings.max_frame_size)
        self._links: dict[bytes, TcpPeerLink] = {}

    def protocol(self) -> Protocol:
        """Return the protocol of a new connection."""
        return Protocol(SocketType.ROUTER, limits=self._limits)

    def link(self, node: bytes, uri: str) -> TcpPeerLink:
        """Return the link to a peer, and connect to it if this is the first."""
        link = self._links.get(node)
        if link is not None and link.uri == uri and not link.is_gone:
            return link
        unsent = [] if link is None else self._drop(link)
        try:
            link = TcpPeerLink(self, node, uri, unsent)
        except ArgumentError as error:  # nobody can be there
            self._gave_up(node, unsent)
            raise PeerGoneError(node) from error
        self._links[node] = link
        return link

    def disconnect(self, node: bytes, linger: float = 0.0) -> Unsent:
        """Forget a peer, and return what never left for it; what did may still arrive, within so many seconds."""
        link = self._links.get(node)
        return [] if link is None else self._drop(link, linger)

    @property
    def links(self) -> tuple[TcpPeerLink, ...]:
        """The links to all peers."""
        return tuple(self._links.values())

    @property
    def waiting(self) -> int:
        """How many messages wait to leave."""
        return sum(link.waiting for link in self._links.values())

    async def nothing_waits(self) -> None:
        """Wait until everything left, or was given up."""
        await self.changed.wait_for(lambda: not self.waiting)

    def abandon(self, link: TcpPeerLink) -> None:
        """Drop a link, and report what never left."""
        if self._links.get(link.node) is link:
            self._gave_up(link.node, self._drop(link))

    def _drop(self, link: TcpPeerLink, linger: float = 0.0) -> Unsent:
        del self._links[link.node]
        return link.give_up(linger)

    def close(self, linger: float) -> None:
        """Close all links; what was written may still arrive within so many seconds."""
        for link in self.links:
            self._gave_up(link.node, self._drop(link, linger))
