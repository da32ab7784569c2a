"""The queue of deliveries that wait for room at their receivers.

Theory of operation. A receiver is full when its mailbox or the link to its node is. A delivery for it then waits in the
queue of its *destination*: a particular receiver, another node, or, most often, any handler of its kind of message. The
queue does not know which receiver is full; it offers the first delivery of a destination to the router again when room
may have been made, and the router decides anew which receiver gets it.

There are two kinds of deliveries here. Those that the node *owns* came from other nodes, or were routed before; they
count against the capacity of the queue. The others still belong to a submitter on this node, which waits for them and
may withdraw them by cancelling; the node counts them as submitted only when they are handed over or given up.

Invariants:

* Deliveries for one destination are handed over in the order of their arrival, and no new message for a destination
  overtakes its queue (the router looks before it routes). Between destinations that share a receiver, the order of
  arrival decides as well (`number`).
* A delivery that is being handed over is not in its queue, so nothing that happens meanwhile can hand it over twice. If
  it is refused, it returns to the front.
* Handing over may make room itself, or change routes, and so call `serve` for the destination that is being served.
  That call only leaves a note (`_in_service`), and the outer call tries again: recursion would reorder the queue.
* A delivery leaves the queue exactly once: handed over, expired, withdrawn or cleared.

Why not one queue for each receiver: a delivery that any handler may take would have to stand in several queues at once.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeAlias

from hopline.client import Deadlines
from hopline.message import Message, MessageIdentifier
from hopline.routing import Delivery

Destination: TypeAlias = bytes | MessageIdentifier


def destination(message: Message, here: bytes) -> Destination:
    """Return what a message waits for: its receiver, its node if that is another one, or any handler of its kind."""
    if message.receiver_identity:
        return message.receiver_identity
    node = message.receiver_node_identity
    return node if node and node != here else message.identifier


class QueuedDelivery:
    """A delivery in the queue of its destination."""

    __slots__ = (
        "_done",
        "_queue",
        "delivery",
        "destination",
        "is_submitted",
        "is_withdrawn",
        "number",
        "tick",
        "unreachable",
        "until",
    )

    def __init__(
        self,
        queue: BackpressureQueue,
        destination: Destination,
        delivery: Delivery,
        unreachable: frozenset[bytes],
        submitted: bool,
    ) -> None:
        self.destination = destination
        self.delivery = delivery
        self.unreachable = unreachable  # nodes that are gone since it waits
        self.is_submitted = submitted  # by a submitter that waits for it; the node does not own it yet
        self.is_withdrawn = False
        self.number = 0  # order of arrival over all destinations
        self.until = 0.0  # when to give up, by the node's clock
        self.tick = 0  # of the deadline
        self._queue = queue
        self._done: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait until the delivery was handed over or given up. Cancelling withdraws it."""
        if not self._queue.has(self):
            return
        self._done = asyncio.get_running_loop().create_future()
        try:
            await self._done
        except asyncio.CancelledError:
            self.is_withdrawn = self._queue.withdraw(self)
            raise

    def finish(self) -> None:
        """End the wait."""
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def expire(self) -> None:
        """Abandon the delivery: the time to wait has passed."""
        self._queue.expire(self)


