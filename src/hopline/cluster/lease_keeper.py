"""A member of a synod: it votes, and it tries to hold the lease, or to know who does. Pure: time and chance come in."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from hopline.cluster.acceptor import Acceptor
from hopline.cluster.ballot import NO_BALLOT, Ballot, Ballots
from hopline.cluster.lease import (
    AckRead,
    AckWrite,
    Answer,
    ConsensusMessage,
    Lease,
    LeaseSettings,
    NackRead,
    ReadLease,
    WriteLease,
    in_ticks,
)
from hopline.cluster.poll import Members, Poll, Verdict, Witness

_LONGEST_BACK_OFF = 3  # doublings


class LeaseStatistics(msgspec.Struct):
    """What a keeper did and saw."""

    rounds: int = 0
    refused: int = 0  # rounds that a quorum of members refused
    timed_out: int = 0  # rounds that found no quorum in time
    from_strangers: int = 0  # answers of nobody's: its members may be configured under other addresses there
    clock_steps: int = 0  # how often the clock went back by more than it may


class _Round:
    """One try under one ballot: read, then write. `started` is the time before the read.

    It is given up at its deadline, and tried anew by `tick` under another ballot, never by itself.
    """

    def __init__(self, ballot: Ballot, started: int, quorum: int, deadline: int) -> None:
        self.ballot = ballot
        self.started = started
        self.deadline = deadline
        self.lease: Lease | None = None  # what is being written; None while reading
        self.poll = Poll(quorum)
        self._quorum = quorum

    def is_answered_by(self, answer: Answer) -> bool:
        is_to_read = isinstance(answer, AckRead | NackRead)
        return answer.ballot == self.ballot and is_to_read == (self.lease is None)

    def write(self, lease: Lease, deadline: int) -> WriteLease:
        self.lease = lease
        self.deadline = deadline
        self.poll = Poll(self._quorum)
        return WriteLease(self.ballot, lease)


class LeaseKeeper:
    """Keeps one member's side of the lease.

    Every message that it gives back is to be published to all members, *this one included*: publish it, and hand in
    whatever the member's own subscription brings, its own messages too. One that comes twice does no harm.

    `now` is the wall clock in UTC ticks; safety rests on it being within `clock_drift` of the other members' clocks.
    At most one member believes at any time that it leads, provided that each keeps its settings and its clock.
    `me` must be new in each life of the process.

    Call `tick` when `next_tick` has come, which any other call may change.
    """

    def __init__(
        self,
        me: bytes,
        uri: str,
        members: Sequence[str],
        payload: bytes,
        settings: LeaseSettings,
        random: Random,
        now: int,
    ) -> None:
        self.me = me
        self.statistics = LeaseStatistics()
        self._payload = payload
        self._members = Members(uri, members)
        self._random = random
        self._max_lease = in_ticks(settings.max_lease)
        self._drift = in_ticks(settings.clock_drift)
        self._prolong_after = in_ticks(settings.prolong_after)
        self._answer_time = in_ticks(settings.node_response_timeout)
        self._roundtrip = in_ticks(settings.message_roundtrip)
        # A single member forgets no lease but its own earlier life's, and that has ended: they share an address, which
        # cannot be bound twice. If it could, waiting would not help, for each would be a quorum by itself for ever.
        self._mute_time = in_ticks(settings.mute_time) if len(self._members) > 1 else 0
        self._mute_until = now + self._mute_time
        self._acceptor = Acceptor(uri, self._mute_until)
        self._ballots = Ballots(me)
        self._witness = Witness(self._members.quorum)
        self._lease: Lease | None = None
        self._lease_ballot = NO_BALLOT
        self._round: _Round | None = None
        self._failures = 0
        self._latest = now
        self._attempt_at = now if len(self._members) == 1 else now + self._up_to(self._answer_time)

    # -- what is known ----------------------------------------------------------------------------------------------

    def lease(self, now: int) -> Lease | None:
        """Give the lease that is valid by this clock, whoever's it is.

        The owner's ends `max_lease` after the moment *before* it asked, and others wait for the drift in addition.
        """
        lease = self._lease
        return lease if lease is not None and self._latest - self._drift <= now < lease.expires_at else None

    def is_leader(self, now: int) -> bool:
        """Tell whether the lease is ours. Ask again before each act that only a leader may do."""
        lease = self.lease(now)
        return lease is not None and lease.identity == self.me

    @property
    def next_tick(self) -> int:
        """When `tick` has something to do."""
        return self._attempt_at if self._round is None else self._round.deadline

    def move_member(self, old: str, new: str) -> None:
        """Follow a member to another address."""
        self._members.move(old, new)

    # -- events -----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> list[ConsensusMessage]:
        """Give up a round that takes too long; start one when it is time."""
        self._note_time(now)
        if self._round is not None or now < self._attempt_at:
            return []
        ballot = self._ballots.next(now)
        self._round = _Round(ballot, now, self._members.quorum, now + self._answer_time)
        self.statistics.rounds += 1
        return [ReadLease(ballot)]

    def receive(self, message: ConsensusMessage, now: int) -> list[ConsensusMessage]:
        """Take in what a member published, this one included; give what to publish."""
        self._note_time(now)
        if isinstance(message, ReadLease | WriteLease):
            self._ballots.saw(message.ballot)
            if isinstance(message, WriteLease):
                self._learn(message)
            answer = self._acceptor.receive(message, now)
            return [] if answer is None else [answer]
        if message.sender_uri not in self._members:
            self.statistics.from_strangers += 1
            return []
        if isinstance(message, AckWrite):
            self._learn(message)
        return self._count(message, now)

    def _note_time(self, now: int) -> None:
        """See what the time does to a round; a clock that was put back proves nothing any more."""
        if now < self._latest - self._drift:
            self.statistics.clock_steps += 1
            self._lease = self._round = None
            self._attempt_at = now
            if self._acceptor.is_mute(self._latest):
                self._mute_until = now + self._mute_time
                self._acceptor.mute_until = self._mute_until
        self._latest = now
        if self._round is not None and now >= self._round.deadline:
            self.statistics.timed_out += 1
            self._fail(now)

    # -- rounds -----------------------------------------------------------------------------------------------------

    def _count(self, answer: Answer, now: int) -> list[ConsensusMessage]:
        round_ = self._round
        if round_ is None or not round_.is_answered_by(answer):
            return []
        verdict = round_.poll.hear(answer)
        if verdict is Verdict.REFUSED:
            self.statistics.refused += 1
            self._fail(now)
        elif verdict is Verdict.COMMITTED and round_.lease is None:
            return self._write(round_, now)
        elif verdict is Verdict.COMMITTED and round_.lease is not None:
            self._round = None
            self._failures = 0
            self._believe(round_.lease, round_.ballot)
            if round_.lease.identity == self.me:
                self._attempt_at = round_.started + self._prolong_after
        return []

    def _write(self, round_: _Round, now: int) -> list[ConsensusMessage]:
        """Decide what to write, by what was read: claim, prolong, or write another's lease back unchanged."""
        lease, started = round_.poll.lease(), round_.started
        if lease is not None and lease.identity != self.me and lease.expires_at < started:
            if lease.expires_at + self._drift >= started:  # its owner's clock may be behind, and it may still lead
                self._round = None
                self._attempt_at = self._after(lease)
                return []
            lease = None
        if lease is None or lease.identity == self.me:
            lease = Lease(self.me, started + self._max_lease, self._payload)
        return [round_.write(lease, now + self._answer_time)]

    def _fail(self, now: int) -> None:
        """Try again after a random while: sooner as the leader, later the more often it failed, so that duels end."""
        self._round = None
        self._failures += 1
        known = self.lease(now)
        if known is not None and known.identity != self.me:  # somebody else's round succeeded meanwhile
            self._attempt_at = self._after(known)
            return
        doublings = 0 if known is not None else min(self._failures, _LONGEST_BACK_OFF)
        span = self._answer_time << doublings
        self._attempt_at = now + span // 4 + self._up_to(span)
        if now < self._mute_until:  # when the others wake with us, there is somebody to answer
            self._attempt_at = min(self._attempt_at, self._mute_until + self._up_to(self._answer_time))

    def _learn(self, message: WriteLease | AckWrite) -> None:
        lease = self._witness.hear(message)
        if lease is not None and lease.identity != self.me:
            self._believe(lease, message.ballot)

    def _believe(self, lease: Lease, ballot: Ballot) -> None:
        """Take a committed lease for the valid one, unless a later round is known."""
        if ballot < self._lease_ballot:
            return
        self._lease = lease
        self._lease_ballot = ballot
        if lease.identity != self.me:
            self._attempt_at = self._after(lease)

    def _after(self, lease: Lease) -> int:
        """Choose the time to try for a lease that is another's now."""
        return lease.expires_at + self._drift + 1 + self._up_to(self._roundtrip)

    def _up_to(self, ticks: int) -> int:
        return int(self._random.random() * ticks)
