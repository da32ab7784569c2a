"""Backpressure: which messages wait for room at their receivers, how long, and when other nodes have to wait too.

The queue itself is in `backpressure_queue`. The rules for what is in it are here:

* A delivery waits for `backpressure_timeout` at most, and never longer than it lives.
* Deliveries that the node owns are bounded by `backpressure_capacity`: one more ends with an overflow. When the last
  place is taken, `on_full` is called, and the node stops reading from other nodes until a quarter of the places is
  free again. What a submitter of this node waits for is not bounded: the submitter is the one that waits.
* A delivery that a submitter waits for counts as submitted when it is handed over or given up. One that its submitter
  withdraws was never submitted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context

from hopline.client import Deadlines
from hopline.message import Distribution, Message
from hopline.node.routing.backpressure_queue import BackpressureQueue, Destination, QueuedDelivery, destination
from hopline.node.routing.failures import Failures
from hopline.node.routing.submissions import Submissions
from hopline.node.settings import NodeSettings
from hopline.observers.counters import MessageCounters
from hopline.observers.observer import Observers
from hopline.routing import Delivery, Outcome

_RESUME_AT = 0.75  # of the capacity: with so few waiting, reading goes on


class Backpressure:
    """Lets the messages of one node wait for room.

    Args:
        node_identity: The node.
        settings: How many messages may wait, and how long.
        deadlines: Where their time limits are set.
        clock: The node's clock.
        counters: Where submissions are counted that have waited.
        observers: The observers of the node.
        submissions: Reports submissions that have waited.
        failures: Ends messages for which there is no room in time.
        route: Routes a delivery past unreachable nodes; returns False if there is still no room for it.
        on_left: Called when a message no longer waits.
    """

    def __init__(
        self,
        node_identity: bytes,
        settings: NodeSettings,
        deadlines: Deadlines,
        clock: Callable[[], float],
        *,
        counters: MessageCounters,
        observers: Observers,
        submissions: Submissions,
        failures: Failures,
        route: Callable[[Delivery, frozenset[bytes]], bool],
        on_left: Callable[[], None],
    ) -> None:
        self.queue = BackpressureQueue(deadlines, self._route_again, self._left, self._expired)
        self.on_full: Callable[[bool], None] | None = None  # called when no more may wait, and when they may again
        self._node_identity = node_identity
        self._timeout = settings.backpressure_timeout
        self._capacity = settings.backpressure_capacity
        self._clock = clock
        self._counters = counters
        self._observers = observers
        self._submissions = submissions
        self._failures = failures
        self._route = route
        self._on_left = on_left
        self._is_full = False

    def _destination(self, message: Message) -> Destination:
        return destination(message, self._node_identity)

    def must_wait(self, message: Message) -> bool:
        """Return whether others wait for the same destination, which a message must not overtake."""
        if message.distribution == Distribution.BROADCAST:
            return False
        return self._destination(message) in self.queue.queues

    def add_submitted(self, delivery: Delivery, within: float) -> QueuedDelivery:
        """Queue a delivery for its submitter, which waits for it for so many seconds at most."""
        if self._observers.is_observed:  # now, in the context of the submitter, which observers may need
            delivery = self._submissions.submitting(delivery)
            self._submissions.refused(delivery)
        timeout = min(within, self._timeout)
        until = min(delivery.deadline, delivery.since + timeout)
        where = self._destination(delivery.message)
        return self.queue.add(where, delivery, until, frozenset(), submitted=True)

    def add_owned(self, delivery: Delivery, now: float, unreachable: frozenset[bytes]) -> None:
        """Queue a delivery that the node owns, or end it if too many wait already."""
        queue = self.queue
        if queue.owned >= self._capacity:
            self._failures.end(delivery, Outcome.OVERFLOW, "too many messages wait for room")
            return
        until = min(delivery.deadline, now + self._timeout)
        where = self._destination(delivery.message)
        queue.add(where, delivery, until, unreachable, submitted=False)
        if queue.owned >= self._capacity:
            self._set_full(True)

    def link_has_room(self, gone: bytes | None) -> None:
        """Hand over what waits because some link has room, or its node is gone."""
        if gone is not None:
            for queued in self.queue.all():
                queued.unreachable |= {gone}
        self.queue.serve_all()

    def fail(self, queued: QueuedDelivery, reason: str) -> None:
        """End a delivery that was removed from the queue because the node stops."""
        self._give_up(queued)
        self._failures.end(queued.delivery, Outcome.FAILED, reason)
        queued.finish()

    # -- called by the queue -------------------------------------------------------------------------------------------

    def _route_again(self, queued: QueuedDelivery) -> bool:
        def route(delivery: Delivery) -> bool:
            return self._route(delivery, queued.unreachable)

        if self._observers.is_observed and queued.is_submitted:
            # In an empty context: the current one belongs to whatever made room, not to the submitter.
            return Context().run(self._submissions.observe, queued.delivery, route)
        return route(queued.delivery)

    def _left(self, queued: QueuedDelivery) -> None:
        if queued.is_submitted:
            self._counters.submitted += 1
        if self._is_full and self.queue.owned <= self._capacity * _RESUME_AT:
            self._set_full(False)
        self._on_left()

    def _expired(self, queued: QueuedDelivery) -> None:
        delivery = queued.delivery
        self._give_up(queued)
        if delivery.deadline <= self._clock():
            self._failures.end(delivery, Outcome.EXPIRED, "its lifetime was over before there was room for it")
        else:
            waited = round(queued.until - delivery.since, 3)
            self._failures.end(delivery, Outcome.OVERFLOW, f"no room for it within {waited:g} s")

    def _give_up(self, queued: QueuedDelivery) -> None:
        """Take a delivery out of its submitter's hands, because its wait for room ends in failure."""
        if queued.is_submitted:
            self._submissions.submitted(queued.delivery)
        self._left(queued)

    def _set_full(self, is_full: bool) -> None:
        if is_full is self._is_full:
            return
        self._is_full = is_full
        if self.on_full is not None:
            self.on_full(is_full)