class BackpressureQueue:
    """Queues of deliveries by destination.

    Args:
        deadlines: Where the time limits of deliveries are set.
        hand_over: Routes a delivery again; returns False if there is still no room for it.
        handed_over: Called after a delivery was taken.
        give_up: Called when the time limit of a delivery has passed.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        hand_over: Callable[[QueuedDelivery], bool],
        handed_over: Callable[[QueuedDelivery], None],
        give_up: Callable[[QueuedDelivery], None],
    ) -> None:
        # Ordered dictionaries: finding the first key of a plain one takes longer with every key deleted before it.
        self.queues: dict[Destination, OrderedDict[QueuedDelivery, None]] = {}
        self.owned = 0  # deliveries that the node owns
        self._deadlines = deadlines
        self._hand_over = hand_over
        self._handed_over = handed_over
        self._give_up = give_up
        self._numbers = itertools.count()
        # Destinations whose first delivery is being handed over, and whether `serve` was called for them meanwhile.
        self._in_service: dict[Destination, bool] = {}

    def add(
        self,
        destination: Destination,
        delivery: Delivery,
        until: float,
        unreachable: frozenset[bytes],
        *,
        submitted: bool,
    ) -> QueuedDelivery:
        """Append a delivery to the queue of its destination, until a time of the node's clock."""
        queued = QueuedDelivery(self, destination, delivery, unreachable, submitted)
        queued.number = next(self._numbers)
        queued.until = until
        queued.tick = self._deadlines.add(until, queued)
        self.queues.setdefault(destination, OrderedDict())[queued] = None
        self.owned += not submitted
        return queued

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits or is being handed over."""
        return not (self.queues or self._in_service)

    def has(self, queued: QueuedDelivery) -> bool:
        """Return whether a delivery is in its queue."""
        return queued in self.queues.get(queued.destination, ())

    def all(self) -> list[QueuedDelivery]:
        """Return every delivery, by destination."""
        return [queued for queue in self.queues.values() for queued in queue]

    # -- handing over --------------------------------------------------------------------------------------------------

    def serve(self, destinations: Iterable[Destination]) -> None:
        """Hand over what waits for these destinations, as far as there is room, in the order of arrival."""
        heads: list[tuple[int, Destination]] = []
        for destination in dict.fromkeys(destinations):
            if destination in self._in_service:
                self._in_service[destination] = True
            elif destination in self.queues:
                heads.append((self._head(destination).number, destination))
        heapq.heapify(heads)
        while heads:
            _, destination = heapq.heappop(heads)
            if destination not in self.queues:  # it was emptied while others were served
                continue
            may_go_on = self._serve_head(destination)
            if may_go_on and destination in self.queues:
                heapq.heappush(heads, (self._head(destination).number, destination))

    def serve_all(self) -> None:
        """Hand over whatever there is room for, including what is being handed over and may be refused."""
        self.serve([*self._in_service, *self.queues])

    def _head(self, destination: Destination) -> QueuedDelivery:
        return next(iter(self.queues[destination]))

    def _serve_head(self, destination: Destination) -> bool:
        """Offer the first delivery of a queue to the router. Return whether to go on with this queue."""
        queued = self._head(destination)
        self._take_out(queued)
        self._in_service[destination] = False
        is_handed_over = False
        try:
            is_handed_over = self._hand_over(queued)
        finally:
            was_asked_again = self._in_service.pop(destination)
            if not is_handed_over:
                self._put_back(queued)
        if is_handed_over:
            self._release(queued)
            self._handed_over(queued)
            queued.finish()
        return is_handed_over or was_asked_again

    # -- leaving the queue ---------------------------------------------------------------------------------------------

    def withdraw(self, queued: QueuedDelivery) -> bool:
        """Remove a delivery whose submitter no longer waits. Return whether it was still in its queue."""
        if not self._remove(queued):
            return False
        self.serve((queued.destination,))  # the next one may be able to go elsewhere
        return True

    def expire(self, queued: QueuedDelivery) -> None:
        """Remove a delivery whose time has passed, and give it up."""
        if self._remove(queued):
            self._give_up(queued)
            queued.finish()
            self.serve((queued.destination,))

    def clear(self) -> list[QueuedDelivery]:
        """Remove and return every delivery."""
        removed = self.all()
        for queued in removed:
            self._remove(queued)
        return removed

    def _remove(self, queued: QueuedDelivery) -> bool:
        if not self.has(queued):
            return False
        self._take_out(queued)
        self._release(queued)
        return True

    def _release(self, queued: QueuedDelivery) -> None:
        self.owned -= not queued.is_submitted
        self._deadlines.discard(queued.tick, queued)

    def _take_out(self, queued: QueuedDelivery) -> None:
        queue = self.queues[queued.destination]
        del queue[queued]
        if not queue:
            del self.queues[queued.destination]

    def _put_back(self, queued: QueuedDelivery) -> None:
        queue = self.queues.setdefault(queued.destination, OrderedDict())
        queue[queued] = None
        queue.move_to_end(queued, last=False)
