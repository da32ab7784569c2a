"""Simulated sockets: listeners and their senders, publishers and their subscribers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from hopline.cluster.messages.service import REGISTER_ROUTE
from hopline.simulation.network import Connection, Host, Load, VirtualNetwork
from hopline.transport import Frames, Take, parse

AUTO_ID = b"\0auto"  # the frame that a ROUTER socket adds in front


def host_at(network: VirtualNetwork, uri: str) -> Host:
    """Return the host of an address."""
    return network.host(parse(uri).host)


def _ignore() -> None:
    pass


class SimulatedListener:
    """Receives the messages of senders and links. Until it is read, and while it is paused, they wait."""

    def __init__(self, network: VirtualNetwork, host: Host, uri: str, identity: bytes) -> None:
        self.host = host
        self.uri = uri
        self.identity = identity
        self._network = network
        self._is_open = True
        self._take: Take | None = None
        self._is_paused = True  # until it is read
        self._unread: deque[tuple[list[bytes], Callable[[], None]]] = deque()
        network.bind(uri, self)

    def read(self, take: Take) -> None:
        """Pass messages to a function from now on."""
        self._take = take
        self.resume()

    def pause(self) -> None:
        """Stop passing messages on."""
        self._is_paused = True

    def resume(self) -> None:
        """Pass messages on again, beginning with those that arrived meanwhile."""
        self._is_paused = False
        if self._take is None:
            return
        while self._unread and not self._is_paused:
            frames, on_read = self._unread.popleft()
            on_read()
            self._take(frames)

    def arrive(self, frames: list[bytes], on_read: Callable[[], None] = _ignore) -> None:
        """Process the arrival of a message.

        Args:
            frames: The message.
            on_read: Called when the message is passed on. A node cannot know how long it waited for that.
        """
        if not self._is_open:
            self._network.traffic.lost += 1
            return
        self._network.traffic.arrived += 1
        if any(REGISTER_ROUTE.identity in frame for frame in frames):
            self._network.on_control_message(self.host, frames)
        if self._take is None or self._is_paused or self._unread:
            self._unread.append((frames, on_read))
        else:
            on_read()
            self._take(frames)

    def close(self) -> None:
        """Close the listener."""
        self.die(is_noticed=True)

    def die(self, *, is_noticed: bool) -> None:
        """Close the listener, as in a crash if it is not noticed."""
        if self._is_open:
            self._is_open = False
            self._network.release(self.uri, is_noticed=is_noticed)


def reachable_listener(network: VirtualNetwork, uri: str, connection: Connection) -> SimulatedListener | None:
    """Return the listener that is bound to an address, or None if there is none or its host is cut off."""
    if network.is_cut(connection.source, connection.target):
        return None
    bound = network.bound.get(uri)
    return bound if isinstance(bound, SimulatedListener) else None


class SimulatedPublisher:
    """Sends to the subscribers of the moment; others miss the message."""

    def __init__(self, network: VirtualNetwork, host: Host, uri: str) -> None:
        self.host = host
        self.uri = uri
        self.subscriptions: dict[_Subscription, None] = {}
        self._network = network
        self._is_open = True
        network.bind(uri, self)

    def send(self, frames: Frames) -> bool:
        """Send a message to all subscribers."""
        if self._is_open:
            sent = list(frames)
            load = Load.of(sent)
            for subscription in list(self.subscriptions):
                subscription.send(sent, load)
        return self._is_open

    def close(self, linger: float = 0.0) -> None:  # noqa: ARG002 - what was sent arrives anyway
        """Close the publisher."""
        self.die(is_noticed=True)

    def die(self, *, is_noticed: bool) -> None:
        """Close the publisher, as in a crash if it is not noticed."""
        if self._is_open:
            self._is_open = False
            self.subscriptions.clear()
            self._network.release(self.uri, is_noticed=is_noticed)


class _Subscription:
    """The subscription to one address."""

    def __init__(self, subscriber: SimulatedSubscriber, network: VirtualNetwork, uri: str) -> None:
        self._subscriber = subscriber
        self._network = network
        self._uri = uri
        self._publisher: SimulatedPublisher | None = None
        publisher_host = host_at(network, uri)
        self._connection = Connection(publisher_host, subscriber.host, is_ordered=True)
        network.connect(uri, self)

    def _reachable(self) -> SimulatedPublisher | None:
        connection = self._connection
        if self._network.is_cut(connection.source, connection.target):
            return None
        bound = self._network.bound.get(self._uri)
        return bound if isinstance(bound, SimulatedPublisher) else None

    def try_connect(self) -> None:
        """Subscribe to the publisher that is bound to the address now."""
        publisher = self._reachable()
        if publisher is None or not self._subscriber.has(self._uri, self):
            return
        if self._publisher not in (None, publisher):
            self._subscriber.broke()
        self._publisher = publisher
        publisher.subscriptions[self] = None

    def check_connection(self) -> None:
        """Disconnect if the publisher is gone or cut off."""
        if self._publisher is None:
            return
        if self._publisher is not self._reachable():
            self._publisher.subscriptions.pop(self, None)
            self._publisher = None
            self._subscriber.broke()

    def send(self, frames: list[bytes], load: Load) -> None:
        arrive = partial(self._arrive, frames)
        self._network.transmit(self._connection, load, arrive)

    def _arrive(self, frames: list[bytes]) -> None:
        if self._subscriber.has(self._uri, self):
            self._network.traffic.arrived += 1
            self._subscriber.take(frames)
        else:
            self._network.traffic.lost += 1

    def end(self) -> None:
        self._network.disconnect(self._uri, self)
        if self._publisher is not None:
            self._publisher.subscriptions.pop(self, None)


class SimulatedSubscriber:
    """Receives what is published at any number of addresses."""

    def __init__(self, network: VirtualNetwork, host: Host, take: Take, broke: Callable[[], None] | None) -> None:
        self.host = host
        self._network = network
        self._take = take
        self._broke = broke
        self._subscriptions: dict[str, _Subscription] = {}

    def connect(self, uri: str) -> None:
        """Subscribe to an address."""
        if uri not in self._subscriptions:
            self._subscriptions[uri] = _Subscription(self, self._network, uri)

    def disconnect(self, uri: str) -> None:
        """End the subscription to an address."""
        subscription = self._subscriptions.pop(uri, None)
        if subscription is not None:
            subscription.end()

    def has(self, uri: str, subscription: object) -> bool:
        """Return whether a subscription has not been ended."""
        return self._subscriptions.get(uri) is subscription

    def take(self, frames: list[bytes]) -> None:
        """Pass a published message on."""
        self._network.on_control_message(self.host, frames)
        self._take(frames)

    def broke(self) -> None:
        """Report that a connection broke."""
        if self._broke is not None and self._subscriptions:
            self._broke()

    def close(self) -> None:
        """End all subscriptions."""
        for uri in list(self._subscriptions):
            self.disconnect(uri)

    def die(self, *, is_noticed: bool) -> None:  # noqa: ARG002 - publishers never notice
        """End all subscriptions."""
        self.close()


class SimulatedSender:
    """Sends to one listener. Until it is connected, messages wait, up to a bound."""

    def __init__(self, network: VirtualNetwork, host: Host, uri: str, capacity: int) -> None:
        self._network = network
        self._uri = uri
        self._capacity = capacity
        self._is_open = True
        listener_host = host_at(network, uri)
        self._connection = Connection(host, listener_host, is_ordered=True)
        self._listener: SimulatedListener | None = None
        self._waiting: list[Frames] = []
        network.connect(uri, self)

    def send(self, frames: Frames) -> bool:
        """Send a message, or let it wait; return False if there is no room."""
        if not self._is_open or len(self._waiting) >= self._capacity:
            return False
        if self._listener is None:
            self._waiting.append(frames)
        else:
            self._transmit(self._listener, frames)
        return True

    def _transmit(self, listener: SimulatedListener, frames: Frames) -> None:
        received = [AUTO_ID, *frames]
        arrive = partial(listener.arrive, received)
        self._network.transmit(self._connection, Load.of(received), arrive)

    def _reachable(self) -> SimulatedListener | None:
        return reachable_listener(self._network, self._uri, self._connection)

    def try_connect(self) -> None:
        """Connect, and send what waited."""
        listener = self._reachable()
        if listener is None or not self._is_open:
            return
        self._listener = listener
        waiting = self._waiting
        self._waiting = []
        for frames in waiting:
            self._transmit(listener, frames)

    def check_connection(self) -> None:
        """Disconnect if the listener is gone or cut off."""
        if self._listener is not self._reachable():
            self._listener = None

    def close(self, linger: float = 0.0) -> None:  # noqa: ARG002 - what was sent arrives anyway
        """Close the sender; what waits is lost."""
        self._is_open = False
        self._waiting.clear()
        self._network.disconnect(self._uri, self)

    def die(self, *, is_noticed: bool) -> None:  # noqa: ARG002 - listeners never notice
        """Close the sender; what waits is lost."""
        self.close()
