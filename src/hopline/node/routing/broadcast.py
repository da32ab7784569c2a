"""Broadcasts: a copy for each receiver."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hopline.message import PeerGoneError
from hopline.node.routing.failures import Failures
from hopline.node.routing.other_receivers import NO_ROOM_FOR_COPY
from hopline.observers.counters import MessageCounters
from hopline.routing import Decision, Delivery, Outcome, Port


class Broadcasts:
    """Delivers the copies of broadcasts.

    Args:
        ports: The ports of receivers on this node.
        counters: Where copies are counted.
        failures: Ends copies that no receiver accepts.
        send: Offers a copy to the link to a node.
    """

    def __init__(
        self,
        ports: Mapping[bytes, Port],
        counters: MessageCounters,
        failures: Failures,
        send: Callable[[Delivery, bytes], bool],
    ) -> None:
        self._ports = ports
        self._counters = counters
        self._failures = failures
        self._send = send

    def deliver(self, delivery: Delivery, decision: Decision) -> None:
        """Deliver a copy to each receiver. Copies never wait: one that finds a full queue is dropped and counted."""
        copies = len(decision.local) + len(decision.remote)
        self._counters.copied += copies - 1
        failures: list[tuple[Outcome, str]] = []
        for receiver in decision.local:
            port = self._ports[receiver]
            if not port.offer(delivery):
                failures.append(NO_ROOM_FOR_COPY)
        for node in decision.remote:
            try:
                if not self._send(delivery, node):
                    failures.append(NO_ROOM_FOR_COPY)
            except PeerGoneError:
                failures.append((Outcome.FAILED, "a node is gone"))
        notify = len(failures) == copies  # once, and only if no copy was accepted
        for outcome, reason in failures:
            self._failures.end(delivery, outcome, reason, notify=notify)
            notify = False
