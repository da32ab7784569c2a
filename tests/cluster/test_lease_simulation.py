"""Synods over a bad network, by seed: never two leaders, and a leader again soon after all is well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from hopline.cluster.election.acceptor import Acceptor
from hopline.cluster.election.lease import AckWrite, LeaseSettings, WriteLease
from hopline.cluster.election.lease_keeper import LeaseKeeper
from hopline.cluster.election.members import Members
from hopline.cluster.election.votes import Verdict, VoteCount
from tests.cluster.synod_world import SETTINGS, TwoLeadersError, World, live_through

SEEDS = 120
BATCH = 30


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_never_two_leaders_and_always_one_in_the_end(first: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first, first + BATCH):
        seen += live_through(seed).seen
    assert seen["leaders"] > 2 * BATCH  # or it would prove nothing
    for fault in ("_weather", "_restart_some", "_partition", "_deafen", "_strike", "lost", "NackRead", "NackWrite"):
        assert seen[fault], fault


def test_the_same_seed_tells_the_same_story() -> None:
    assert live_through(7).history == live_through(7).history != live_through(9).history


@pytest.mark.parametrize("size", [2, 3, 5, 7])
def test_a_synod_that_starts_together_has_a_leader_soon_after_it_may_vote(size: int) -> None:
    for seed in range(20):
        world = World(seed, size)
        world.run(SETTINGS.mute_time + 3.0)
        assert world.leader() is not None


def test_a_dead_leader_is_replaced_soon() -> None:
    for seed in range(20):
        world = World(seed, 3)
        world.run(8)
        leader = world.leader()
        assert leader is not None
        world.crash(leader)
        world.run(SETTINGS.max_lease + SETTINGS.clock_drift + 3 * SETTINGS.message_roundtrip + 1)
        assert world.leader() not in (None, leader)


def test_a_leader_stays_although_followers_come_and_go() -> None:
    for seed in range(10):
        world = World(seed, 3)
        world.run(8)
        leader = world.leader()
        assert leader is not None
        for machine in [other for other in world.machines if other is not leader] * 3:
            world.restart(machine, 0.1)
            world.run(SETTINGS.mute_time + 1)
            assert world.leader() is leader


def restarted_voter(seed: int) -> None:
    """Live through W1: the lease was given by two of three; one of them restarts and meets the one that was cut off."""
    world = World(seed, 3)
    a, b, c = world.machines
    world.cut([a, b], [c])
    world.cut([c], [a, b])
    world.run(world.random.uniform(7, 10))
    leader = world.leader()
    assert leader in (a, b)
    world.calm()
    world.cut([leader], [a, b, c])
    world.cut([a, b, c], [leader])
    world.restart(b if leader is a else a, 0.0)
    world.run(SETTINGS.mute_time + SETTINGS.max_lease)
    assert world.leader() not in (None, leader)


def test_w1_a_restarted_voter_does_not_help_a_second_leader_to_power() -> None:
    for seed in range(60):
        restarted_voter(seed)


# -- it finds what is wrong --------------------------------------------------------------------------------------------


def finds_two_leaders(live: Callable[[int], Any], seeds: int) -> bool:
    for seed in range(seeds):
        try:
            live(seed)
        except TwoLeadersError:
            return True
        except AssertionError:
            continue  # a broken synod may also have none
    return False


@pytest.mark.parametrize("mute_time", [0.0, 0.1, 1.5, 2.5])
def test_it_finds_acceptors_that_speak_too_soon(monkeypatch: pytest.MonkeyPatch, mute_time: float) -> None:
    monkeypatch.setattr(LeaseSettings, "mute_time", mute_time)
    assert finds_two_leaders(restarted_voter, 60)


def test_it_finds_them_in_any_history_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaseSettings, "mute_time", LeaseSettings().clock_drift)
    assert finds_two_leaders(live_through, 60)


def test_it_finds_quorums_that_need_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    init = Members.__init__

    def half(members: Members, uri: str, uris: list[str]) -> None:
        init(members, uri, uris)
        members.quorum = len(uris) // 2

    monkeypatch.setattr(Members, "__init__", half)
    assert finds_two_leaders(live_through, 20)


def test_it_finds_members_with_two_voices(monkeypatch: pytest.MonkeyPatch) -> None:
    add = VoteCount.add
    random = Random(1)

    def add_all(poll: VoteCount, answer: Any) -> Verdict | None:
        answer = type(answer)(
            **{name: getattr(answer, name) for name in answer.__struct_fields__} | {"sender_uri": str(random.random())}
        )
        return add(poll, answer)

    monkeypatch.setattr(VoteCount, "add", add_all)
    assert finds_two_leaders(live_through, 60)


def test_it_finds_writes_that_disregard_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(acceptor: Acceptor, request: WriteLease) -> AckWrite:
        acceptor._write_ballot, acceptor._lease = request.ballot, request.lease
        return AckWrite(request.ballot, acceptor._uri)

    monkeypatch.setattr(Acceptor, "_write", write)
    assert finds_two_leaders(live_through, 100)


def test_it_finds_reads_that_take_any_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VoteCount, "lease", lambda poll: next(iter(poll._acks.values())).lease)
    assert finds_two_leaders(live_through, 60)


def test_it_finds_claims_that_disregard_the_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    init = LeaseKeeper.__init__

    def careless(keeper: LeaseKeeper, *args: Any) -> None:
        init(keeper, *args)
        keeper._drift = 0

    monkeypatch.setattr(LeaseKeeper, "__init__", careless)
    assert finds_two_leaders(live_through, 60)
