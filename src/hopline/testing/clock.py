"""Virtual time on any asyncio loop, so that minutes of timeouts take no time in a test.

Theory of operation. An event loop sleeps in its selector until the next timer is due. `VirtualTime` replaces two
things of one loop for a while: what it takes for the time, and how its selector waits. When nothing is left to do at
the present moment, the clock jumps to the next timer instead of sleeping until then. Two cases must wait for real:

* a thread works for the loop (a blocking handler, `asyncio.to_thread`): as long as it does, time passes as it always
  does, because nobody knows when the thread will be done;
* nothing is scheduled, but a socket is open: only that socket can wake the loop.

If there is neither a timer nor a thread nor a socket, every task waits for another one. Sleeping would last for ever,
so the loop raises `DeadlockError`.

The simulator has a loop of its own for this, `hopline.simulation.VirtualLoop`, without threads and sockets. Tests run
on loops that others made (`asyncio.run`, a plugin of pytest), hence the change to a loop that exists already.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar
from weakref import WeakSet

from hopline.errors import ArgumentError, HoplineError

Result = TypeVar("Result")
Ready = list[tuple[selectors.SelectorKey, int]]

_WAKE_UP_PIPE = 1  # the only file that every loop has open
_virtual: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


class DeadlockError(HoplineError):
    """Every task of a test waits for another one, and no timer is set that could end this."""

    def __str__(self) -> str:
        return "deadlock: every task waits, and no timer is set; is an await missing, or an answer?"


class VirtualTime:
    """The clock of one loop, which jumps whenever the loop has nothing to do."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        selector = getattr(loop, "_selector", None)
        if not isinstance(selector, selectors.BaseSelector):
            expected = "a loop of asyncio that waits in a selector; hopline.testing.run makes one"
            kind = type(loop)
            raise ArgumentError("event loop", expected, f"{kind.__module__}.{kind.__qualname__}")
        self.now = loop.time() if loop.is_running() else 0.0
        self._selector = selector
        self._wait = selector.select
        self._run_in_executor = loop.run_in_executor
        self._threads = 0  # that work for the loop

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.now

    def select(self, timeout: float | None = None) -> Ready:
        """Return the files that are ready. Jump instead of waiting where that is possible."""
        ready = self._wait(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._threads:
            return self._wait_for_real(timeout)
        if timeout is None:
            has_sockets = len(self._selector.get_map()) > _WAKE_UP_PIPE
            if not has_sockets:
                raise DeadlockError
            return self._wait_for_real(None)
        self.now += timeout
        return []

    def _wait_for_real(self, timeout: float | None) -> Ready:
        began = time.monotonic()
        ready = self._wait(timeout)
        self.now += time.monotonic() - began
        return ready

    def run_in_executor(self, *arguments: Any) -> asyncio.Future[Any]:
        """Run a function in a thread, as the loop does. Until it is done, time passes as it always does."""
        future = self._run_in_executor(*arguments)
        self._threads += 1
        future.add_done_callback(self._thread_is_done)
        return future

    def _thread_is_done(self, _: asyncio.Future[Any]) -> None:
        self._threads -= 1


@contextmanager
def virtual_time(loop: asyncio.AbstractEventLoop | None = None) -> Iterator[None]:
    """Let the time of a loop jump whenever the loop has nothing to do. Default: the running loop.

    Only the loop's own clock jumps: `asyncio.sleep`, timeouts, and what Hopline does with them. `time.monotonic` and
    `datetime.now` are as ever. Used within itself it changes nothing. At its end the time goes on from where it is, and
    not back, because timers may be set.

    Raises:
        ArgumentError: The loop is not one of asyncio's own, such as one of uvloop.
    """
    loop = loop or asyncio.get_running_loop()
    if loop in _virtual:
        yield
        return
    virtual = VirtualTime(loop)
    replaced = {"time": virtual.time, "run_in_executor": virtual.run_in_executor}
    selector: Any = loop._selector  # type: ignore[attr-defined]
    vars(loop).update(replaced)
    selector.select = virtual.select
    _virtual.add(loop)
    try:
        yield
    finally:
        _virtual.discard(loop)
        del selector.select
        for name in replaced:
            delattr(loop, name)
        ahead = virtual.now - loop.time()
        vars(loop)["time"] = lambda: time.monotonic() + ahead


class VirtualRunner:
    """Runs coroutines one after the other on a loop of its own, in virtual time that begins at zero.

    It is to `run` what `asyncio.Runner` is to `asyncio.run`.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._runner: asyncio.Runner

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._runner = opening.enter_context(asyncio.Runner(loop_factory=asyncio.SelectorEventLoop))
            opening.enter_context(virtual_time(self._runner.get_loop()))
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine, and return its result."""
        return self._runner.run(coroutine)


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in virtual time, and return its result: `asyncio.run` for tests.

    >>> run(asyncio.sleep(3600, "an hour later"))
    'an hour later'
    """
    with VirtualRunner() as runner:
        return runner.run(coroutine)
