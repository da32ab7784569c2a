"""The health of a synod: heartbeats, and whom to connect to again."""

from __future__ import annotations

import pytest

from hopline import ArgumentError
from hopline.cluster.election.lease import in_ticks
from hopline.cluster.election.synod import Reconnect, SynodHealth, SynodHeartbeat, SynodSettings

A, B, C = URIS = tuple(f"tcp://10.0.0.{n}:7001" for n in (1, 2, 3))
SECOND = in_ticks(1)


def synod() -> SynodHealth:
    return SynodHealth(A, URIS, SynodSettings(), now=0)


def steps_until(health: SynodHealth, until: int, heard: tuple[str, ...] = ()) -> list[tuple[int, object]]:
    """Tick whenever it wants; some members are heard all the time."""
    found: list[tuple[int, object]] = []
    while health.next_tick is not None and health.next_tick <= until:
        now = health.next_tick
        for uri in heard:
            health.receive(SynodHeartbeat(uri), now)
        found += [(now // SECOND, step) for step in health.tick(now)]
    return found


def test_a_member_says_every_five_seconds_that_it_is_there() -> None:
    beats = steps_until(synod(), 14 * SECOND, heard=(B, C))
    assert beats == [(0, SynodHeartbeat(A)), (5, SynodHeartbeat(A)), (10, SynodHeartbeat(A))]


def test_a_single_member_tells_nobody() -> None:
    health = SynodHealth(A, [A], SynodSettings(), now=0)
    assert health.next_tick is None
    assert health.tick(100 * SECOND) == []
    assert health.healthy(100 * SECOND) == [A]


def test_a_silent_member_is_connected_again_and_again_after_the_same_time() -> None:
    steps = steps_until(synod(), 50 * SECOND, heard=(B,))
    assert [(at, step) for at, step in steps if isinstance(step, Reconnect)] == [
        (15, Reconnect(C)),
        (30, Reconnect(C)),
        (45, Reconnect(C)),
    ]


def test_a_member_is_healthy_while_it_is_heard() -> None:
    health = synod()
    health.receive(SynodHeartbeat(B + "/"), 10 * SECOND)
    assert health.healthy(15 * SECOND - 1) == [A, B, C]
    assert health.healthy(15 * SECOND) == [A, B]
    assert health.healthy(25 * SECOND) == [A]
    health.receive(SynodHeartbeat(C), 25 * SECOND)
    assert health.healthy(25 * SECOND) == [A, C]


def test_strangers_are_counted_and_ones_own_heartbeat_means_nothing() -> None:
    health = synod()
    health.receive(SynodHeartbeat(A), 1)
    health.receive(SynodHeartbeat("tcp://10.0.0.9:7001"), 1)
    assert health.from_strangers == 1


def test_a_member_that_moved_is_heard_at_its_new_address() -> None:
    health = synod()
    moved = "tcp://10.0.0.9:7001"
    health.move(C, moved)
    health.receive(SynodHeartbeat(moved), 20 * SECOND)
    assert health.healthy(20 * SECOND) == [A, moved]
    steps = health.tick(40 * SECOND)
    assert Reconnect(moved) in steps
    for old, new in ((A, "tcp://10.0.0.8:7001"), (B, moved), (C, "tcp://10.0.0.8:7001")):
        with pytest.raises(ArgumentError):
            health.move(old, new)


@pytest.mark.parametrize(("name", "value"), [("heartbeat_interval", 0), ("missing_heartbeats", -1)])
def test_wrong_settings_are_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(ArgumentError, match=rf"synod\.{name}"):
        SynodSettings(**{name: value})
