"""One member of a synod: it votes, and it tries to obtain the lease or to learn which member has it.

Theory of operation. The members share one register that holds a lease: an identity and the time until which it leads. A
member reads and writes the register in a *round*, which has one ballot and two phases, as in Paxos:

1. **Read.** The proposer publishes `ReadLease`. An acceptor that has seen no ballot as high promises to refuse lower
   ones, and returns the lease that it accepted last. A quorum of promises ends the phase. Of the leases returned, the
   one with the highest ballot counts.
2. **Write.** The proposer publishes `WriteLease`. What it writes depends on what it read:

   * nothing, or its own lease: a lease of its own, which ends `max_lease` after the moment *before* the read;
   * another's lease that is valid: that lease, unchanged, so that a quorum is certain to have it;
   * another's lease that has expired, but by less than the drift: nothing. The owner's clock may be behind, so that it
     still leads. The round ends, and the next one starts when the drift is over;
   * another's lease that expired longer ago: a lease of its own.

   A quorum of acceptances ends the round.

A quorum of NACKs, or no quorum in time, ends a round without a result. It is never repeated by itself: `tick` starts
another one, under another ballot, after a random time. The time grows with the number of failures, so that proposers
that keep refusing each other separate. The leader, which has a lease to lose, tries again sooner.

Invariant: at any time at most one member believes that it leads. It rests on three conditions:

* *Two quorums share a member*, and a member's promises and acceptances are ordered by ballot. So a later round reads
  what an earlier one has written.
* *The clocks of any two members differ by at most `clock_drift`.* The owner stops at the end of its lease by its own
  clock, and others wait for the drift in addition. A clock that goes back by more than the drift invalidates what the
  member knows of leases.
* *An acceptor does not forget.* Its state is volatile, so after a start it is mute for as long as any lease that it may
  have voted for can last. The reference waits for the drift only, and can elect two leaders after a quick restart.

A follower normally starts no rounds: it receives the rounds of the leader too and learns the lease from them
(`LeaseObserver`). It proposes when the lease has expired.

There is no I/O here, and time and chance are handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from hopline.cluster.election.acceptor import Acceptor
from hopline.cluster.election.ballot import NO_BALLOT, Ballot, Ballots
from hopline.cluster.election.lease import (
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
from hopline.cluster.election.members import Members
from hopline.cluster.election.votes import LeaseObserver, Verdict, VoteCount

_MAX_BACK_OFF = 3  # doublings


class LeaseStatistics(msgspec.Struct):
    """What a keeper has done and seen."""

    rounds: int = 0
    refused: int = 0  # rounds that a quorum of members refused
    timed_out: int = 0  # rounds without a quorum in time
    from_strangers: int = 0  # answers from unknown addresses: a member may be configured differently there
    clock_steps: int = 0  # how often the clock went back by more than the drift


class _Round:
    """One attempt under one ballot: read, then write."""

    def __init__(self, ballot: Ballot, started: int, quorum: int, deadline: int) -> None:
        self.ballot = ballot
        self.started = started  # the time before the read
        self.deadline = deadline
        self.lease: Lease | None = None  # what is being written; None while reading
        self.votes = VoteCount(quorum)
        self._quorum = quorum

    def is_answered_by(self, answer: Answer) -> bool:
        is_answer_to_read = isinstance(answer, AckRead | NackRead)
        is_reading = self.lease is None
        return answer.ballot == self.ballot and is_answer_to_read == is_reading

    def write(self, lease: Lease, deadline: int) -> WriteLease:
        self.lease = lease
        self.deadline = deadline
        self.votes = VoteCount(self._quorum)
        return WriteLease(self.ballot, lease)


class LeaseKeeper:
    """One member's part in the synod.

    Every message that a call returns must be published to all members, *this one included*: hand in whatever the
    member's own subscription receives, its own messages too. A message that arrives twice does no harm. Call `tick` at
    `next_tick`, which any other call may change.

    Args:
        me: The identity of this member, new for each start of the process.
        uri: The address of this member.
        members: The addresses of all members.
        payload: The address under which nodes reach this server, encoded for the lease.
        settings: The times, the same for all members.
        random: Spreads attempts over time.
        now: The wall clock in UTC ticks, as in every other call.
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
        self._renew_after = in_ticks(settings.renew_after)
        self._response_timeout = in_ticks(settings.node_response_timeout)
        self._roundtrip = in_ticks(settings.message_roundtrip)
        is_single = len(self._members) == 1
        # A single member can only have forgotten a lease of its own, and that run has ended: an address cannot be bound
        # twice. If it could, waiting would not help, because each would be a quorum by itself for ever.
        self._mute_time = 0 if is_single else in_ticks(settings.mute_time)
        self._mute_until = now + self._mute_time
        self._acceptor = Acceptor(uri, self._mute_until)
        self._ballots = Ballots(me)
        self._observer = LeaseObserver(self._members.quorum)
        self._lease: Lease | None = None
        self._lease_ballot = NO_BALLOT
        self._round: _Round | None = None
        self._failures = 0
        self._latest = now
        self._attempt_at = now if is_single else now + self._random_up_to(self._response_timeout)

    # -- state ------------------------------------------------------------------------------------------------------

    def lease(self, now: int) -> Lease | None:
        """Return the lease that is valid by this clock, whichever member owns it."""
        lease = self._lease
        if lease is None:
            return None
        has_clock_gone_back = now < self._latest - self._drift
        is_expired = now >= lease.expires_at
        return None if has_clock_gone_back or is_expired else lease

    def is_leader(self, now: int) -> bool:
        """Return whether this member owns the lease. Ask again before each action that only a leader may take."""
        lease = self.lease(now)
        return lease is not None and lease.identity == self.me

    @property
    def next_tick(self) -> int:
        """When to call `tick` next."""
        return self._attempt_at if self._round is None else self._round.deadline

    def move_member(self, old: str, new: str) -> None:
        """Replace the address of a member."""
        self._members.move(old, new)

    # -- events -----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> list[ConsensusMessage]:
        """End a round that has timed out, and start one when that is due."""
        self._note_time(now)
        if self._round is not None or now < self._attempt_at:
            return []
        ballot = self._ballots.next(now)
        self._round = _Round(ballot, now, self._members.quorum, now + self._response_timeout)
        self.statistics.rounds += 1
        return [ReadLease(ballot)]

    def receive(self, message: ConsensusMessage, now: int) -> list[ConsensusMessage]:
        """Process a message of any member, this one included; return what to publish."""
        self._note_time(now)
        if isinstance(message, ReadLease | WriteLease):
            self._ballots.observe(message.ballot)
            if isinstance(message, WriteLease):
                self._observe(message)
            answer = self._acceptor.receive(message, now)
            return [] if answer is None else [answer]
        if message.sender_uri not in self._members:
            self.statistics.from_strangers += 1
            return []
        if isinstance(message, AckWrite):
            self._observe(message)
        return self._count(message, now)

    def _note_time(self, now: int) -> None:
        """Handle a clock that went back, and a round whose deadline has passed."""
        if now < self._latest - self._drift:
            self.statistics.clock_steps += 1
            self._lease = None
            self._round = None
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
        verdict = round_.votes.add(answer)
        if verdict is Verdict.REFUSED:
            self.statistics.refused += 1
            self._fail(now)
        elif verdict is Verdict.COMMITTED and round_.lease is None:
            return self._write(round_, now)
        elif verdict is Verdict.COMMITTED and round_.lease is not None:
            self._complete(round_, round_.lease)
        return []

    def _write(self, round_: _Round, now: int) -> list[ConsensusMessage]:
        """Start the second phase of a round, by what the first has read."""
        lease = round_.votes.lease()
        started = round_.started
        if lease is not None and lease.identity != self.me and lease.expires_at < started:
            if lease.expires_at + self._drift >= started:  # the owner's clock may be behind, so it may still lead
                self._round = None
                self._attempt_at = self._time_after(lease)
                return []
            lease = None
        if lease is None or lease.identity == self.me:
            lease = Lease(self.me, started + self._max_lease, self._payload)
        return [round_.write(lease, now + self._response_timeout)]

    def _complete(self, round_: _Round, lease: Lease) -> None:
        self._round = None
        self._failures = 0
        self._accept(lease, round_.ballot)
        if lease.identity == self.me:
            self._attempt_at = round_.started + self._renew_after

    def _fail(self, now: int) -> None:
        """End a round without a result, and choose the time of the next attempt."""
        self._round = None
        self._failures += 1
        lease = self.lease(now)
        if lease is not None and lease.identity != self.me:  # another member's round has succeeded meanwhile
            self._attempt_at = self._time_after(lease)
            return
        doublings = 0 if lease is not None else min(self._failures, _MAX_BACK_OFF)
        span = self._response_timeout << doublings
        self._attempt_at = now + span // 4 + self._random_up_to(span)
        if now < self._mute_until:  # members that started together stop being mute together
            earliest = self._mute_until + self._random_up_to(self._response_timeout)
            self._attempt_at = min(self._attempt_at, earliest)

    def _observe(self, message: WriteLease | AckWrite) -> None:
        lease = self._observer.observe(message)
        if lease is not None and lease.identity != self.me:
            self._accept(lease, message.ballot)

    def _accept(self, lease: Lease, ballot: Ballot) -> None:
        """Take a committed lease for the valid one, unless a later round is known."""
        if ballot < self._lease_ballot:
            return
        self._lease = lease
        self._lease_ballot = ballot
        if lease.identity != self.me:
            self._attempt_at = self._time_after(lease)

    def _time_after(self, lease: Lease) -> int:
        """Return when to try for a lease that another member owns now."""
        return lease.expires_at + self._drift + 1 + self._random_up_to(self._roundtrip)

    def _random_up_to(self, ticks: int) -> int:
        return int(self._random.random() * ticks)
