"""An event loop with virtual time: when nothing is left to do now, the clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import logging
import selectors
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _TimeJump(selectors.DefaultSelector):
    """A selector that waits for nothing: instead of sleeping it advances the time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.after_step: Callable[[], None] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.after_step is not None:
            self.after_step()
        if timeout is None:
            raise RuntimeError("deadlock in virtual time: every task waits, and no timer is set")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs ordinary asyncio code as fast as possible, in the same order every time. No sockets, no threads."""

    def __init__(self) -> None:
        self._selector_of_time = _TimeJump()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._selector_of_time.now

    def check_after_every_step(self, check: Callable[[], None] | None) -> None:
        """Set a function that is called after each round of callbacks. An exception that it raises ends the run."""
        self._selector_of_time.after_step = check


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Switch off the logs of the nodes, which would be full of what the simulation does to them."""
    log = logging.getLogger("hopline")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
