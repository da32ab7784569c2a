"""The ends of simulated connections, for the real shells of nodes and servers: what libzmq does, without sockets."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from hopline.cluster.service import REGISTER_ROUTE, is_service
from hopline.message import LocalError, Message, PeerGoneError
from hopline.simulation.network import Connection, Host, Network
from hopline.transport import (
    Condition,
    Frames,
    Listener,
    OnSent,
    Peers,
    Sender,
    Subscriber,
    Take,
    Unsent,
    parse,
)
from hopline.wire import decode

CONNECT_TIMES = (0.5, 2.0)  # seconds after which a peer is gone: one that is refused sooner than a silent one
_AUTO_ID = b"\0auto"  # what a ROUTER socket puts in front
_FIRST_PORT = 20_000


class _End(Protocol):
    def die(self, *, is_noticed: bool) -> None: ...


class SimulatedTransport:
    """All the ends of one host. They die together when it crashes."""

    def __init__(self, network: Network, name: str) -> None:
        self.network = network
        self.host = network.host(name)
        self._ends: list[_End] = []
        self._ports = _FIRST_PORT

    def crash(self, *, is_noticed: bool) -> None:
        """Let every end die. Others notice that connections broke, or they do not, as when the power fails."""
        ends, self._ends = self._ends, []
        for end in ends:
            end.die(is_noticed=is_noticed)

    def _address(self, address: str, field: str) -> str:
        parsed = parse(address, field)
        if not parsed.first_port:
            self._ports += 1
        uri = f"tcp://{parsed.host}:{parsed.first_port or self._ports}"
        if uri in self.network.bound:
            raise LocalError(field, "a free port to bind to", address)
        return uri

    def listener(self, address: str, field: str, *, identity: bytes = b"") -> Listener:
        """Take messages at an address."""
        listener = SimulatedListener(self.network, self.host, self._address(address, field), identity)
        self._ends.append(listener)
        return listener

    def publisher(self, address: str, field: str, capacity: int) -> tuple[Sender, str]:  # noqa: ARG002 - it never fills
        """Publish at an address."""
        publisher = SimulatedPublisher(self.network, self.host, self._address(address, field))
        self._ends.append(publisher)
        return publisher, publisher.uri

    def subscriber(self, take: Take, broke: Callable[[], None] | None = None) -> Subscriber:
        """Hear what others publish."""
        subscriber = SimulatedSubscriber(self.network, self.host, take, broke)
        self._ends.append(subscriber)
        return subscriber

    def sender(self, uri: str, capacity: int, *, identity: bytes = b"") -> Sender:  # noqa: ARG002 - nobody looks
        """Send to a listener."""
        sender = SimulatedSender(self.network, self.host, uri, capacity)
        self._ends.append(sender)
        return sender

    def peers(
        self,
        prepare: Callable[[Message], Message],
        write: Callable[[Message, bytes, float], Frames],
        gave_up: Callable[[bytes, Unsent], None],
        clock: Callable[[], float],
    ) -> Peers:
        """Send to nodes."""
        peers = SimulatedPeers(self.network, self.host, prepare, write, gave_up, clock)
        self._ends.append(peers)
        return peers

    def can_connect(self, uri: str) -> bool:
        """Refuse what is not one place; names are all that hosts have here."""
        try:
            return parse(uri).is_one_place
        except LocalError:
            return False

    async def resolve(self, uri: str) -> str:
        """Look a name up, which takes a moment."""
        await asyncio.sleep(self.network.random.random() * 0.01)
        return uri

    def close(self) -> None:
        """Do nothing: every end is closed by itself."""


def _host_at(network: Network, uri: str) -> Host:
    return network.host(parse(uri).host)


# -- listening ---------------------------------------------------------------------------------------------------------


class SimulatedListener:
    """Takes what others send; before it is read, that waits."""

    def __init__(self, network: Network, host: Host, uri: str, identity: bytes) -> None:
        self.host = host
        self.uri = uri
        self.identity = identity
        self._network = network
        self._is_open = True
        self._take: Take | None = None
        self._is_paused = True  # until it is read
        self._unread: deque[list[bytes]] = deque()
        network.bind(uri, self)

    def read(self, take: Take) -> None:
        """Begin to take."""
        self._take = take
        self.resume()

    def pause(self) -> None:
        """Take nothing for now."""
        self._is_paused = True

    def resume(self) -> None:
        """Take messages again, beginning with those that came meanwhile."""
        self._is_paused = False
        while self._unread and self._take is not None and not self._is_paused:
            self._take(self._unread.popleft())

    def arrive(self, frames: list[bytes]) -> None:
        """Take a message, if there is anybody to take it."""
        if not self._is_open:
            self._network.traffic.lost += 1
            return
        self._network.traffic.arrived += 1
        if any(REGISTER_ROUTE.identity in frame for frame in frames):
            self._network.on_news(self.host, frames)
        if self._take is None or self._is_paused or self._unread:
            self._unread.append(frames)
        else:
            self._take(frames)

    def close(self) -> None:
        """Take no more."""
        self.die(is_noticed=True)

    def die(self, *, is_noticed: bool) -> None:
        """Take no more, whether others notice or not."""
        if self._is_open:
            self._is_open = False
            self._network.release(self.uri, is_noticed=is_noticed)


# -- publishing and subscribing ----------------------------------------------------------------------------------------


class SimulatedPublisher:
    """Sends to whoever is subscribed at that moment: who comes later, or is away, misses it."""

    def __init__(self, network: Network, host: Host, uri: str) -> None:
        self.host = host
        self.uri = uri
        self.subscriptions: dict[_Subscription, None] = {}
        self._network = network
        self._is_open = True
        network.bind(uri, self)

    def send(self, frames: Frames) -> bool:
        """Send to everyone."""
        if self._is_open:
            sent = list(frames)
            for subscription in list(self.subscriptions):
                subscription.send(sent)
        return self._is_open

    def close(self, linger: float = 0.0) -> None:  # noqa: ARG002 - what is under way gets there
        """Publish no more."""
        self.die(is_noticed=True)

    def die(self, *, is_noticed: bool) -> None:
        """Publish no more, whether others notice or not."""
        if self._is_open:
            self._is_open = False
            self.subscriptions.clear()
            self._network.release(self.uri, is_noticed=is_noticed)


class _Subscription:
    """One address that a subscriber listens to."""

    def __init__(self, subscriber: SimulatedSubscriber, network: Network, uri: str) -> None:
        self._subscriber = subscriber
        self._network = network
        self._uri = uri
        self._publisher: SimulatedPublisher | None = None
        self._connection = Connection(_host_at(network, uri), subscriber.host, is_ordered=True)
        network.wait_at(uri, self)

    def _there(self) -> SimulatedPublisher | None:
        bound = self._network.bound.get(self._uri)
        is_cut = self._network.is_cut(self._connection.source, self._connection.target)
        return bound if isinstance(bound, SimulatedPublisher) and not is_cut else None

    def try_again(self) -> None:
        """Subscribe to whoever publishes there now."""
        publisher = self._there()
        if publisher is None or not self._subscriber.has(self._uri, self):
            return
        if self._publisher not in (None, publisher):
            self._subscriber.broke()
        self._publisher = publisher
        publisher.subscriptions[self] = None

    def notice(self) -> None:
        """Notice that the publisher is gone, or cut off."""
        if self._publisher is not None and self._publisher is not self._there():
            self._publisher.subscriptions.pop(self, None)
            self._publisher = None
            self._subscriber.broke()

    def send(self, frames: list[bytes]) -> None:
        self._network.carry(self._connection, lambda: self._arrive(frames))

    def _arrive(self, frames: list[bytes]) -> None:
        if self._subscriber.has(self._uri, self):
            self._network.traffic.arrived += 1
            self._subscriber.take(frames)
        else:
            self._network.traffic.lost += 1

    def end(self) -> None:
        self._network.leave(self._uri, self)
        if self._publisher is not None:
            self._publisher.subscriptions.pop(self, None)


class SimulatedSubscriber:
    """Listens at addresses."""

    def __init__(self, network: Network, host: Host, take: Take, broke: Callable[[], None] | None) -> None:
        self.host = host
        self._network = network
        self._take = take
        self._broke = broke
        self._subscriptions: dict[str, _Subscription] = {}

    def connect(self, uri: str) -> None:
        """Listen there too."""
        if uri not in self._subscriptions:
            self._subscriptions[uri] = _Subscription(self, self._network, uri)

    def disconnect(self, uri: str) -> None:
        """Listen there no longer."""
        subscription = self._subscriptions.pop(uri, None)
        if subscription is not None:
            subscription.end()

    def has(self, uri: str, subscription: object) -> bool:
        """Tell whether a subscription still holds."""
        return self._subscriptions.get(uri) is subscription

    def take(self, frames: list[bytes]) -> None:
        """Take what was published."""
        self._network.on_news(self.host, frames)
        self._take(frames)

    def broke(self) -> None:
        """Tell that a connection broke."""
        if self._broke is not None and self._subscriptions:
            self._broke()

    def close(self) -> None:
        """Listen nowhere."""
        for uri in list(self._subscriptions):
            self.disconnect(uri)

    def die(self, *, is_noticed: bool) -> None:  # noqa: ARG002 - who publishes never notices
        """Listen nowhere any more."""
        self.close()


# -- sending -----------------------------------------------------------------------------------------------------------


class SimulatedSender:
    """Sends to one listener; what cannot be sent yet waits, up to a bound."""

    def __init__(self, network: Network, host: Host, uri: str, capacity: int) -> None:
        self._network = network
        self._uri = uri
        self._capacity = capacity
        self._is_open = True
        self._connection = Connection(host, _host_at(network, uri), is_ordered=True)
        self._listener: SimulatedListener | None = None
        self._kept: list[Frames] = []
        network.wait_at(uri, self)

    def send(self, frames: Frames) -> bool:
        """Send, now or later."""
        if not self._is_open or len(self._kept) >= self._capacity:
            return False
        if self._listener is None:
            self._kept.append(frames)
        else:
            self._transmit(self._listener, frames)
        return True

    def _transmit(self, listener: SimulatedListener, frames: Frames) -> None:
        self._network.carry(self._connection, lambda: listener.arrive([_AUTO_ID, *frames]))

    def _there(self) -> SimulatedListener | None:
        bound = self._network.bound.get(self._uri)
        is_cut = self._network.is_cut(self._connection.source, self._connection.target)
        return bound if isinstance(bound, SimulatedListener) and not is_cut else None

    def try_again(self) -> None:
        """Send what waited, when somebody is there."""
        listener = self._there()
        if listener is not None and self._is_open:
            self._listener = listener
            kept, self._kept = self._kept, []
            for frames in kept:
                self._transmit(listener, frames)

    def notice(self) -> None:
        """Notice that nobody is there any more, or that the way is cut."""
        if self._listener is not self._there():
            self._listener = None

    def close(self, linger: float = 0.0) -> None:  # noqa: ARG002 - what is under way gets there
        """Send no more."""
        self._is_open = False
        self._kept.clear()
        self._network.leave(self._uri, self)

    def die(self, *, is_noticed: bool) -> None:  # noqa: ARG002 - who listens never notices
        """Send no more."""
        self.close()


class SimulatedLink:
    """The way from one node to another, with room for so many messages. On it, messages overtake each other."""

    def __init__(self, peers: SimulatedPeers, node: bytes, uri: str) -> None:
        self.node = node
        self.uri = uri
        self.is_gone = False
        self._peers = peers
        self._network = peers.network
        self._connection = Connection(peers.host, _host_at(peers.network, uri), is_ordered=False)
        self._listener: SimulatedListener | None = None
        self._under_way = 0
        self._held: list[tuple[Message, float]] = []  # until the peer is there, with the time when they came
        self._changed = Condition()
        self._overdue: asyncio.TimerHandle | None = None
        self._network.wait_at(uri, self)
        self._be_silent()

    @property
    def waiting(self) -> int:
        """How many messages wait for the peer."""
        return len(self._held)

    @property
    def unsent(self) -> Iterator[Message]:
        """The messages that wait for the peer."""
        return (message for message, _ in self._held)

    @property
    def has_room(self) -> bool:
        """Return whether `offer` would take another message."""
        return self._under_way + len(self._held) < self._network.link_capacity

    @property
    def is_silent(self) -> bool:
        """Tell whether the peer is not there."""
        return self._listener is None

    def offer(self, message: Message) -> bool:
        """Take a message for the other node."""
        if self.is_gone:
            raise PeerGoneError(self.node)
        if not self.has_room:
            return False
        message = self._peers.prepare(message)
        if self._listener is None:
            self._held.append((message, self._peers.clock()))
        else:
            self._transmit(self._listener, message, 0.0)
        return True

    async def room(self) -> None:
        """Wait until there is room, or the peer is given up. Raises `PeerGoneError` when it already was."""
        if self.is_gone:
            raise PeerGoneError(self.node)
        await self._changed.wait_for(lambda: self.has_room or self.is_gone)

    def inherit(self, left: Unsent) -> None:
        """Take over what waited for the same peer at another address."""
        now = self._peers.clock()
        self._held.extend((message, now - waited) for message, waited in left)

    def _transmit(self, listener: SimulatedListener, message: Message, waited: float) -> None:
        if self._peers.is_dead:
            return
        frames = self._peers.write(message, self.node, waited)
        if not frames:  # its lifetime is over, which the writer has told
            return
        network = self._network
        written = message
        if not is_service(message):
            written = decode(frames) if waited else message
            network.on_sent(self._peers.host, written)
        if self._peers.on_sent is not None:
            self._peers.on_sent(self.node, frames, self._peers.clock())
        received = [_AUTO_ID, *frames[1:]]
        self._under_way += 1
        network.carry(self._connection, lambda: self._arrive(listener, received, written), self._ended)

    def _arrive(self, listener: SimulatedListener, frames: list[bytes], message: Message) -> None:
        if not is_service(message):
            self._network.on_arrived(listener.host, message)
        listener.arrive(frames)

    def _ended(self) -> None:
        self._under_way = max(0, self._under_way - 1)
        self._changed.notify_all()

    # -- whether the peer is there -------------------------------------------------------------------------------------

    def _there(self) -> SimulatedListener | None:
        """Give who is at the address, if it is the peer and not another node that took its place."""
        bound = self._network.bound.get(self.uri)
        is_cut = self._network.is_cut(self._connection.source, self._connection.target)
        return bound if isinstance(bound, SimulatedListener) and bound.identity == self.node and not is_cut else None

    def try_again(self) -> None:
        """Send what waited, when the peer is there."""
        listener = self._there()
        if self.is_gone or listener is None:
            self.notice()
            return
        self._listener = listener
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        held, self._held = self._held, []
        now = self._peers.clock()
        for message, since in held:
            self._transmit(listener, message, now - since)
        self._peers.changed.notify_all()
        self._changed.notify_all()

    def notice(self) -> None:
        """Notice that the peer is not there any more."""
        if self._listener is not None and self._listener is not self._there():
            self._listener = None
            self._be_silent()

    def _be_silent(self) -> None:
        if self._overdue is None and not self.is_gone:
            self._overdue = self._network.loop.call_later(
                self._network.random.choice(CONNECT_TIMES), self._peers.abandon, self
            )

    def give_up(self) -> Unsent:
        """Be gone, and give back what was never sent, with how long it waited."""
        self.is_gone = True
        self._network.leave(self.uri, self)
        if self._overdue is not None:
            self._overdue.cancel()
        held, self._held = self._held, []
        self._changed.notify_all()
        now = self._peers.clock()
        self._network.traffic.returned += len(held)
        return [(message, now - since) for message, since in held]


class SimulatedPeers:
    """The links of one node."""

    def __init__(
        self,
        network: Network,
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
        self.unacknowledged = 0  # what the network lost, it counts itself
        self._gave_up = gave_up
        self._links: dict[bytes, SimulatedLink] = {}
        self.is_dead = False
        self.changed = Condition()  # less may wait

    @property
    def links(self) -> tuple[SimulatedLink, ...]:
        """The links to all peers."""
        return tuple(self._links.values())

    def link(self, node: bytes, uri: str) -> SimulatedLink:
        """Give the link to a peer."""
        if self.is_dead:
            raise PeerGoneError(node)
        link = self._links.get(node)
        if link is not None and link.uri == uri and not link.is_gone:
            return link
        left = self.disconnect(node)
        link = self._links[node] = SimulatedLink(self, node, uri)
        link.inherit(left)
        return link

    def disconnect(self, node: bytes, linger: float = 0.0) -> Unsent:  # noqa: ARG002 - what left is on its way
        """Forget a peer."""
        link = self._links.pop(node, None)
        left = [] if link is None else link.give_up()
        self.changed.notify_all()
        return left

    def abandon(self, link: SimulatedLink) -> None:
        """Give up a peer that did not come in time."""
        if self._links.get(link.node) is link:
            self._gave_up(link.node, self.disconnect(link.node))

    async def nothing_waits(self) -> None:
        """Wait until everything left, or was given up."""
        await self.changed.wait_for(lambda: not any(link.waiting for link in self._links.values()))

    def close(self, linger: float) -> None:  # noqa: ARG002 - what is under way gets there
        """Give up every peer."""
        for link in list(self._links.values()):
            del self._links[link.node]
            self._gave_up(link.node, link.give_up())

    def die(self, *, is_noticed: bool) -> None:  # noqa: ARG002 - who listens never notices
        """Send nothing more; what waits is given up when the node closes."""
        self.is_dead = True
