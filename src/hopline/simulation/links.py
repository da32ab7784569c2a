"""Simulated links from one node to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from hopline.cluster.messages.service import is_service
from hopline.message import Message, PeerGoneError
from hopline.simulation.network import Connection, Host, Load, VirtualNetwork
from hopline.simulation.sockets import AUTO_ID, SimulatedListener, host_at, reachable_listener
from hopline.transport import Condition, Frames, OnBroken, OnSent, Unsent
from hopline.wire import decode

CONNECT_TIMEOUTS = (0.5, 2.0)  # seconds: a refused connection is given up sooner than a silent one


class SimulatedLink:
    """The link from one node to another, with a bounded capacity. Messages may overtake each other on it."""

    def __init__(self, peers: SimulatedPeers, node: bytes, uri: str) -> None:
        self.node = node
        self.uri = uri
        self.is_gone = False
        self._peers = peers
        self._network = peers.network
        peer_host = host_at(peers.network, uri)
        self._connection = Connection(peers.host, peer_host, is_ordered=False)
        self._listener: SimulatedListener | None = None
        self._under_way = 0
        self._held: list[tuple[Message, float]] = []  # until the peer is connected, with the time of their arrival
        self._changed = Condition()
        self._timeout: asyncio.TimerHandle | None = None
        self._network.connect(uri, self)
        self._start_timeout()

    @property
    def waiting(self) -> int:
        """The number of messages that wait for the peer."""
        return len(self._held)

    @property
    def unsent(self) -> Iterator[Message]:
        """The messages that wait for the peer."""
        return (message for message, _ in self._held)

    @property
    def has_room(self) -> bool:
        """Whether `offer` would accept another message."""
        return self._under_way + len(self._held) < self._network.link_capacity

    @property
    def is_silent(self) -> bool:
        """Whether the peer is not connected."""
        return self._listener is None

    def offer(self, message: Message) -> bool:
        """Accept a message for the peer; return False if there is no room.

        Raises:
            PeerGoneError: The peer was given up.
        """
        if self.is_gone:
            raise PeerGoneError(self.node)
        if not self.has_room:
            return False
        message = self._peers.prepare(message)
        if self._listener is None:
            now = self._peers.clock()
            self._held.append((message, now))
        else:
            self._transmit(self._listener, message, 0.0)
        return True

    async def room(self) -> None:
        """Wait until there is room, or the peer is given up.

        Raises:
            PeerGoneError: The peer was given up before.
        """
        if self.is_gone:
            raise PeerGoneError(self.node)
        await self._changed.wait_for(lambda: self.has_room or self.is_gone)

    def inherit(self, unsent: Unsent) -> None:
        """Take over the messages that waited for the same peer at another address."""
        now = self._peers.clock()
        for message, waited in unsent:
            since = now - waited
            self._held.append((message, since))

    def _transmit(self, listener: SimulatedListener, message: Message, waited: float) -> None:
        if self._peers.is_dead:
            return
        frames = self._peers.write(message, self.node, waited)
        if not frames:  # its lifetime is over, which the writer has reported
            return
        network = self._network
        written = message
        conditions = None
        if not is_service(message):
            written = decode(frames) if waited else message
            conditions = network.conditions_of(written)
            network.on_sent(self._peers.host, written)
        if self._peers.on_sent is not None:
            now = self._peers.clock()
            self._peers.on_sent(self.node, frames, now)
        received = [AUTO_ID, *frames[1:]]
        arrive = partial(self._arrive, listener, received, written)
        self._under_way += 1
        network.transmit(self._connection, Load.of(frames), arrive, self._ended, conditions)

    def _arrive(self, listener: SimulatedListener, frames: list[bytes], message: Message) -> None:
        if is_service(message):
            listener.arrive(frames)
        else:
            listener.arrive(frames, partial(self._network.on_arrived, listener.host, message))

    def _ended(self) -> None:
        self._under_way = max(0, self._under_way - 1)
        self._changed.notify_all()

    # -- connection ----------------------------------------------------------------------------------------------------

    def _reachable(self) -> SimulatedListener | None:
        """Return the listener at the address, if it is the peer's and not that of another node in its place."""
        listener = reachable_listener(self._network, self.uri, self._connection)
        if listener is None or listener.identity != self.node:
            return None
        return listener

    def try_connect(self) -> None:
        """Connect, and send what waited."""
        listener = self._reachable()
        if self.is_gone or listener is None:
            self.check_connection()
            return
        self._listener = listener
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
        held = self._held
        self._held = []
        now = self._peers.clock()
        for message, since in held:
            waited = now - since
            self._transmit(listener, message, waited)
        self._peers.changed.notify_all()
        self._changed.notify_all()

    def check_connection(self) -> None:
        """Disconnect if the peer is gone or cut off."""
        if self._listener is None:
            return
        if self._listener is not self._reachable():
            self._listener = None
            self._start_timeout()
            if self._peers.on_broken is not None:
                self._peers.on_broken(self.node)

    def _start_timeout(self) -> None:
        if self.is_gone or self._timeout is not None:
            return
        seconds = self._network.random.choice(CONNECT_TIMEOUTS)
        self._timeout = self._network.loop.call_later(seconds, self._peers.abandon, self)

    def give_up(self) -> Unsent:
        """Close the link; return the messages that were not sent, with the time they waited."""
        self.is_gone = True
        self._network.disconnect(self.uri, self)
        if self._timeout is not None:
            self._timeout.cancel()
        held = self._held
        self._held = []
        self._changed.notify_all()
        now = self._peers.clock()
        self._network.traffic.returned += len(held)
        return [(message, now - since) for message, since in held]


