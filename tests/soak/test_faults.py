"""The faults of a run follow from its seed alone, and leave time between each other."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.faults import LONGEST_PAUSE, SHORTEST_PAUSE, SPARED_AFTER, FaultKind, plan_faults

ROLES = ("node-1", "node-2", "rendezvous", "stream")


def test_the_same_seed_plans_the_same_faults() -> None:
    one, same, other = (plan_faults(seed, minutes=10, period=20, roles=ROLES) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_ten_minutes_have_a_fault_every_twenty_seconds_but_for_the_last() -> None:
    faults = plan_faults(1, minutes=10, period=20, roles=ROLES)
    assert [fault.at for fault in faults] == [20.0 * number for number in range(1, 30)]


@given(st.integers(0, 1_000))
def test_a_round_has_every_kind_of_fault_for_every_role_once(seed: int) -> None:
    faults = plan_faults(seed, minutes=10, period=20, roles=ROLES, with_children=["stream"])
    first_round = Counter((fault.kind, fault.role) for fault in faults[:9])
    assert set(first_round.values()) == {1}
    assert {kind for kind, role in first_round if role == "stream"} == set(FaultKind)
    assert (FaultKind.KILL_LEADER, "node-1") not in first_round


@pytest.mark.parametrize(("period", "longest"), [(20.0, LONGEST_PAUSE), (8.0, 4.8), (1.0, SHORTEST_PAUSE)])
def test_a_pause_is_over_before_the_next_fault(period: float, longest: float) -> None:
    faults = plan_faults(3, minutes=30, period=period, roles=ROLES)
    pauses = [fault.seconds for fault in faults if fault.kind is FaultKind.PAUSE]
    assert pauses
    assert all(SHORTEST_PAUSE <= seconds <= longest for seconds in pauses)


def test_no_period_means_no_faults() -> None:
    assert plan_faults(1, minutes=10, period=0, roles=ROLES) == ()


def test_a_run_without_time_for_a_fault_has_none() -> None:
    assert plan_faults(1, minutes=0.5, period=20, roles=ROLES) == ()


def test_spared_roles_are_killed_only_in_the_first_part_and_others_at_any_time() -> None:
    for seed in range(20):
        faults = plan_faults(
            seed,
            minutes=60,
            period=20,
            roles=ROLES,
            spared=["stream"],
            never_killed=["node-1"],
            with_children=["stream"],
        )
        last_kill = {fault.role: fault.at for fault in faults if fault.kind is not FaultKind.PAUSE}
        assert "node-1" not in last_kill
        assert 0 < last_kill["stream"] <= SPARED_AFTER * 3600 < last_kill["node-2"]
        assert {fault.role for fault in faults if fault.at > 1800 and fault.kind is FaultKind.PAUSE} == set(ROLES)
