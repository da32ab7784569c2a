"""How a process that runs until it is told ends: the first signal drains, the second one hurries."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

Report = TypeVar("Report")


class Signals:
    """SIGTERM and Ctrl-C, as events of the loop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._take)

    def _take(self) -> None:
        (self.hurried if self.asked.is_set() else self.asked).set()

    def on_hangup(self, call: Callable[[], object]) -> None:
        """Call something on SIGHUP."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, call)

    async def stop(self, stop: Callable[[], Awaitable[Report]]) -> Report:
        """Stop what runs, and hurry when asked again: `stop` is given up then, and called once more to see it end."""
        stopping: asyncio.Future[Report] = asyncio.ensure_future(stop())
        hurried = asyncio.ensure_future(self.hurried.wait())
        await asyncio.wait((stopping, hurried), return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if stopping.done():
            return stopping.result()
        stopping.cancel()
        with suppress(asyncio.CancelledError):
            await stopping
        return await stop()
