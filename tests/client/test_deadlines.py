"""Many deadlines with few timers."""

from __future__ import annotations

from hopline.client import TICK, Deadlines
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