class SimulatedPeers:
    """The links of one node."""

    def __init__(
        self,
        network: VirtualNetwork,
        host: Host,
        prepare: Callable[[Message], Message],
        write: Callable[[Message, bytes, float], Frames],
        gave_up: Callable[[bytes, Unsent], None],
        clock: Callable[[], float],
    ) -> None:
        self.network = network
        self.host = host
        self.prepare = prepare
        self.write = write
        self.clock = clock
        self.on_sent: OnSent | None = None
        self.on_broken: OnBroken | None = None
        self.unacknowledged = 0  # the network counts what it loses
        self._gave_up = gave_up
        self._links: dict[bytes, SimulatedLink] = {}
        self.is_dead = False
        self.changed = Condition()  # fewer messages may wait

    @property
    def links(self) -> tuple[SimulatedLink, ...]:
        """The links to all peers."""
        return tuple(self._links.values())

    def link(self, node: bytes, uri: str) -> SimulatedLink:
        """Return the link to a peer; a new one if there is none at that address.

        Raises:
            PeerGoneError: This host has crashed.
        """
        if self.is_dead:
            raise PeerGoneError(node)
        link = self._links.get(node)
        if link is not None and link.uri == uri and not link.is_gone:
            return link
        unsent = self.disconnect(node)
        link = SimulatedLink(self, node, uri)
        self._links[node] = link
        link.inherit(unsent)
        return link

    def disconnect(self, node: bytes, linger: float = 0.0) -> Unsent:  # noqa: ARG002 - what was sent arrives anyway
        """Close the link to a peer; return the messages that were not sent."""
        link = self._links.pop(node, None)
        unsent = [] if link is None else link.give_up()
        self.changed.notify_all()
        return unsent

    def abandon(self, link: SimulatedLink) -> None:
        """Disconnect a peer that was not reached in time, and return its messages to the node."""
        if self._links.get(link.node) is link:
            unsent = self.disconnect(link.node)
            self._gave_up(link.node, unsent)

    async def nothing_waits(self) -> None:
        """Wait until every message was sent or given up."""
        await self.changed.wait_for(self._is_idle)

    def _is_idle(self) -> bool:
        return not any(link.waiting for link in self._links.values())

    def close(self, linger: float) -> None:  # noqa: ARG002 - what was sent arrives anyway
        """Close all links."""
        for link in self.links:
            del self._links[link.node]
            unsent = link.give_up()
            self._gave_up(link.node, unsent)

    def die(self, *, is_noticed: bool) -> None:  # noqa: ARG002 - listeners never notice
        """Send nothing any more; what waits is given up when the node closes."""
        self.is_dead = True
