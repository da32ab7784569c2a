"""Which rendezvous server leads, as far as one of them knows."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from hopline.cluster.election.lease_keeper import LeaseKeeper
from hopline.cluster.messages import service_pb2
from hopline.cluster.messages.service import read_body
from hopline.cluster.rendezvous_address import RendezvousAddress
from hopline.message import PayloadError


class Leadership(msgspec.Struct, frozen=True):
    """What a server knows about the leadership at one moment: it leads itself, another does, or nobody is known to."""

    leads: bool = False
    leader: RendezvousAddress | None = None  # the other server that leads


LEADING = Leadership(leads=True)
NOBODY = Leadership()


def leadership(keeper: LeaseKeeper, now: int) -> Leadership:
    """Return what a server knows about the leadership. The result is valid for this moment only: leases expire."""
    lease = keeper.lease(now)
    if lease is None:
        return NOBODY
    if lease.identity == keeper.me:
        return LEADING
    return _following(lease.owner_payload)


@lru_cache(maxsize=16)
def _following(payload: bytes) -> Leadership:
    """Return the leadership of the owner of a lease; an owner without a usable address counts as nobody."""
    try:
        address = RendezvousAddress.of(read_body(payload, service_pb2.RendezvousNode))
    except PayloadError:
        return NOBODY
    return Leadership(leader=address)
