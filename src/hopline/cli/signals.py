"""Stopping a long-running command: the first SIGINT or SIGTERM stops it in order, the second one at once.

The handlers are installed by `signal.signal`, not on the event loop: a loop that an actor blocks would never
see the second signal, and it is closed before the process has ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")

FORCED_STOP_TIME = 3.0  # seconds to end in order after the second signal
EXIT_TIME = 1.0  # seconds for the interpreter to exit after the last line was written
NOT_STOPPED = 1  # the exit code of a process that could not end in order


class Signals:
    """SIGINT and SIGTERM as events of the running loop."""

    def __init__(self) -> None:
        self.stop_requested = asyncio.Event()
        self.stop_forced = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._count = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._receive)

    def _receive(self, *_: object) -> None:
        self._count += 1
        is_first = self._count == 1
        if not is_first:
            exit_within(FORCED_STOP_TIME, NOT_STOPPED)
        event = self.stop_requested if is_first else self.stop_forced
        with suppress(RuntimeError):  # the loop is closed: the process is about to end
            self._loop.call_soon_threadsafe(event.set)

    def on_hangup(self, callback: Callable[[], object]) -> None:
        """Call a function on SIGHUP."""
        self._loop.add_signal_handler(signal.SIGHUP, callback)

    async def start(self, start: Awaitable[Result]) -> Result | None:
        """Return the result of starting something, or None if a stop was requested first, which cancels it.

        It starts in the task of the caller, because what it opens may have to be closed there.
        """
        try:
            async with asyncio.timeout(None) as limit:
                watching = asyncio.ensure_future(self._end_at_stop(limit))
                try:
                    return await start
                finally:
                    watching.cancel()
        except TimeoutError:
            if not limit.expired():  # an error of its own
                raise
            return None

    async def _end_at_stop(self, limit: asyncio.Timeout) -> None:
        await self.stop_requested.wait()
        limit.reschedule(self._loop.time())

    async def stop(self, stop: Callable[[], Awaitable[Result]]) -> Result:
        """Stop something. A forced stop cancels the call of `stop`, and calls it again for its result."""
        stopping: asyncio.Future[Result] = asyncio.ensure_future(stop())
        is_stopped = await self._ends_before(stopping, self.stop_forced)
        return stopping.result() if is_stopped else await stop()

    async def _ends_before(self, work: asyncio.Future[Result], event: asyncio.Event) -> bool:
        """Return whether the work ends before the event is set; cancel it otherwise."""
        waiting = asyncio.ensure_future(event.wait())
        await asyncio.wait((work, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if work.done():
            return True
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        return False


def exit_within(seconds: float, code: int) -> None:
    """Exit after some seconds even if threads still run, which cannot be cancelled, or tasks refuse to end."""

    def exit_now() -> None:
        if code:
            os.write(2, b"stopped at once, with work in progress\n")
        os._exit(code)

    timer = threading.Timer(seconds, exit_now)
    timer.daemon = True  # a process that ends by itself does not wait for it
    try:
        timer.start()
    except RuntimeError:  # the interpreter is shutting down: no thread can be started any more
        exit_now()
