"""Ballots: the order in which the rounds of a synod count, whoever started them."""

from __future__ import annotations

import msgspec

MAX_TICKS = 3_155_378_975_999_999_999  # the last moment that .NET's clock can say; the reference fails on later ones
MAX_NUMBER = 2**31 - 1


class Ballot(msgspec.Struct, frozen=True, order=True):
    """One round of one proposer. Ballots are ordered by timestamp, then number, then identity.

    Identities are compared byte by byte, and a shorter one comes before a longer one that starts with it: the reference
    fails on identities of different length. `timestamp` is in UTC ticks of 100 ns since the year 1.
    """

    timestamp: int = 0
    number: int = 0
    identity: bytes = b""


NO_BALLOT = Ballot()  # what an acceptor has seen that has seen nothing


class Ballots:
    """Makes the ballots of one proposer: each is higher than those before it, and than any other that it has seen.

    The clock may stand still, run backwards, or be behind the others': their ballots carry ours up.
    """

    def __init__(self, identity: bytes) -> None:
        self._identity = identity
        self._highest = NO_BALLOT

    def saw(self, ballot: Ballot) -> None:
        """Note somebody's ballot, so that the next one of ours is higher."""
        self._highest = max(self._highest, ballot)

    def next(self, now: int) -> Ballot:
        """Make a ballot."""
        timestamp, number = self._highest.timestamp, self._highest.number
        if now > timestamp:
            ballot = Ballot(now, 1, self._identity)
        elif number < MAX_NUMBER:
            ballot = Ballot(timestamp, number + 1, self._identity)
        else:
            ballot = Ballot(min(timestamp + 1, MAX_TICKS), 1, self._identity)
        self.saw(ballot)
        return ballot
