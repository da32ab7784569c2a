"""Which server leads, by the lease that one of them knows, and the address in it."""

from __future__ import annotations

from random import Random

import pytest

from hopline import ArgumentError
from hopline.cluster.election.leadership import LEADING, NOBODY, leadership
from hopline.cluster.election.lease import Lease, LeaseSettings
from hopline.cluster.election.lease_keeper import LeaseKeeper
from hopline.cluster.messages.service_pb2 import (
    RendezvousNode,
)
from hopline.cluster.rendezvous_address import RendezvousAddress
from hopline.message import PayloadError
from tests.rendezvous.relays import (
    FOLLOWING,
    HERE,
    LEADER,
)


class FixedKeeper(LeaseKeeper):
    """A keeper whose lease is set by the test."""

    def set_lease(self, lease: Lease | None) -> None:
        self._lease = lease


def test_the_leadership_follows_from_the_lease() -> None:
    keeper = FixedKeeper(b"me", HERE, [HERE], LEADER.payload(), LeaseSettings(), Random(1), 0)
    assert leadership(keeper, 0) == NOBODY
    for lease, expected in (
        (Lease(b"me", 10, LEADER.payload()), LEADING),
        (Lease(b"other", 10, LEADER.payload()), FOLLOWING),
        (Lease(b"other", 10, b"garbage"), NOBODY),
        (Lease(b"other", 10, b""), NOBODY),
    ):
        keeper.set_lease(lease)
        assert leadership(keeper, 9) == expected
        assert leadership(keeper, 10) == NOBODY


def test_an_address_needs_broadcast_and_unicast_uris() -> None:
    assert RendezvousAddress.of(LEADER.content()) == LEADER
    with pytest.raises(ArgumentError):
        RendezvousAddress("tcp://10.0.0.9:8001", "")
    with pytest.raises(PayloadError):
        RendezvousAddress.of(RendezvousNode(unicast_uri="tcp://10.0.0.9:8011"))
