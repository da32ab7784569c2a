"""The lease that a synod gives to one of its members, what its members say to each other, and its times."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hopline.cluster.ballot import Ballot
from hopline.message import LocalError

TICKS_PER_SECOND = 10_000_000
LONGEST = 86_400.0  # seconds: no time of a lease is meant to be more than a day


class Lease(msgspec.Struct, frozen=True):
    """Who leads until when, in UTC ticks by the owner's clock. The payload says where the owner is found."""

    identity: bytes
    expires_at: int
    owner_payload: bytes = b""


class ReadLease(msgspec.Struct, frozen=True):
    """A proposer asks: what do you know? And: promise to refuse whoever comes with a lower ballot."""

    ballot: Ballot


class AckRead(msgspec.Struct, frozen=True):
    """An acceptor's promise, with the lease that it accepted last."""

    ballot: Ballot
    known_write_ballot: Ballot
    lease: Lease | None
    sender_uri: str


class NackRead(msgspec.Struct, frozen=True):
    """An acceptor has promised otherwise."""

    ballot: Ballot
    sender_uri: str


class WriteLease(msgspec.Struct, frozen=True):
    """A proposer asks: accept this lease."""

    ballot: Ballot
    lease: Lease


class AckWrite(msgspec.Struct, frozen=True):
    """An acceptor has accepted the lease of this ballot."""

    ballot: Ballot
    sender_uri: str


class NackWrite(msgspec.Struct, frozen=True):
    """An acceptor has promised otherwise."""

    ballot: Ballot
    sender_uri: str


Request: TypeAlias = ReadLease | WriteLease
Answer: TypeAlias = AckRead | NackRead | AckWrite | NackWrite
ConsensusMessage: TypeAlias = Request | Answer


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a lease, in seconds. Every member of a synod must have the same."""

    max_lease: float = 3.0  # how long a lease is for, unless it is prolonged
    clock_drift: float = 0.1  # how far the clocks of any two members may be apart
    message_roundtrip: float = 0.4  # a message and its answer, at worst
    node_response_timeout: float = 0.2  # how long a proposer waits for a quorum of answers

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (is_number and (0 < value <= LONGEST or (value == 0 and name == "clock_drift"))):
                raise LocalError(f"lease.{name}", f"more than 0 and at most {LONGEST:g} seconds", value)
        if 2 * self.node_response_timeout > self.message_roundtrip:
            raise LocalError(
                "lease.node_response_timeout",
                f"at most half of lease.message_roundtrip ({self.message_roundtrip:g} s)",
                self.node_response_timeout,
            )
        least = 2 * self.message_roundtrip + self.clock_drift
        if self.max_lease <= least:
            raise LocalError(
                "lease.max_lease",
                f"more than two of lease.message_roundtrip and lease.clock_drift ({least:g} s)",
                self.max_lease,
            )

    @property
    def prolong_after(self) -> float:
        """When the owner prolongs: early enough for two rounds before anyone could think the lease over."""
        return self.max_lease - 2 * self.message_roundtrip - self.clock_drift

    @property
    def mute_time(self) -> float:
        """How long an acceptor stays mute that may have forgotten what it said before it was restarted.

        A lease that it has forgotten ends at most `max_lease` after its last vote, by the owner's clock. That clock may
        have been ahead of ours by the drift when the lease was given, and behind by as much when it ends.
        """
        return self.max_lease + 2 * self.clock_drift


def in_ticks(seconds: float) -> int:
    """Count seconds in ticks of 100 ns."""
    return round(seconds * TICKS_PER_SECOND)
