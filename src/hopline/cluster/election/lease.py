"""The lease that a synod grants to one of its members, the messages about it, and its times."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hopline.checks import Range, require, require_numbers
from hopline.cluster.election.ballot import Ballot

TICKS_PER_SECOND = 10_000_000
LONGEST = 86_400.0  # seconds: the upper limit of all times in the settings of a synod


class Lease(msgspec.Struct, frozen=True):
    """The right to lead until a time, in UTC ticks by the owner's clock."""

    identity: bytes  # of the owner
    expires_at: int
    owner_payload: bytes = b""  # the owner's address


class ReadLease(msgspec.Struct, frozen=True):
    """A proposer asks for the lease that was accepted last, and for a promise to refuse lower ballots."""

    ballot: Ballot


class AckRead(msgspec.Struct, frozen=True):
    """An acceptor's promise, with the lease that it accepted last."""

    ballot: Ballot
    known_write_ballot: Ballot
    lease: Lease | None
    sender_uri: str


class NackRead(msgspec.Struct, frozen=True):
    """An acceptor refuses: it has seen a ballot that is as high or higher."""

    ballot: Ballot
    sender_uri: str


class WriteLease(msgspec.Struct, frozen=True):
    """A proposer asks the acceptors to accept a lease."""

    ballot: Ballot
    lease: Lease


class AckWrite(msgspec.Struct, frozen=True):
    """An acceptor has accepted the lease of this ballot."""

    ballot: Ballot
    sender_uri: str


class NackWrite(msgspec.Struct, frozen=True):
    """An acceptor refuses: it has seen a higher ballot."""

    ballot: Ballot
    sender_uri: str


Request: TypeAlias = ReadLease | WriteLease
Answer: TypeAlias = AckRead | NackRead | AckWrite | NackWrite
ConsensusMessage: TypeAlias = Request | Answer


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a lease, in seconds. Every member of a synod must have the same."""

    max_lease: float = 3.0  # time for which a lease is valid unless it is renewed
    clock_drift: float = 0.1  # largest difference between the clocks of any two members
    message_roundtrip: float = 0.4  # longest time for a message and its answer
    node_response_timeout: float = 0.2  # time for which a proposer waits for a quorum of answers

    def __post_init__(self) -> None:
        require_numbers(self, _ACCEPTED, "lease.")
        require(
            2 * self.node_response_timeout <= self.message_roundtrip,
            "lease.node_response_timeout",
            f"at most half of lease.message_roundtrip ({self.message_roundtrip:g} s)",
            self.node_response_timeout,
        )
        least = 2 * self.message_roundtrip + self.clock_drift
        require(
            self.max_lease > least,
            "lease.max_lease",
            f"more than two of lease.message_roundtrip and lease.clock_drift ({least:g} s)",
            self.max_lease,
        )

    @property
    def renew_after(self) -> float:
        """When the owner renews: early enough for two rounds before any member could consider the lease expired."""
        return self.max_lease - 2 * self.message_roundtrip - self.clock_drift

    @property
    def mute_time(self) -> float:
        """How long an acceptor stays mute after a start, because it may have forgotten its earlier votes.

        A forgotten lease expires at most `max_lease` after the vote, by the owner's clock. That clock may have been
        ahead of ours by the drift when the lease was granted, and behind by as much when it expires.
        """
        return self.max_lease + 2 * self.clock_drift


_ABOVE_ZERO = Range(0, LONGEST, excludes_least=True)
_ACCEPTED = {
    "max_lease": _ABOVE_ZERO,
    "clock_drift": Range(0, LONGEST),
    "message_roundtrip": _ABOVE_ZERO,
    "node_response_timeout": _ABOVE_ZERO,
}


def in_ticks(seconds: float) -> int:
    """Return a duration in ticks of 100 ns."""
    return round(seconds * TICKS_PER_SECOND)
