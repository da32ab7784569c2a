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
    """What a server knows of the leadership at one moment: it leads, it follows `leader`, or nobody is known to."""

    leads: bool = False
    leader: RendezvousAddress | None = None


LEADING = Leadership(leads=True)
NOBODY = Leadership()


def leadership(keeper: LeaseKeeper, now: int) -> Leadership:
    """Return what a server knows of the leadership. Ask each time: a lease ends by itself."""
    lease = keeper.lease(now)
    if lease is None:
        return NOBODY
    return LEADING if lease.identity == keeper.me else _following(lease.owner_payload)


@lru_cache(maxsize=16)
def _following(payload: bytes) -> Leadership:
    """Follow the owner of a lease; if it does not say where it is, it cannot be followed."""
    try:
        return Leadership(leader=RendezvousAddress.of(read_body(payload, service_pb2.RendezvousNode)))
    except PayloadError:
        return NOBODY
