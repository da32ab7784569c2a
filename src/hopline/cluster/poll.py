"""Counting answers: a quorum of distinct members decides, and each member has one voice."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from hopline.cluster.ballot import Ballot
from hopline.cluster.lease import AckRead, AckWrite, Answer, Lease, WriteLease
from hopline.message import LocalError


class Members:
    """The configured members of a synod, which alone have a voice. How many they are decides what a quorum is."""

    def __init__(self, uri: str, uris: Sequence[str]) -> None:
        self._by_name = {plain(member): member for member in uris}
        if not uris or len(self._by_name) != len(uris):
            raise LocalError("synod.members", "one or more different URIs", list(uris))
        if plain(uri) not in self._by_name:
            raise LocalError("synod.local_node", f"one of the members {list(uris)}", uri)
        self.quorum = len(uris) // 2 + 1

    def __contains__(self, uri: str) -> bool:
        return plain(uri) in self._by_name

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def uris(self) -> list[str]:
        """Where they are, in the order of the configuration."""
        return list(self._by_name.values())

    def move(self, old: str, new: str) -> None:
        """Follow a member to another address. The number of members, and so the quorum, stays."""
        if old not in self or (new in self and plain(new) != plain(old)):
            raise LocalError("synod.members", f"a member that moves to an address of its own, not {old}", new)
        moved = [new if plain(member) == plain(old) else member for member in self.uris]
        self._by_name = {plain(member): member for member in moved}


def plain(uri: str) -> str:
    """Write a URI in one way: case does not matter in ours, nor a slash at the end."""
    return uri.rstrip("/").lower()


class Verdict(Enum):
    """How a poll ends."""

    COMMITTED = "committed"
    REFUSED = "refused"


class Poll:
    """The answers to one request of one ballot.

    An ACK is a fact that a NACK from the same member does not undo: acceptors refuse the second copy of a request whose
    first copy they agreed to.
    """

    def __init__(self, quorum: int) -> None:
        self._quorum = quorum
        self._acks: dict[str, Answer] = {}
        self._nacks: set[str] = set()

    def hear(self, answer: Answer) -> Verdict | None:
        """Count an answer; None while neither side has a quorum."""
        sender = plain(answer.sender_uri)
        if isinstance(answer, AckRead | AckWrite):
            self._acks.setdefault(sender, answer)
            self._nacks.discard(sender)
        elif sender not in self._acks:
            self._nacks.add(sender)
        if len(self._acks) >= self._quorum:
            return Verdict.COMMITTED
        return Verdict.REFUSED if len(self._nacks) >= self._quorum else None

    def lease(self) -> Lease | None:
        """Give the lease that was read: the one of the highest ballot that a member of the quorum has accepted."""
        reads = [answer for answer in self._acks.values() if isinstance(answer, AckRead)]
        return max(reads, key=lambda read: read.known_write_ballot).lease if reads else None


class Witness:
    """Learns of the leases that others obtain from what the synod says anyway, without a round of its own.

    A follower that knows the lease need not ask for it, and so does not disturb the owner's rounds.
    """

    REMEMBERED = 64  # ballots; more are hardly under way at a time

    def __init__(self, quorum: int) -> None:
        self._quorum = quorum
        self._rounds: dict[Ballot, tuple[set[str], list[Lease]]] = {}

    def hear(self, message: WriteLease | AckWrite) -> Lease | None:
        """Note a message of some round; the lease, once a quorum is known to have accepted it."""
        senders, leases = self._rounds.setdefault(message.ballot, (set(), []))
        if isinstance(message, AckWrite):
            senders.add(plain(message.sender_uri))
        elif not leases:
            leases.append(message.lease)
        while len(self._rounds) > self.REMEMBERED:
            del self._rounds[next(iter(self._rounds))]
        return leases[0] if leases and len(senders) >= self._quorum else None
