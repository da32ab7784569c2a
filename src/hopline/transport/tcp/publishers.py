"""Publishes at an address: a PUB whose subscribers each get what they asked for, as far as they keep up."""

from __future__ import annotations

from collections import Counter

from hopline.message import get_logger
from hopline.transport.interface import Frames
from hopline.transport.settings import SocketSettings
from hopline.transport.tcp.acceptor import Door
from hopline.transport.tcp.connection import Connection, Handler
from hopline.zmtp import Connection as Protocol
from hopline.zmtp import Limits, Ready, SocketType, Subscription, encode_message

log = get_logger("hopline.transport")

_MOST_TOPICS = 1_000  # that one subscriber may ask for
_LONGEST_TOPIC = 1_024  # bytes; what subscribers send is short


class TcpPublisher:
    """Sends to all subscribers, and waits for none: who has no room misses a message, which is counted."""

    def __init__(self, address: str, field: str, capacity: int, settings: SocketSettings) -> None:
        limits = Limits(frame_size=_LONGEST_TOPIC, message_size=_LONGEST_TOPIC, frames=1)
        self.capacity = capacity
        self.subscribers: dict[_Subscriber, None] = {}
        self.overflows = 0
        self.door = Door(
            address, field, lambda: Protocol(SocketType.PUB, limits=limits), lambda: _Subscriber(self), settings
        )
        self.uri = self.door.uri

    def send(self, frames: Frames) -> bool:
        """Send a message to all who want it."""
        topic = frames[0]
        data: bytes | None = None
        for subscriber in tuple(self.subscribers):
            if subscriber.wants(topic):
                data = encode_message(frames) if data is None else data
                if not subscriber.send(data):
                    self.overflows += 1
        return True

    def close(self, linger: float = 0.0) -> None:
        """Publish nothing more; what was published may still leave, for so many seconds."""
        self.door.close()
        subscribers, self.subscribers = self.subscribers, {}
        for subscriber in subscribers:
            subscriber.close(linger)


class _Subscriber(Handler):
    """Whoever listens at the other end of one connection."""

    def __init__(self, publisher: TcpPublisher) -> None:
        self._publisher = publisher
        self._topics: Counter[bytes] = Counter()
        self._unsent = 0
        self._connection: Connection | None = None

    def wants(self, topic: bytes) -> bool:
        """Return whether a message that begins with these bytes was asked for."""
        return b"" in self._topics or any(topic.startswith(one) for one in self._topics)

    def send(self, data: bytes) -> bool:
        """Send an encoded message, or return that there is no room."""
        if self._connection is not None and self._unsent >= self._publisher.capacity:
            self._connection.flush()
        if self._connection is None or self._unsent >= self._publisher.capacity:
            return False
        self._unsent += 1
        self._connection.send_encoded(data)
        return True

    def ready(self, connection: Connection, peer: Ready) -> None:  # noqa: ARG002 - whoever it is
        self._publisher.door.arrived(connection)
        self._connection = connection
        self._publisher.subscribers[self] = None

    def subscription(self, connection: Connection, subscription: Subscription) -> None:
        topic = subscription.topic
        if subscription.is_wanted:
            self._topics[topic] += 1
            if self._topics.total() > _MOST_TOPICS:
                log.warning("refused a subscriber with more than %d topics", _MOST_TOPICS)
                connection.abort()
                self.closed(connection, "too many topics")
        elif topic in self._topics:
            self._topics[topic] -= 1
            self._topics += Counter()  # without those that nobody wants any more

    def written(self, count: int) -> None:
        self._unsent -= count

    def closed(self, connection: Connection, reason: str) -> None:  # noqa: ARG002
        self._publisher.door.arrived(connection)
        self._connection = None
        self._publisher.subscribers.pop(self, None)

    def close(self, linger: float) -> None:
        """Send what was published before, and close."""
        if self._connection is not None:
            self._connection.close(linger)
