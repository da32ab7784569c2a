"""Where a rendezvous server is found."""

from __future__ import annotations

import msgspec

from hopline.checks import require
from hopline.cluster.messages import service_pb2
from hopline.message import PayloadError

_URIS = ("broadcast_uri", "unicast_uri", "partner_broadcast_uri")


class RendezvousAddress(msgspec.Struct, frozen=True):
    """Where one server is found, as nodes and partners must be able to reach it. It is the payload of its lease."""

    broadcast_uri: str  # where it publishes
    unicast_uri: str  # where it takes messages
    partner_broadcast_uri: str = ""  # where it publishes for partner networks

    def __post_init__(self) -> None:
        has_both = bool(self.broadcast_uri and self.unicast_uri)  # nodes of the reference fail on a leader without
        require(has_both, "rendezvous", "a broadcast and a unicast URI", self)

    def __str__(self) -> str:
        return self.broadcast_uri

    def content(self) -> service_pb2.RendezvousNode:
        """Write it into a message."""
        return service_pb2.RendezvousNode(**{name: getattr(self, name) for name in _URIS})

    def payload(self) -> bytes:
        """Write it into a lease."""
        return self.content().SerializeToString()

    @classmethod
    def of(cls, content: service_pb2.RendezvousNode) -> RendezvousAddress:
        """Read it, or raise `PayloadError` when nodes could not connect to it."""
        if not (content.broadcast_uri and content.unicast_uri):
            raise PayloadError(service_pb2.RendezvousNode, "not both URIs", content.SerializeToString())
        return cls(content.broadcast_uri, content.unicast_uri, content.partner_broadcast_uri)
