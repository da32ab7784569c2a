"""The address of a rendezvous server."""

from __future__ import annotations

import msgspec

from hopline.checks import require
from hopline.cluster.messages import service_pb2
from hopline.message import PayloadError


class RendezvousAddress(msgspec.Struct, frozen=True):
    """The URIs under which nodes and partner networks reach a server. They are the payload of its lease.

    Raises:
        ArgumentError: The broadcast or the unicast URI is missing, on which nodes of the reference fail.
    """

    broadcast_uri: str  # where it publishes
    unicast_uri: str  # where it receives messages
    partner_broadcast_uri: str = ""  # where it publishes for partner networks

    def __post_init__(self) -> None:
        has_both = bool(self.broadcast_uri and self.unicast_uri)  # nodes of the reference fail on a leader without
        require(has_both, "rendezvous", "a broadcast and a unicast URI", self)

    def __str__(self) -> str:
        return self.broadcast_uri

    def content(self) -> service_pb2.RendezvousNode:
        """Return the address as it stands in messages."""
        return service_pb2.RendezvousNode(
            broadcast_uri=self.broadcast_uri,
            unicast_uri=self.unicast_uri,
            partner_broadcast_uri=self.partner_broadcast_uri,
        )

    def payload(self) -> bytes:
        """Return the address as it stands in a lease."""
        return self.content().SerializeToString()

    @classmethod
    def of(cls, content: service_pb2.RendezvousNode) -> RendezvousAddress:
        """Return the address in a message.

        Raises:
            PayloadError: The broadcast or the unicast URI is missing.
        """
        if not (content.broadcast_uri and content.unicast_uri):
            raise PayloadError(service_pb2.RendezvousNode, "not both URIs", content.SerializeToString())
        return cls(content.broadcast_uri, content.unicast_uri, content.partner_broadcast_uri)
