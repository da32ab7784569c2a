"""Simulated networks: what must hold holds, whatever happens, and a seed tells the same story every time."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from hopline.actors import ActorHost
from hopline.client import Promise
from hopline.client.open_requests import OpenRequests
from hopline.cluster.election.acceptor import Acceptor
from hopline.cluster.membership.health import Health
from hopline.cluster.membership.route_freshness import RouteFreshness
from hopline.message import Message
from hopline.node import Router
from hopline.node.routing.route_search import RouteSearch
from hopline.routing import InternalTable, Outcome
from hopline.simulation import Violation, VirtualLoop, simulate
from hopline.simulation.__main__ import run_seed

SEEDS = 200
BATCH = 30

result_of = functools.cache(run_seed)  # the seeds of one test serve another


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_the_invariants_hold_for_every_seed(first: int) -> None:
    failed = [found for seed in range(first, first + BATCH) if (found := result_of(seed)).report is None]
    assert not failed


def test_the_same_seed_gives_the_same_history() -> None:
    first: list[str] = []
    again: list[str] = []
    report = simulate(4, first.append)
    assert simulate(4, again.append) == report
    assert first == again
    assert simulate(5).fingerprint != report.fingerprint


def test_a_seed_replays_in_another_process_with_other_hashes() -> None:
    command = [sys.executable, "-m", "hopline.simulation", "--lines", "--first", "4", "--seeds", "1"]
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert simulate(4).fingerprint in done.stdout


def test_the_seeds_cover_every_outcome_and_fault() -> None:
    outcomes: set[str] = set()
    faults: set[str] = set()
    servers: set[int] = set()
    for report in (result_of(seed).report for seed in range(SEEDS)):
        assert report is not None
        outcomes |= report.outcomes.keys()
        faults |= report.faults.keys()
        servers.add(report.servers)
    assert outcomes == {outcome.value for outcome in Outcome if outcome is not Outcome.REJECTED}
    assert len(faults) == 14
    assert servers == {1, 3, 5}


# A world that ends in the middle leaves tasks behind, which Python complains about.
broken = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def finds(expected: str) -> bool:
    """Whether some of the first seeds fail, with this violation."""
    for seed in range(200):
        found = run_seed(seed)
        if found.report is None:
            assert expected in found.problem
            return True
    return False


@broken
def test_it_finds_messages_delivered_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    offer = ActorHost.offer
    monkeypatch.setattr(ActorHost, "offer", lambda host, one: offer(host, replace(one, deadline=one.deadline + 10)))
    assert finds("of a lifetime of")


@broken
def test_it_finds_messages_that_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RouteSearch, "_no_route_found", lambda *_: None)
    assert finds("do not balance")


@broken
def test_it_finds_messages_to_removed_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ActorHost, "close", lambda *_: [])
    assert finds("")


@broken
def test_it_finds_routes_to_removed_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InternalTable, "remove", lambda *_: [])
    assert finds("")


@broken
def test_it_finds_promises_fulfilled_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(promise: Promise[Any], reply: Message, read: Callable[[Message], Any]) -> bool:
        promise._outcome, promise._read = reply, read
        if promise._waiter is not None and not promise._waiter.done():
            promise._waiter.set_result(None)
        return True  # and the hub is not told that the promise is kept

    monkeypatch.setattr(Promise, "take", take)
    assert finds("fulfilled twice")


@broken
def test_it_finds_promises_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenRequests, "forget", lambda *_: None)
    assert finds("")


# -- the cluster -------------------------------------------------------------------------------------------------------


@broken
def test_it_finds_two_leaders_when_restarted_servers_vote_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acceptor, "is_mute", lambda *_: False)
    assert finds("lead at the same time")


@broken
def test_it_finds_dead_nodes_that_stay_in_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Health, "dead", lambda *_: [])
    assert finds("which has been dead for")


@broken
def test_it_finds_routes_that_do_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RouteFreshness, "next_round", lambda _: [])
    assert finds("routes that are not there")


@broken
def test_it_finds_messages_that_wait_though_their_route_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Router, "_route_unrouted", lambda *_: None)
    assert finds("discovered no handler")


def test_a_violation_is_replayed_with_its_history() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hopline.simulation", "--seed", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "m0 up" in done.stdout
    assert "fingerprint" in done.stdout


def test_many_seeds_are_divided_among_processes_and_summed_up() -> None:
    command = [sys.executable, "-m", "hopline.simulation", "--seeds", "5", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "5 of 5 seeds" in done.stdout
    assert "0 failed" in done.stdout


def test_virtual_time_passes_at_once() -> None:
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(asyncio.sleep(1_000_000))
        assert loop.time() >= 1_000_000


def test_a_deadlock_ends_the_loop() -> None:
    loop = VirtualLoop()
    with pytest.raises(RuntimeError, match="deadlock in virtual time"):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_a_violation_is_an_assertion() -> None:
    assert issubclass(Violation, AssertionError)
