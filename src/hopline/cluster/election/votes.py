"""Counting answers: a quorum of distinct members decides, and each member has one vote."""

from __future__ import annotations

from enum import Enum

from hopline.cluster.election.ballot import Ballot
from hopline.cluster.election.lease import AckRead, AckWrite, Answer, Lease, WriteLease
from hopline.cluster.election.members import normalized


class Verdict(Enum):
    """The result of a vote."""

    COMMITTED = "committed"
    REFUSED = "refused"


class VoteCount:
    """The answers to one request of one ballot.

    An ACK is not undone by a later NACK of the same member: an acceptor refuses the second copy of a request whose
    first copy it has accepted.
    """

    def __init__(self, quorum: int) -> None:
        self._quorum = quorum
        self._acks: dict[str, Answer] = {}
        self._nacks: set[str] = set()

    def add(self, answer: Answer) -> Verdict | None:
        """Count an answer; return None while neither side has a quorum."""
        sender = normalized(answer.sender_uri)
        if isinstance(answer, AckRead | AckWrite):
            self._acks.setdefault(sender, answer)
            self._nacks.discard(sender)
        elif sender not in self._acks:
            self._nacks.add(sender)
        if len(self._acks) >= self._quorum:
            return Verdict.COMMITTED
        if len(self._nacks) >= self._quorum:
            return Verdict.REFUSED
        return None

    def lease(self) -> Lease | None:
        """Return the lease that was read: of those that members have accepted, the one with the highest ballot."""
        reads = [answer for answer in self._acks.values() if isinstance(answer, AckRead)]
        if not reads:
            return None
        latest = max(reads, key=_known_write_ballot)
        return latest.lease


def _known_write_ballot(answer: AckRead) -> Ballot:
    return answer.known_write_ballot


class LeaseObserver:
    """Learns which leases other members obtain from the messages of their rounds, which every member receives.

    A follower that knows the lease need not start a round to ask for it, and so does not disturb the owner's rounds.
    """

    REMEMBERED = 64  # ballots; there are hardly more under way at a time

    def __init__(self, quorum: int) -> None:
        self._quorum = quorum
        self._senders: dict[Ballot, set[str]] = {}
        self._leases: dict[Ballot, Lease] = {}

    def observe(self, message: WriteLease | AckWrite) -> Lease | None:
        """Record a message of any round; return its lease once a quorum has accepted it."""
        ballot = message.ballot
        senders = self._senders.setdefault(ballot, set())
        if isinstance(message, AckWrite):
            sender = normalized(message.sender_uri)
            senders.add(sender)
        else:
            self._leases.setdefault(ballot, message.lease)
        self._forget_oldest()
        if len(senders) < self._quorum:
            return None
        return self._leases.get(ballot)

    def _forget_oldest(self) -> None:
        while len(self._senders) > self.REMEMBERED:
            oldest = next(iter(self._senders))
            del self._senders[oldest]
            self._leases.pop(oldest, None)
