"""The lease: ballots, the register's rules, and one member against scripted others."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline import ArgumentError
from hopline.cluster.election.acceptor import Acceptor
from hopline.cluster.election.ballot import MAX_NUMBER, MAX_TICKS, NO_BALLOT, Ballot, Ballots
from hopline.cluster.election.lease import (
    AckRead,
    AckWrite,
    Answer,
    ConsensusMessage,
    Lease,
    LeaseSettings,
    NackRead,
    NackWrite,
    ReadLease,
    Request,
    WriteLease,
    in_ticks,
)
from hopline.cluster.election.lease_keeper import LeaseKeeper
from hopline.cluster.election.members import Members
from hopline.cluster.election.votes import LeaseObserver, Verdict, VoteCount

A, B, C = URIS = tuple(f"tcp://10.0.0.{n}:7001" for n in (1, 2, 3))
NOW = 638_000_000_000_000_000
SECOND = in_ticks(1)
SETTINGS = LeaseSettings()
MUTE = in_ticks(SETTINGS.mute_time)
DRIFT = in_ticks(SETTINGS.clock_drift)

# -- ballots -----------------------------------------------------------------------------------------------------------

ballots = st.builds(
    Ballot, timestamp=st.integers(0, 3), number=st.integers(0, 3), identity=st.binary(max_size=3) | st.just(b"a" * 36)
)


@given(ballots, ballots)
def test_ballots_of_any_identities_are_ordered_by_time_then_number_then_identity(one: Ballot, other: Ballot) -> None:
    def key(ballot: Ballot) -> tuple[int, int, bytes]:
        return ballot.timestamp, ballot.number, ballot.identity

    assert (one < other) == (key(one) < key(other))
    assert (one == other) == (key(one) == key(other))
    assert one >= NO_BALLOT


@given(st.lists(st.integers(0, 1000), min_size=2), st.lists(ballots))
def test_each_ballot_is_higher_than_all_before_whatever_the_clock_does(times: list[int], seen: list[Ballot]) -> None:
    mine = Ballots(b"me")
    highest = NO_BALLOT
    for at, now in enumerate(times):
        if at < len(seen):
            mine.observe(seen[at])
            highest = max(highest, seen[at])
        ballot = mine.next(now)
        assert ballot > highest
        assert ballot.identity == b"me"
        highest = ballot


def test_ballot_numbers_start_again_with_the_clock_and_never_leave_32_bits() -> None:
    mine = Ballots(b"me")
    assert [mine.next(now).number for now in (5, 5, 4, 6)] == [1, 2, 3, 1]
    mine.observe(Ballot(9, MAX_NUMBER, b"other"))
    assert mine.next(7) == Ballot(10, 1, b"me")
    mine.observe(Ballot(MAX_TICKS, MAX_NUMBER, b"other"))
    assert mine.next(7).timestamp == MAX_TICKS


# -- the register ------------------------------------------------------------------------------------------------------


class Register:
    """Three acceptors, and rounds that reach them all."""

    def __init__(self) -> None:
        self.acceptors = [Acceptor(uri, mute_until=0) for uri in URIS]

    def poll(self, request: Request) -> tuple[Verdict, VoteCount]:
        poll = VoteCount(quorum=2)
        verdicts = {poll.add(answer) for acceptor in self.acceptors if (answer := acceptor.receive(request, 1))}
        (verdict,) = verdicts - {None}
        assert verdict is not None
        return verdict, poll

    def read(self, ballot: Ballot) -> Verdict:
        return self.poll(ReadLease(ballot))[0]

    def write(self, ballot: Ballot, lease: Lease) -> Verdict:
        return self.poll(WriteLease(ballot, lease))[0]


LOW, K, HIGH = (Ballot(time, 1, b"proposer") for time in (10, 20, 30))
SOME_LEASE = Lease(b"owner", 99, b"payload")


@pytest.mark.parametrize("ballot", [K, HIGH])
@pytest.mark.parametrize("first", ["read", "write"])
def test_r1_a_read_aborts_after_a_read_or_write_that_is_not_lower(first: str, ballot: Ballot) -> None:
    register = Register()
    before = register.read(ballot) if first == "read" else register.write(ballot, SOME_LEASE)
    assert before is Verdict.COMMITTED
    assert register.read(K) is Verdict.REFUSED


@pytest.mark.parametrize("first", ["read", "write"])
def test_r2_a_write_aborts_after_a_higher_read_or_write(first: str) -> None:
    register = Register()
    before = register.read(HIGH) if first == "read" else register.write(HIGH, SOME_LEASE)
    assert before is Verdict.COMMITTED
    assert register.write(K, SOME_LEASE) is Verdict.REFUSED


def test_a_write_commits_under_the_ballot_of_its_read() -> None:
    register = Register()
    assert register.read(K) is Verdict.COMMITTED
    assert register.write(K, SOME_LEASE) is Verdict.COMMITTED


def test_r4_a_read_gives_exactly_what_was_written_before() -> None:
    register = Register()
    register.write(LOW, Lease(b"earlier", 1))
    register.write(K, SOME_LEASE)
    verdict, poll = register.poll(ReadLease(HIGH))
    assert verdict is Verdict.COMMITTED
    assert poll.lease() == SOME_LEASE


def test_a_read_of_an_empty_register_gives_none() -> None:
    assert Register().poll(ReadLease(K))[1].lease() is None


def test_a_read_takes_the_lease_of_the_highest_write_that_its_quorum_knows() -> None:
    poll = VoteCount(quorum=2)
    assert poll.add(AckRead(HIGH, LOW, Lease(b"earlier", 1), A)) is None
    assert poll.add(AckRead(HIGH, K, SOME_LEASE, B)) is Verdict.COMMITTED
    assert poll.lease() == SOME_LEASE


def test_a_member_has_one_voice_and_its_yes_stands() -> None:
    poll = VoteCount(quorum=2)
    yes, no = AckWrite(K, A), NackWrite(K, A)
    assert [poll.add(answer) for answer in (no, no, yes, yes, no)] == [None] * 5
    assert poll.add(NackWrite(K, B)) is None
    assert poll.add(AckWrite(K, C)) is Verdict.COMMITTED


def test_a_mute_acceptor_answers_and_promises_nothing() -> None:
    acceptor = Acceptor(A, mute_until=100)
    assert acceptor.receive(ReadLease(HIGH), 99) is None
    assert acceptor.receive(WriteLease(HIGH, SOME_LEASE), 99) is None
    assert acceptor.receive(ReadLease(K), 100) == AckRead(K, NO_BALLOT, None, A)


def test_an_observer_knows_a_lease_once_a_quorum_accepted_it_in_any_order() -> None:
    for order in ((0, 1, 2), (1, 0, 2), (1, 2, 0)):
        messages: list[WriteLease | AckWrite] = [WriteLease(K, SOME_LEASE), AckWrite(K, A), AckWrite(K, B)]
        observer = LeaseObserver(quorum=2)
        assert [observer.observe(messages[at]) for at in order] == [None, None, SOME_LEASE]
    observer = LeaseObserver(quorum=2)
    heard = [observer.observe(message) for message in (WriteLease(K, SOME_LEASE), AckWrite(K, A), AckWrite(K, A))]
    assert heard == [None] * 3


def test_an_observer_remembers_so_much_and_no_more() -> None:
    observer = LeaseObserver(quorum=1)
    observer.observe(WriteLease(K, SOME_LEASE))
    for number in range(LeaseObserver.REMEMBERED):
        observer.observe(AckWrite(Ballot(number), A))
    assert observer.observe(AckWrite(K, A)) is None


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"node_response_timeout": 0.21}, "lease.node_response_timeout"),
        ({"max_lease": 0.9}, "lease.max_lease"),
        ({"clock_drift": -0.1}, "lease.clock_drift"),
        ({"clock_drift": float("nan")}, "lease.clock_drift"),
        ({"max_lease": float("inf")}, "lease.max_lease"),
        ({"message_roundtrip": 0}, "lease.message_roundtrip"),
        ({"max_lease": True}, "lease.max_lease"),
        ({"max_lease": "3"}, "lease.max_lease"),
    ],
)
def test_times_that_cannot_work_are_refused_by_name(wrong: dict[str, float], field: str) -> None:
    with pytest.raises(ArgumentError) as error:
        LeaseSettings(**wrong)
    assert error.value.field == field


def test_the_times_follow_from_the_settings() -> None:
    assert SETTINGS.renew_after == pytest.approx(2.1)
    assert SETTINGS.mute_time == pytest.approx(3.2)
    assert LeaseSettings(clock_drift=0).mute_time == 3.0


def test_members_are_different_and_include_this_one() -> None:
    for uri, uris in ((A, []), (A, [A, A]), (A, [A, A.upper() + "/"]), (A, [B, C])):
        with pytest.raises(ArgumentError):
            Members(uri, uris)
    assert [Members(A, URIS[:size]).quorum for size in (1, 2, 3)] == [1, 2, 2]
    members = Members(A, URIS)
    members.move(C, "tcp://10.0.0.9:7001")
    assert C not in members
    assert "TCP://10.0.0.9:7001/" in members
    for old, new in ((C, "tcp://10.0.0.8:7001"), (B, A)):
        with pytest.raises(ArgumentError):
            members.move(old, new)


# -- one member --------------------------------------------------------------------------------------------------------


class Alone:
    """A keeper whose fellow members are scripted."""

    def __init__(self, members: tuple[str, ...] = URIS, payload: bytes = b"payload") -> None:
        self.keeper = LeaseKeeper(b"me", A, members, payload, SETTINGS, Random(1), NOW)
        self.now = NOW

    def start_round(self) -> ReadLease:
        self.now = max(self.now, self.keeper.next_tick)
        (request,) = self.keeper.tick(self.now)
        assert isinstance(request, ReadLease)
        return request

    def receive(self, message: ConsensusMessage) -> list[ConsensusMessage]:
        return self.keeper.receive(message, self.now)

    def read(self, lease: Lease | None, known: Ballot = LOW) -> list[ConsensusMessage]:
        """Start a round whose read finds a lease; what the member does then."""
        ballot = self.start_round().ballot
        self.receive(AckRead(ballot, NO_BALLOT, None, B))
        return self.receive(AckRead(ballot, known, lease, C))

    def commit(self, lease: Lease | None = None) -> WriteLease:
        (write,) = self.read(lease)
        assert isinstance(write, WriteLease)
        self.receive(AckWrite(write.ballot, B))
        assert self.receive(AckWrite(write.ballot, C)) == []
        return write

    @property
    def leads(self) -> bool:
        return self.keeper.is_leader(self.now)


def test_a_member_claims_the_lease_that_nobody_has_from_the_time_before_it_asked() -> None:
    one = Alone()
    ballot = one.start_round().ballot
    asked = one.now
    one.now += SECOND // 10
    one.receive(AckRead(ballot, NO_BALLOT, None, B))
    assert one.receive(AckRead(ballot, NO_BALLOT, None, C)) == [
        WriteLease(ballot, Lease(b"me", asked + 3 * SECOND, b"payload"))
    ]
    one.receive(AckWrite(ballot, B))
    assert not one.leads
    one.receive(AckWrite(ballot, C))
    assert one.leads
    one.now = asked + 3 * SECOND - 1
    assert one.leads
    one.now += 1
    assert not one.leads
    assert one.keeper.lease(one.now) is None


def test_the_owner_prolongs_in_time() -> None:
    one = Alone()
    first = one.commit()
    assert one.keeper.next_tick == first.ballot.timestamp + in_ticks(2.1)
    second = one.commit(first.lease)
    assert second.lease == Lease(b"me", second.ballot.timestamp + 3 * SECOND, b"payload")
    assert one.leads


def test_anothers_valid_lease_is_written_back_as_it_is() -> None:
    one = Alone()
    lease = Lease(b"other", NOW + 2 * SECOND, b"theirs")
    assert one.commit(lease).lease == lease
    assert one.keeper.lease(one.now) == lease
    assert not one.leads
    assert one.keeper.next_tick > lease.expires_at + DRIFT


def test_anothers_lease_that_ended_within_the_drift_is_left_alone_for_now() -> None:
    one = Alone()
    one.now = NOW + 10 * SECOND
    assert one.read(lease := Lease(b"other", NOW + 10 * SECOND - DRIFT, b"")) == []
    assert lease.expires_at + DRIFT < one.keeper.next_tick <= lease.expires_at + DRIFT + 1 + in_ticks(0.4)
    assert one.commit(lease).lease.identity == b"me"


def test_a_failed_round_does_not_forget_a_valid_lease() -> None:
    one = Alone()
    one.commit()
    ballot = one.start_round().ballot
    one.receive(NackRead(ballot, B))
    one.receive(NackRead(ballot, C))
    assert one.leads
    assert one.keeper.next_tick <= one.now + in_ticks(0.25)  # the leader tries again soon
    one.start_round()
    one.now = one.keeper.next_tick
    assert one.keeper.tick(one.now) == []
    assert one.leads
    assert one.keeper.statistics.refused == one.keeper.statistics.timed_out == 1


def test_answers_count_in_time_from_members_to_this_ballot_and_to_what_was_asked() -> None:
    one = Alone()
    ballot = one.start_round().ballot
    wrong: list[Answer] = [
        AckRead(ballot, NO_BALLOT, None, "tcp://10.0.0.99:7001"),
        AckRead(LOW, NO_BALLOT, None, C),
        AckWrite(ballot, B),
        AckWrite(ballot, C),
        AckRead(ballot, NO_BALLOT, None, B),
        AckRead(ballot, NO_BALLOT, None, B),
    ]
    assert [one.receive(answer) for answer in wrong] == [[]] * len(wrong)
    assert one.keeper.statistics.from_strangers == 1
    one.now += in_ticks(0.2)
    assert one.receive(AckRead(ballot, NO_BALLOT, None, C)) == []
    assert one.keeper.statistics.timed_out == 1


def test_failures_make_a_member_wait_longer_but_not_for_ever() -> None:
    one = Alone()
    one.now = NOW + MUTE
    waits = []
    for _ in range(200):
        one.start_round()
        one.now = one.keeper.next_tick
        one.keeper.tick(one.now)
        waits.append(one.keeper.next_tick - one.now)
    assert max(waits[:1]) <= in_ticks(0.5)
    assert max(waits) <= in_ticks(2.0)
    assert len(set(waits)) > 100  # by chance, so that two members do not stay in step


def test_a_follower_learns_of_the_lease_by_listening() -> None:
    one = Alone()
    lease = Lease(b"other", NOW + 3 * SECOND, b"theirs")
    ballot = Ballot(NOW, 1, b"other")
    one.receive(WriteLease(ballot, lease))
    one.receive(AckWrite(ballot, B))
    assert one.keeper.lease(one.now) is None
    one.receive(AckWrite(ballot, C))
    assert one.keeper.lease(one.now) == lease
    assert one.keeper.next_tick > lease.expires_at + DRIFT
    older = Ballot(NOW - 1, 1, b"third")
    for message in (WriteLease(older, Lease(b"third", NOW + SECOND)), AckWrite(older, B), AckWrite(older, C)):
        one.receive(message)
    assert one.keeper.lease(one.now) == lease


def test_a_round_that_fails_when_the_lease_is_known_meanwhile_is_not_tried_again() -> None:
    one = Alone()
    one.start_round()
    lease = Lease(b"other", NOW + 3 * SECOND, b"theirs")
    ballot = Ballot(NOW, 1, b"other")
    for message in (WriteLease(ballot, lease), AckWrite(ballot, B), AckWrite(ballot, C)):
        one.receive(message)
    one.now = one.keeper.next_tick
    assert one.keeper.tick(one.now) == []
    assert one.keeper.next_tick > lease.expires_at + DRIFT


def test_a_member_of_many_is_mute_after_its_start_and_then_votes() -> None:
    one = Alone()
    one.now = NOW + MUTE - 1
    assert one.receive(ReadLease(LOW)) == []
    one.now += 1
    assert one.receive(ReadLease(LOW)) == [AckRead(LOW, NO_BALLOT, None, A)]
    assert one.receive(ReadLease(LOW)) == [NackRead(LOW, A)]


def test_a_mute_member_still_learns_who_leads() -> None:
    one = Alone()
    lease = Lease(b"other", NOW + SECOND, b"theirs")
    one.commit(lease)
    assert one.now < NOW + SECOND
    assert one.keeper.lease(one.now) == lease


def test_a_single_member_leads_at_once_by_its_own_voice() -> None:
    one = Alone(members=(A,))
    published = one.keeper.tick(NOW)
    while published:
        published = [answer for message in published for answer in one.receive(message)]
    assert one.leads


def test_ones_own_messages_may_come_twice() -> None:
    one = Alone(members=(A,))
    published = one.keeper.tick(NOW)
    while published:
        published = [answer for message in published for _ in range(2) for answer in one.receive(message)]
    assert one.leads


def test_a_ballot_of_ours_is_above_those_of_members_whose_clock_is_ahead() -> None:
    one = Alone()
    ahead = Ballot(NOW + 100 * SECOND, 7, b"other")
    one.receive(ReadLease(ahead))
    assert one.start_round().ballot == Ballot(ahead.timestamp, 8, b"me")


def test_a_clock_that_is_put_back_ends_the_lease_and_stops_nothing_else() -> None:
    one = Alone()
    one.commit()
    assert one.leads
    assert not one.keeper.is_leader(one.now - DRIFT - 1)
    one.now -= 3600 * SECOND
    one.keeper.tick(one.now)
    assert not one.leads
    assert one.keeper.statistics.clock_steps == 1
    assert one.keeper.next_tick <= one.now + SECOND
    one.now = one.keeper.next_tick
    one.keeper.tick(one.now)
    one.commit(Lease(b"me", NOW + 3 * SECOND))
    assert one.leads
    assert one.receive(ReadLease(HIGH)) == []  # it was mute, and is for the whole time again
    one.now = NOW - 3600 * SECOND + MUTE + SECOND
    assert one.receive(ReadLease(HIGH)) == [AckRead(HIGH, NO_BALLOT, None, A)]


def test_a_member_that_moved_is_heard_at_its_new_address() -> None:
    one = Alone()
    one.keeper.move_member(C, "tcp://10.0.0.9:7001")
    ballot = one.start_round().ballot
    one.receive(AckRead(ballot, NO_BALLOT, None, B))
    assert one.receive(AckRead(ballot, NO_BALLOT, None, C)) == []
    assert len(one.receive(AckRead(ballot, NO_BALLOT, None, "tcp://10.0.0.9:7001"))) == 1
