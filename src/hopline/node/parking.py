"""Where messages without a route wait while one is looked for: for a bounded time, and only so many."""

from __future__ import annotations

from collections.abc import Callable

from hopline.client import Deadlines
from hopline.message import Message, MessageIdentifier, WireFormat
from hopline.routing import Delivery

Sought = bytes | MessageIdentifier


def sought(message: Message) -> Sought:
    """Tell what a message without a route waits for: its node, its receiver, or somebody who handles it."""
    if message.receiver_node_identity:
        return message.receiver_node_identity
    if message.receiver_identity and message.wire_format is WireFormat.FIRST:
        return message.receiver_identity
    return message.identifier


class _Parked:
    __slots__ = ("_parking", "delivery", "tick", "what")

    def __init__(self, parking: Parking, what: Sought, delivery: Delivery) -> None:
        self._parking = parking
        self.what = what
        self.delivery = delivery
        self.tick = 0

    def expire(self) -> None:
        self._parking._expire(self)


class Parking:
    """Deliveries by what they wait for."""

    def __init__(self, capacity: int, deadlines: Deadlines, give_up: Callable[[Delivery], None]) -> None:
        self._capacity = capacity
        self._deadlines = deadlines
        self._give_up = give_up
        self._parked: dict[Sought, dict[_Parked, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, delivery: Delivery, until: float) -> bool:
        """Keep a delivery until then, if there is room."""
        if self._count >= self._capacity:
            return False
        parked = _Parked(self, sought(delivery.message), delivery)
        self._parked.setdefault(parked.what, {})[parked] = None
        self._count += 1
        parked.tick = self._deadlines.add(until, parked)
        return True

    def release(self, what: Sought) -> list[Delivery]:
        """Give the deliveries that waited for this, in the order of their coming."""
        parked = self._parked.pop(what, {})
        self._count -= len(parked)
        for one in parked:
            self._deadlines.discard(one.tick, one)
        return [one.delivery for one in parked]

    def release_all(self) -> list[Delivery]:
        """Give every delivery."""
        return [delivery for what in list(self._parked) for delivery in self.release(what)]

    def _expire(self, parked: _Parked) -> None:
        others = self._parked.get(parked.what, {})
        if parked not in others:  # released while others of the same tick gave up
            return
        del others[parked]
        if not others:
            del self._parked[parked.what]
        self._count -= 1
        self._give_up(parked.delivery)
