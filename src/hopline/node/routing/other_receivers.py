"""The other receivers of a message whose turn it is not, tried when the receiver whose turn it is has no room."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hopline.message import Distribution, PeerGoneError
from hopline.node.routing.failures import Failures
from hopline.routing import Delivery, Outcome, Port, Tables

NO_ROOM_FOR_COPY = (Outcome.OVERFLOW, "a receiver of the broadcast has no room")


class OtherReceivers:
    """Offers deliveries to all receivers that handle them, regardless of whose turn it is.

    Args:
        tables: What the node knows of receivers.
        ports: The ports of receivers on this node.
        failures: Ends copies of broadcasts, which never wait.
        hand_over: Offers a delivery to a local port.
        send: Offers a delivery to the link to a node.
    """

    def __init__(
        self,
        tables: Tables,
        ports: Mapping[bytes, Port],
        failures: Failures,
        hand_over: Callable[[Delivery, Port], bool],
        send: Callable[[Delivery, bytes], bool],
    ) -> None:
        self._tables = tables
        self._ports = ports
        self._failures = failures
        self._hand_over = hand_over
        self._send = send

    def offer(self, delivery: Delivery, unreachable: frozenset[bytes]) -> bool:
        """Offer a delivery whose receiver is full to all others that handle it, here and on other nodes.

        Returns:
            False if they are full too, or if no other may get it.
        """
        message = delivery.message
        if message.receiver_identity:
            return False
        tables = self._tables
        node = message.receiver_node_identity
        if node and node != tables.node_identity:
            return False
        if message.distribution == Distribution.BROADCAST:
            self._failures.end(delivery, *NO_ROOM_FOR_COPY)
            return True
        actors = tables.internal.handlers(message.identifier) or ()
        for actor in actors:
            port = self._ports[actor]
            if self._hand_over(delivery, port):
                return True
        is_for_this_node = node or (message.hops and actors)
        if is_for_this_node or message.hops >= tables.hop_limit:
            return False
        return self._offer_to_nodes(delivery, unreachable)

    def _offer_to_nodes(self, delivery: Delivery, unreachable: frozenset[bytes]) -> bool:
        """Offer a delivery to each reachable node that handles it, until one accepts it."""
        ring = self._tables.external.handlers(delivery.message.identifier)
        nodes = list(ring or ())  # a copy: sending may change the table
        for node in nodes:
            if node in unreachable:
                continue
            try:
                if self._send(delivery, node):
                    return True
            except PeerGoneError:
                continue
        return False
