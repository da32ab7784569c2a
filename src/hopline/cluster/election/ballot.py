"""Ballots: the total order of all rounds of a synod."""

from __future__ import annotations

import msgspec

MAX_TICKS = 3_155_378_975_999_999_999  # the last moment of .NET's clock; the reference fails on later ones
MAX_NUMBER = 2**31 - 1


class Ballot(msgspec.Struct, frozen=True, order=True):
    """One round of one proposer. Ballots are ordered by timestamp, then number, then identity.

    Identities are compared byte by byte, and a shorter one precedes a longer one that starts with it: the reference
    fails on identities of different length. `timestamp` is in UTC ticks of 100 ns since the year 1.
    """

    timestamp: int = 0
    number: int = 0
    identity: bytes = b""


NO_BALLOT = Ballot()
"""The ballot of an acceptor that has seen none. Every other ballot is higher."""


class Ballots:
    """Makes the ballots of one proposer, each higher than every ballot that it has made or seen.

    This does not depend on the clock, which may stand still, go back, or be behind the others'.
    """

    def __init__(self, identity: bytes) -> None:
        self._identity = identity
        self._highest = NO_BALLOT

    def observe(self, ballot: Ballot) -> None:
        """Record a ballot of any proposer, so that the next one made here is higher."""
        self._highest = max(self._highest, ballot)

    def next(self, now: int) -> Ballot:
        """Return a new ballot."""
        timestamp, number = self._highest.timestamp, self._highest.number
        if now > timestamp:
            ballot = Ballot(now, 1, self._identity)
        elif number < MAX_NUMBER:
            ballot = Ballot(timestamp, number + 1, self._identity)
        else:
            ballot = Ballot(min(timestamp + 1, MAX_TICKS), 1, self._identity)
        self.observe(ballot)
        return ballot
