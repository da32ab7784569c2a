"""A condition variable for one event loop.

Theory of operation. State that only the loop's own thread changes needs no lock, but it does need care about *when* a
waiter registers. The obvious way (make a future, keep it, await it) loses a wake-up: a task that is told "no" and then
started to wait runs one turn later, and if the state changed in between, nobody is left to wake it. Here the predicate
is evaluated in the same step that registers the waiter, and again after every notification, so a change is either seen
by the evaluation or followed by a notification. The invariant that callers keep: whoever may make a predicate true
calls `notify_all` afterwards, in the same step.

`asyncio.Condition` does the same, but only behind a lock that plain functions cannot take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Condition:
    """Lets any number of tasks wait until a predicate holds."""

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], None] = {}

    async def wait_for(self, predicate: Callable[[], object]) -> None:
        """Return as soon as the predicate holds: at once if it does already."""
        while not predicate():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = None
            try:
                await waiter
            finally:
                self._waiters.pop(waiter, None)

    def notify_all(self) -> None:
        """Let every waiter evaluate its predicate again."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
