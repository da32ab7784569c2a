"""Where messages wait for room at their receivers, those for one destination in the order of their coming."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeAlias

from hopline.client import Deadlines
from hopline.message import Message, MessageIdentifier
from hopline.node.tap import Submitter
from hopline.routing import Delivery

Destination: TypeAlias = bytes | MessageIdentifier


def destination(message: Message, here: bytes) -> Destination:
    """Tell what a message waits for: its receiver, its node if that is another, or anyone who handles it."""
    if message.receiver_identity:
        return message.receiver_identity
    node = message.receiver_node_identity
    return node if node and node != here else message.identifier


class Place:
    """A place in the queue for one destination."""

    __slots__ = (
        "_left",
        "_room",
        "delivery",
        "is_submitted",
        "is_withdrawn",
        "number",
        "submitter",
        "tick",
        "unreachable",
        "until",
        "where",
    )

    def __init__(
        self, room: WaitingRoom, where: Destination, delivery: Delivery, unreachable: frozenset[bytes], submitted: bool
    ) -> None:
        self.where = where
        self.delivery = delivery
        self.unreachable = unreachable
        self.is_submitted = submitted  # by one who waits for it, and not the node's own yet
        self.is_withdrawn = False
        self.submitter: Submitter | None = None  # noted when waiting began, if there was a tap
        self.number = 0  # in the order of coming, whatever the destination
        self.until = 0.0
        self.tick = 0
        self._room = room
        self._left: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait until the message was handed over, or its time was over. One who is cancelled takes it back."""
        if self._room.has(self):
            self._left = asyncio.get_running_loop().create_future()
            try:
                await self._left
            except asyncio.CancelledError:
                self.is_withdrawn = self._room.withdraw(self)
                raise

    def leave(self) -> None:
        """Say that waiting is over."""
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    def expire(self) -> None:
        """Say that the time to wait is over."""
        self._room.expire(self)


class WaitingRoom:
    """Queues by destination. The first of each is handed over when room may have been made for it."""

    def __init__(
        self,
        deadlines: Deadlines,
        hand_over: Callable[[Place], bool],
        handed_over: Callable[[Place], None],
        give_up: Callable[[Place], None],
    ) -> None:
        # Ordered dictionaries: the first of a plain one is the slower to find the more were taken before it.
        self.queues: dict[Destination, OrderedDict[Place, None]] = {}
        self.owned = 0  # messages that are the node's own; the others still are their submitters'
        self._deadlines = deadlines
        self._hand_over = hand_over
        self._handed_over = handed_over
        self._give_up = give_up
        self._numbers = itertools.count()
        self._in_service: dict[Destination, bool] = {}  # and whether somebody asked to serve it meanwhile

    def add(
        self, where: Destination, delivery: Delivery, until: float, unreachable: frozenset[bytes], *, submitted: bool
    ) -> Place:
        """Give a delivery the last place in the queue for its destination."""
        place = Place(self, where, delivery, unreachable, submitted)
        place.number = next(self._numbers)
        self.queues.setdefault(where, OrderedDict())[place] = None
        self.owned += not submitted
        place.until = until
        place.tick = self._deadlines.add(until, place)
        return place

    @property
    def is_empty(self) -> bool:
        """Return whether nothing waits; what is being handed over does until it was taken."""
        return not (self.queues or self._in_service)

    def has(self, place: Place) -> bool:
        """Tell whether a place is still held."""
        return place in self.queues.get(place.where, ())

    def _remove(self, place: Place) -> bool:
        if not self._take_out(place):
            return False
        self.owned -= not place.is_submitted
        self._deadlines.discard(place.tick, place)
        return True

    def _take_out(self, place: Place) -> bool:
        queue = self.queues.get(place.where)
        if queue is None or place not in queue:
            return False
        del queue[place]
        if not queue:
            del self.queues[place.where]
        return True

    def _put_back(self, place: Place) -> None:
        queue = self.queues.setdefault(place.where, OrderedDict())
        queue[place] = None
        queue.move_to_end(place, last=False)

    def serve(self, destinations: Iterable[Destination]) -> None:
        """Hand over what waits for these, as far as there is room: who came first is first, whatever he waits for."""
        firsts: list[tuple[int, Destination]] = []
        for where in dict.fromkeys(destinations):
            if where in self._in_service:  # handing over made room, or showed a route: whoever does it tries again
                self._in_service[where] = True
            elif where in self.queues:
                firsts.append((next(iter(self.queues[where])).number, where))
        heapq.heapify(firsts)
        while firsts:
            _, where = heapq.heappop(firsts)
            if where in self.queues and self._serve_first(where) and where in self.queues:
                heapq.heappush(firsts, (next(iter(self.queues[where])).number, where))

    def _serve_first(self, where: Destination) -> bool:
        """Hand over the first of a queue. It is not in the queue meanwhile, so that nobody else hands it over too."""
        place = next(iter(self.queues[where]))
        self._take_out(place)
        self._in_service[where] = False
        is_handed_over = False
        try:
            is_handed_over = self._hand_over(place)
        finally:
            was_asked = self._in_service.pop(where)
            if not is_handed_over:
                self._put_back(place)
        if is_handed_over:
            self.owned -= not place.is_submitted
            self._deadlines.discard(place.tick, place)
            self._handed_over(place)
            place.leave()
        return is_handed_over or was_asked

    def serve_all(self) -> None:
        """Hand over whatever there is room for."""
        # With what is being handed over right now, which is in no queue: whoever does that tries again.
        self.serve([*self._in_service, *self.queues])

    def withdraw(self, place: Place) -> bool:
        """Take a place back, and tell whether it was still held."""
        held = self._remove(place)
        if held:
            self.serve((place.where,))  # the next may want to go elsewhere
        return held

    def expire(self, place: Place) -> None:
        """Give up a place whose time is over."""
        if self._remove(place):
            self._give_up(place)
            place.leave()
            self.serve((place.where,))

    def places(self) -> list[Place]:
        """Give every place that is held."""
        return [place for queue in self.queues.values() for place in queue]

    def clear(self) -> list[Place]:
        """Empty the room, and give what waited."""
        left = self.places()
        for place in left:
            self._remove(place)
        return left
