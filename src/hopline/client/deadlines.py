"""Many deadlines on few timers.

Deadlines that fall into the same tick share a timer (`Deadlines`). Deadlines that are all set equally far ahead pass in
the order of their setting, so one timer for the first of them is enough (`Line`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

TICK = 1 / 128  # seconds; a deadline may be this late
FAR = 60.0  # seconds; a nearer tick keeps its timer when it is empty, because further deadlines may fall into it


class Expiring(Protocol):
    """Something that has a deadline."""

    def expire(self) -> None:
        """Handle that the deadline has passed."""
        ...


def expire(expiring: Expiring, loop: asyncio.AbstractEventLoop) -> None:
    """Expire one deadline. An error in it must not keep others from expiring."""
    try:
        expiring.expire()
    except Exception as error:
        loop.call_exception_handler({"message": "handling a deadline failed", "exception": error})


class InLine(Expiring, Protocol):
    """Something with a deadline in a `Line`."""

    deadline: float


Member = TypeVar("Member", bound=InLine)


class Line(Generic[Member]):
    """Deadlines that are all set equally far ahead, so that they pass in the order of their setting.

    One timer, for the first of them, serves all. To set a deadline, append to `members` and call `set_timer` unless
    `has_timer`; to cancel it, remove it from `members`. Neither costs a call per deadline here.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self.members: dict[int, Member] = {}
        self.has_timer = False
        self._loop = loop
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None

    def set_timer(self) -> None:
        """Set the timer for the first member."""
        members = self.members.values()
        first = next(iter(members), None)
        if first is None or first.deadline == math.inf:
            self.has_timer = False
            return
        self.has_timer = True
        tick = math.ceil(first.deadline / TICK)
        delay = tick * TICK - self._clock()
        self._timer = self._loop.call_later(max(0.0, delay), self._expire)

    def _expire(self) -> None:
        for key, member in self._due():
            if self.members.pop(key, None) is not None:  # else it was removed while others expired
                expire(member, self._loop)
        self.set_timer()

    def _due(self) -> list[tuple[int, Member]]:
        """Return the members whose deadlines have passed: the first ones, because they are in order."""
        now = self._clock()
        due: list[tuple[int, Member]] = []
        for key, member in self.members.items():
            if member.deadline > now:
                break
            due.append((key, member))
        return due

    def close(self) -> None:
        """Drop every deadline."""
        self.members.clear()
        self.has_timer = False
        if self._timer is not None:
            self._timer.cancel()


class Deadlines:
    """Calls `expire` on what was added and not discarded in time. Both cost little more than a dictionary access."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._ticks: dict[int, dict[Expiring, None]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return sum(map(len, self._ticks.values()))

    def add(self, when: float, expiring: Expiring) -> int:
        """Set a deadline. Return its tick, for `discard`."""
        if when == math.inf:
            return 0  # a tick that never comes
        tick = math.ceil(when / TICK)
        due = self._ticks.get(tick)
        if due is None:
            due = self._ticks[tick] = {}
            delay = max(0.0, tick * TICK - self._clock())
            self._timers[tick] = self._loop.call_later(delay, self._expire, tick)
        due[expiring] = None
        return tick

    def discard(self, tick: int, expiring: Expiring) -> None:
        """Cancel a deadline, if it has not passed."""
        due = self._ticks.get(tick)
        if due is None:
            return
        due.pop(expiring, None)
        if due:
            return
        is_far = tick * TICK - self._clock() > FAR
        if is_far:  # else timers of long waits would pile up
            timer = self._timers.pop(tick)
            timer.cancel()
            del self._ticks[tick]

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
