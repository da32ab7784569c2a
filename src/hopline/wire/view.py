"""What a router looks at, without the rest of the message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hopline.message import MessageIdentifier, Version, WireFormat


class RoutingView(NamedTuple):
    """The route selectors and the hop count of a message that is still in its frames."""

    identity: bytes
    version: Version
    partition: bytes
    receiver_identity: bytes
    receiver_node_identity: bytes
    distribution: int
    hops: int
    wire_format: WireFormat
    frames: Sequence[bytes]

    @property
    def identifier(self) -> MessageIdentifier:
        """The kind of the message."""
        return MessageIdentifier(self.identity, self.version, self.partition)


# What is read for a view; the rest of it is known.
ROUTING_FIELDS = frozenset(RoutingView._fields) - {"wire_format", "frames"}
