"""Many deadlines with few timers."""

from __future__ import annotations

import math
from typing import Any

from hopline.client import TICK, Deadlines, Line
from hopline.simulation import VirtualLoop


class Egg:
    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.boiled_at: float | None = None

    def expire(self) -> None:
        self.boiled_at = self._loop.time()


def test_each_expires_within_a_tick_and_never_early() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop, loop.time)
    eggs = {when: Egg(loop) for when in (0.001, 0.5, 0.5001, 3.0)}
    for when, egg in eggs.items():
        deadlines.add(when, egg)
    assert len(deadlines) == 4
    loop.call_later(4, loop.stop)
    loop.run_forever()
    loop.close()
    for when, egg in eggs.items():
        assert egg.boiled_at is not None
        assert when <= egg.boiled_at <= when + TICK
    assert len(deadlines) == 0


def test_what_is_taken_back_does_not_expire() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop, loop.time)
    kept, dropped = Egg(loop), Egg(loop)
    deadlines.add(1.0, kept)
    tick = deadlines.add(1.0, dropped)
    deadlines.discard(tick, dropped)
    deadlines.discard(tick, dropped)
    deadlines.discard(12345, dropped)
    loop.call_later(2, loop.stop)
    loop.run_forever()
    loop.close()
    assert kept.boiled_at is not None
    assert dropped.boiled_at is None


def test_closed_deadlines_expire_nobody() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(loop, loop.time)
    egg = Egg(loop)
    deadlines.add(1.0, egg)
    deadlines.close()
    loop.call_later(2, loop.stop)
    loop.run_forever()
    loop.close()
    assert egg.boiled_at is None
    assert len(deadlines) == 0


class Queued(Egg):
    def __init__(self, loop: VirtualLoop, deadline: float) -> None:
        super().__init__(loop)
        self.deadline = deadline
        self.fails = False

    def expire(self) -> None:
        if self.fails:
            raise ValueError
        super().expire()


def in_line(loop: VirtualLoop, *deadlines: float) -> tuple[Line[Queued], list[Queued]]:
    line: Line[Queued] = Line(loop, loop.time)
    eggs = [Queued(loop, deadline) for deadline in deadlines]
    for key, egg in enumerate(eggs):
        line.members[key] = egg
        if not line.has_timer:
            line.set_timer()
    return line, eggs


def run_for(loop: VirtualLoop, seconds: float) -> None:
    loop.call_later(seconds, loop.stop)
    loop.run_forever()
    loop.close()


def test_a_line_expires_each_within_a_tick_and_never_early() -> None:
    loop = VirtualLoop()
    line, eggs = in_line(loop, 0.001, 0.5, 0.5001, 3.0)
    run_for(loop, 4)
    for egg in eggs:
        assert egg.boiled_at is not None
        assert egg.deadline <= egg.boiled_at <= egg.deadline + TICK
    assert not line.members
    assert not line.has_timer


def test_who_leaves_the_line_does_not_expire_and_keeps_nobody_from_it() -> None:
    loop = VirtualLoop()
    line, (first, second, last) = in_line(loop, 1.0, 1.5, 2.0)
    del line.members[0], line.members[1]
    run_for(loop, 3)
    assert (first.boiled_at, second.boiled_at) == (None, None)
    assert last.boiled_at is not None


def test_a_line_that_was_empty_is_watched_again() -> None:
    loop = VirtualLoop()
    line, _ = in_line(loop, 1.0)
    late = Queued(loop, 5.0)

    def join() -> None:
        line.members[9] = late
        line.set_timer()

    loop.call_later(3.0, join)
    run_for(loop, 6)
    assert late.boiled_at is not None
    assert late.boiled_at >= 5.0


def test_one_that_fails_to_expire_does_not_keep_the_others_from_it() -> None:
    loop = VirtualLoop()
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    line, (first, second) = in_line(loop, 1.0, 1.0)
    first.fails = True
    run_for(loop, 1.5)
    assert second.boiled_at is not None
    assert "handling a deadline failed" in told[0]["message"]
    line.close()


def test_nobody_expires_in_a_line_that_waits_for_ever_or_is_closed() -> None:
    loop = VirtualLoop()
    _, (patient,) = in_line(loop, math.inf)
    closed, (dropped,) = in_line(loop, 1.0)
    closed.close()
    run_for(loop, 2)
    assert (patient.boiled_at, dropped.boiled_at) == (None, None)
