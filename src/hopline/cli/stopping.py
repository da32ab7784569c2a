"""How a process that runs until it is told ends: the first signal drains, the second one hurries."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")

AT_ONCE = 3.0  # seconds that a process may take to end in order, once it is hurried
LAST_MOMENT = 1.0  # seconds for what is left after the report: nobody will hear of it
CUT_OFF = 1  # the exit code of a process that could not end in order


class Signals:
    """SIGTERM and Ctrl-C, as events of the loop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._count = 0
        # Not by the loop, which may be held by a handler, and is closed before the process has ended.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._take)

    def _take(self, *_: object) -> None:
        self._count += 1
        if self._count > 1:
            end_within(AT_ONCE, CUT_OFF)
        with suppress(RuntimeError):  # a closed loop: the process is about to end
            self._loop.call_soon_threadsafe((self.asked if self._count == 1 else self.hurried).set)

    def on_hangup(self, call: Callable[[], object]) -> None:
        """Call something on SIGHUP."""
        self._loop.add_signal_handler(signal.SIGHUP, call)

    async def unless_asked(self, start: Awaitable[Result]) -> Result | None:
        """Start something; give it up, and give nothing, when asked to stop meanwhile."""
        starting: asyncio.Future[Result] = asyncio.ensure_future(start)
        return starting.result() if await self._ends_first(starting, self.asked) else None

    async def stop(self, stop: Callable[[], Awaitable[Result]]) -> Result:
        """Stop what runs, and hurry when asked again: `stop` is given up then, and called once more to see it end."""
        stopping: asyncio.Future[Result] = asyncio.ensure_future(stop())
        return stopping.result() if await self._ends_first(stopping, self.hurried) else await stop()

    async def _ends_first(self, work: asyncio.Future[Result], event: asyncio.Event) -> bool:
        """Wait for both, and tell whether the work ended first; it is cancelled otherwise."""
        waiting = asyncio.ensure_future(event.wait())
        await asyncio.wait((work, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if work.done():
            return True
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        return False


def end_within(seconds: float, code: int) -> None:
    """End this process, whatever still runs: a thread cannot be cancelled, and a task may refuse to be."""

    def end() -> None:
        if code:
            os.write(2, b"ended at once, with work under way\n")
        os._exit(code)

    ending = threading.Timer(seconds, end)
    ending.daemon = True  # who ends by himself is not kept
    try:
        ending.start()
    except RuntimeError:  # the interpreter shuts down already: nothing is left that could end in order
        end()
