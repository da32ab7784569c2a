"""Many deadlines, few timers: all that fall into the same tick share one, and so do all that are equally far ahead."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

TICK = 1 / 128  # seconds; what a deadline may be late by
FAR = 60.0  # seconds; a tick that is nearer keeps its timer even when nobody needs it, for more may come


class Expiring(Protocol):
    """Something that has a deadline."""

    def expire(self) -> None:
        """Do what has to be done when the deadline has passed."""
        ...


def expire(expiring: Expiring, loop: asyncio.AbstractEventLoop) -> None:
    """Expire one; whatever it does, the others that are due have a right to theirs."""
    try:
        expiring.expire()
    except Exception as error:
        loop.call_exception_handler({"message": "a deadline could not be kept", "exception": error})


class InLine(Expiring, Protocol):
    """Something that stands in line for its deadline."""

    deadline: float


Member = TypeVar("Member", bound=InLine)


class Line(Generic[Member]):
    """Deadlines that are all set equally far ahead, so that they pass in the order of their setting.

    One timer, for the first of them, does for all. `members` are whoever waits by their keys: to add one last and call
    `watch` sets a deadline, to take it out takes it back.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self.members: dict[int, Member] = {}
        self.is_watched = False
        self._loop = loop
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Set the timer for the first in line."""
        first = next(iter(self.members.values()), None)
        self.is_watched = first is not None and first.deadline < math.inf
        if first is not None and self.is_watched:
            tick = math.ceil(first.deadline / TICK)
            self._timer = self._loop.call_later(max(0.0, tick * TICK - self._clock()), self._expire)

    def _expire(self) -> None:
        now = self._clock()
        due = itertools.takewhile(lambda member: member[1].deadline <= now, self.members.items())
        for key, one in list(due):
            if self.members.pop(key, None) is not None:  # else it left while others expired
                expire(one, self._loop)
        self.watch()

    def close(self) -> None:
        """Drop every deadline."""
        self.members.clear()
        self.is_watched = False
        if self._timer is not None:
            self._timer.cancel()


class Deadlines:
    """Calls `expire` on what was added and not taken back in time. Adding and taking back cost next to nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._ticks: dict[int, dict[Expiring, None]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return sum(map(len, self._ticks.values()))

    def add(self, when: float, expiring: Expiring) -> int:
        """Set a deadline, and give its tick, by which it can be taken back."""
        if when == math.inf:
            return 0  # a tick that never comes
        tick = math.ceil(when / TICK)
        due = self._ticks.get(tick)
        if due is None:
            due = self._ticks[tick] = {}
            self._timers[tick] = self._loop.call_later(max(0.0, tick * TICK - self._clock()), self._expire, tick)
        due[expiring] = None
        return tick

    def discard(self, tick: int, expiring: Expiring) -> None:
        """Take a deadline back, if it has not passed."""
        due = self._ticks.get(tick)
        if due is not None:
            due.pop(expiring, None)
            if not due and tick * TICK - self._clock() > FAR:  # else long waits that ended early would pile up
                del self._ticks[tick]
                self._timers.pop(tick).cancel()

    def _expire(self, tick: int) -> None:
        del self._timers[tick]
        for expiring in self._ticks.pop(tick):
            expire(expiring, self._loop)

    def close(self) -> None:
        """Drop every deadline."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._ticks.clear()
