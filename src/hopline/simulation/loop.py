"""An event loop whose time is virtual: when nothing is left to do now, the clock jumps to what comes next."""

from __future__ import annotations

import asyncio
import logging
import selectors
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Jump(selectors.DefaultSelector):
    """Waits for nothing. Asked to, it lets the time pass instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.after_step: Callable[[], None] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.after_step is not None:
            self.after_step()
        if timeout is None:
            raise RuntimeError("everyone waits and nothing will ever happen")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs ordinary asyncio code as fast as it can, in the same order every time. No sockets, no threads."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        """Tell the virtual time in seconds."""
        return self._jump.now

    def check_after_every_step(self, check: Callable[[], None] | None) -> None:
        """Call this after each round of callbacks. What it raises ends the run."""
        self._jump.after_step = check


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep the nodes from logging what the simulation does to them."""
    log = logging.getLogger("hopline")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
