"""The queue of messages without a route, which wait while one is looked for; bounded in number and time."""

from __future__ import annotations

from collections.abc import Callable

from hopline.client import Deadlines
from hopline.message import Message, MessageIdentifier, WireFormat
from hopline.routing import Delivery

Sought = bytes | MessageIdentifier


def sought(message: Message) -> Sought:
    """Return what a message without a route waits for: its node, its receiver, or a handler of its kind."""
    if message.receiver_node_identity:
        return message.receiver_node_identity
    if message.receiver_identity and message.wire_format is WireFormat.FIRST:
        return message.receiver_identity
    return message.identifier


class _Unrouted:
    """A delivery in the queue."""

    __slots__ = ("_queue", "delivery", "target", "tick")

    def __init__(self, queue: UnroutedQueue, target: Sought, delivery: Delivery) -> None:
        self._queue = queue
        self.target = target
        self.delivery = delivery
        self.tick = 0

    def expire(self) -> None:
        self._queue._expire(self)


class UnroutedQueue:
    """Deliveries by what they wait for.

    Args:
        capacity: How many deliveries may wait.
        deadlines: Where their time limits are set.
        give_up: Called with a delivery whose time limit has passed.
    """

    def __init__(self, capacity: int, deadlines: Deadlines, give_up: Callable[[Delivery], None]) -> None:
        self._capacity = capacity
        self._deadlines = deadlines
        self._give_up = give_up
        self._by_target: dict[Sought, dict[_Unrouted, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, delivery: Delivery, until: float) -> bool:
        """Keep a delivery until a time of the node's clock, or return False if the queue is full."""
        if self._count >= self._capacity:
            return False
        target = sought(delivery.message)
        unrouted = _Unrouted(self, target, delivery)
        waiting = self._by_target.setdefault(target, {})
        waiting[unrouted] = None
        self._count += 1
        unrouted.tick = self._deadlines.add(until, unrouted)
        return True

    def release(self, target: Sought) -> list[Delivery]:
        """Remove and return the deliveries that wait for a target, in the order of their arrival."""
        released = self._by_target.pop(target, {})
        self._count -= len(released)
        for unrouted in released:
            self._deadlines.discard(unrouted.tick, unrouted)
        return [unrouted.delivery for unrouted in released]

    def release_all(self) -> list[Delivery]:
        """Remove and return every delivery."""
        released: list[Delivery] = []
        for target in list(self._by_target):
            released += self.release(target)
        return released

    def _expire(self, unrouted: _Unrouted) -> None:
        waiting = self._by_target.get(unrouted.target, {})
        if unrouted not in waiting:  # released while others with the same deadline gave up
            return
        del waiting[unrouted]
        if not waiting:
            del self._by_target[unrouted.target]
        self._count -= 1
        self._give_up(unrouted.delivery)
