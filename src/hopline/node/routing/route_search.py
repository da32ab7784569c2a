"""What happens to messages that nothing handles: they wait while a route is looked for, or end as unroutable.

A message waits in the `UnroutedQueue` if the node can look for routes and the message is worth it, until a route is
found, its lifetime is over, or `discovery_timeout` has passed since it arrived.
"""

from __future__ import annotations

from collections.abc import Callable

from hopline.actors import flow_log
from hopline.client import Deadlines
from hopline.message import Message, MessageIdentifier, printable
from hopline.node.routing.failures import REPORTS, Failures
from hopline.node.routing.unrouted import Sought, UnroutedQueue
from hopline.node.settings import NodeSettings
from hopline.routing import Decision, Delivery, Outcome

log = flow_log("hopline.router")


class RouteSearch:
    """Looks for routes to messages that nothing handles, and keeps these meanwhile.

    Args:
        settings: How many messages may wait, and how long.
        deadlines: Where their time limits are set.
        clock: The node's clock.
        failures: Ends messages for which no route is found.
        discover: Looks for a route; without it, nothing waits.
        explain: Returns why there is no route to a kind of message, if that is known.
        on_left: Called when a message no longer waits because its time has passed.
    """

    def __init__(
        self,
        settings: NodeSettings,
        deadlines: Deadlines,
        clock: Callable[[], float],
        failures: Failures,
        *,
        discover: Callable[[Message], None] | None,
        explain: Callable[[MessageIdentifier], str | None] | None,
        on_left: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._failures = failures
        self._discover = discover
        self._explain = explain
        self._on_left = on_left
        self._timeout = settings.discovery_timeout
        self._queue = UnroutedQueue(settings.unrouted_capacity, deadlines, self._no_route_found)
        self._is_discovering = False

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return len(self._queue)

    def release(self, target: Sought) -> list[Delivery]:
        """Remove and return the deliveries that wait for a target, which has become reachable."""
        return self._queue.release(target)

    def close(self) -> list[Delivery]:
        """Remove and return every delivery. From now on none waits."""
        self._discover = None
        return self._queue.release_all()

    def handle(self, delivery: Delivery, decision: Decision, unreachable: frozenset[bytes]) -> None:
        """Keep a message without a receiver while a route is looked for, if that is possible and worth it; else end it.

        Args:
            delivery: The message.
            decision: Why it has no receiver.
            unreachable: The nodes that were left out of the decision.
        """
        message = delivery.message
        if decision.undeliverable is Outcome.HOP_LIMIT:
            self._failures.end(delivery, Outcome.HOP_LIMIT, f"sent from node to node {message.hops} times")
            return
        # A report without a particular receiver that nothing handles is no loss.
        is_report = message.identity in REPORTS
        is_worth_it = not is_report or message.receiver_identity
        # Counted from the arrival: routes may come and go many times, and the search must end all the same.
        until = min(delivery.deadline, delivery.since + self._timeout)
        can_wait = self._discover is not None and is_worth_it and until > self._clock()
        if can_wait and self._queue.add(delivery, until):
            self._look_for_route(message)
            return
        outcome, reason = self._no_route_outcome(message, unreachable)
        self._failures.end(delivery, outcome, reason)

    def _look_for_route(self, message: Message) -> None:
        if self._discover is None or self._is_discovering:  # the search itself may find a route that is no good
            return
        self._is_discovering = True
        try:
            self._discover(message)
        except Exception:
            log.exception("looking for a route failed", flow=message)
        finally:
            self._is_discovering = False

    def _no_route_found(self, delivery: Delivery) -> None:
        if delivery.deadline <= self._clock():
            outcome, reason = Outcome.EXPIRED, "its lifetime was over while a route was looked for"
        else:
            outcome, reason = self._no_route_outcome(delivery.message)
        self._failures.end(delivery, outcome, reason)
        self._on_left()

    def _no_route_outcome(self, message: Message, unreachable: frozenset[bytes] = frozenset()) -> tuple[Outcome, str]:
        """Return the outcome of a message that has no route, and the reason."""
        if unreachable:
            return Outcome.FAILED, "every node that handles it is unreachable"
        if message.receiver_node_identity:
            return Outcome.UNROUTABLE, "its receiver is not known"
        explanation = None if self._explain is None else self._explain(message.identifier)
        if explanation is not None:
            return Outcome.UNROUTABLE, explanation
        callbacks = message.callback_point
        awaited = [str(callback) for callback in callbacks if callback.identity not in REPORTS]
        if not awaited:
            return Outcome.UNROUTABLE, "nobody handles it"
        names = printable(", ".join(awaited))
        return Outcome.UNROUTABLE, f"nobody handles it; its flow waits for {names}"
