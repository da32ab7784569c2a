"""Sending to other nodes: what a message carries when it leaves, and what it was before, if its link gives it back.

`RemoteSender.send` runs for every message that leaves, and is written for speed.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hopline.actors import flow_log
from hopline.message import HoplineError, Message, PeerGoneError, RoutingEntry
from hopline.node.routing.failures import Failures
from hopline.node.routing.links import Links
from hopline.observers.counters import MessageCounters
from hopline.observers.observer import Observers
from hopline.routing import NO_DEADLINE, Delivery, Outcome, delivery_of, remaining_ticks

log = flow_log("hopline.router")

_replace = msgspec.structs.replace  # what `Message.clone` does, in half the time


class RemoteSender:
    """Offers deliveries to the links to other nodes.

    Args:
        links: The links of the node.
        address: What the node appends to the routing trace of a message.
        clock: The node's clock.
        counters: Where messages are counted that links accepted.
        observers: The observers of the node.
        failures: Ends messages that no link can send.
    """

    def __init__(
        self,
        links: Links,
        address: RoutingEntry,
        clock: Callable[[], float],
        counters: MessageCounters,
        observers: Observers,
        failures: Failures,
    ) -> None:
        self._links = links
        self._link_to = links.by_node
        self._address = address
        self._clock = clock
        self._counters = counters
        self._observers = observers
        self._failures = failures

    def send(self, delivery: Delivery, node: bytes) -> bool:
        """Offer a delivery to the link to a node.

        Returns:
            False if the link is full.

        Raises:
            PeerGoneError: The node cannot be reached.
        """
        message = delivery.message
        ttl_ticks = message.ttl_ticks
        if delivery.deadline != NO_DEADLINE:
            now = self._clock()
            if delivery.deadline <= now:
                self._failures.end(delivery, Outcome.EXPIRED, "its lifetime was over before it could be sent")
                return True
            ttl_ticks = remaining_ticks(delivery, now)
        observers = self._observers
        if observers.sending is not None:
            message = observers.sending(message, delivery)
        outgoing = _replace(
            message,
            hops=message.hops + 1,
            routing=(*message.routing, self._address),
            socket_identity=node,
            ttl_ticks=ttl_ticks,
        )
        offered_at = 0.0 if observers.sent is None else self._clock()  # before: the link may deliver it at once
        try:
            link = self._link_to.get(node) or self._links.connect(node)
            if not link.offer(outgoing):
                self._links.watch(node, link)
                return False
        except PeerGoneError:
            raise
        except HoplineError as error:  # no link can send it: it is too large, or belongs to no domain
            self._failures.end(delivery, Outcome.FAILED, str(error))
            return True
        except Exception as error:  # treat a link that is broken in any other way as a peer that is gone
            log.exception("the link to a node failed", flow=message)
            raise PeerGoneError(node) from error
        self._counters.sent += 1
        if observers.sent is not None:
            observers.sent(delivery, outgoing, node, offered_at)
        return True


def unsent(message: Message, now: float, waited: float) -> Delivery:
    """Return the delivery of a message that a link had accepted, as it was before it was sent.

    Args:
        message: The message as the link got it.
        now: The time by the node's clock.
        waited: Seconds that it spent in the link.
    """
    as_before = message.clone(
        hops=message.hops - 1,
        routing=message.routing[:-1],
        socket_identity=b"",
    )
    return delivery_of(as_before, now - waited)
