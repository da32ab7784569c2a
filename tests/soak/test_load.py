"""The load keeps its rate, whatever becomes of its messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hopline.actors import handler_map
from tests.soak.load import BACKLOG, OpenLoop, Worker


@given(st.lists(st.floats(0.001, BACKLOG / 2), min_size=1, max_size=50))
def test_as_many_steps_are_due_as_the_rate_says_however_often_it_is_asked(waits: list[float]) -> None:
    schedule = OpenLoop(rate=100, start=5.0)
    now = 5.0
    done = 0
    for wait in waits:
        now += wait
        done += schedule.due(now)
    assert done == int((now - 5.0) * 100)
    assert schedule.skipped == 0


def test_what_was_due_long_ago_is_skipped_and_counted() -> None:
    schedule = OpenLoop(rate=100, start=0.0)
    assert schedule.due(0.5) == 50
    assert schedule.due(10.5) == BACKLOG * 100
    assert schedule.skipped == 900
    assert schedule.due(10.6) == 10


def test_nothing_is_due_before_the_start() -> None:
    assert OpenLoop(rate=100, start=5.0).due(4.0) == 0


def test_a_worker_handles_the_messages_of_the_other_nodes_and_not_its_own() -> None:
    worker = Worker(["node-2", "node-3"])
    assert {identifier.partition for identifier in handler_map(worker)} == {b"node-2", b"node-3"}
    assert len(handler_map(worker)) == 4
