"""Where a rendezvous server listens, and who of them leads."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from hopline.cluster import service_pb2
from hopline.cluster.lease_keeper import LeaseKeeper
from hopline.cluster.service import read_body
from hopline.message import LocalError, PayloadError

_URIS = ("broadcast_uri", "unicast_uri", "partner_broadcast_uri")


class RendezvousAddress(msgspec.Struct, frozen=True):
    """Where one server is found, as nodes and partners must be able to reach it. It is the payload of its lease."""

    broadcast_uri: str  # where it publishes
    unicast_uri: str  # where it takes messages
    partner_broadcast_uri: str = ""  # where it publishes for partner networks

    def __post_init__(self) -> None:
        if not (self.broadcast_uri and self.unicast_uri):  # nodes of the reference fail on a leader without
            raise LocalError("rendezvous", "a broadcast and a unicast URI", self)

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


class Standing(msgspec.Struct, frozen=True):
    """What a server knows of the leadership at one moment: it leads, it follows `leader`, or nobody is known to."""

    leads: bool = False
    leader: RendezvousAddress | None = None


LEADING = Standing(leads=True)
NOBODY = Standing()


def standing(keeper: LeaseKeeper, now: int) -> Standing:
    """Tell where a server stands. Ask each time: a lease ends by itself."""
    lease = keeper.lease(now)
    if lease is None:
        return NOBODY
    return LEADING if lease.identity == keeper.me else _following(lease.owner_payload)


@lru_cache(maxsize=16)
def _following(payload: bytes) -> Standing:
    """Follow the owner of a lease; if it does not say where it is, it cannot be followed."""
    try:
        return Standing(leader=RendezvousAddress.of(read_body(payload, service_pb2.RendezvousNode)))
    except PayloadError:
        return NOBODY
