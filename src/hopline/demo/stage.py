"""The processes of the demonstration: each is started, watched and ended by its own pid; none is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hopline.message import HoplineError

READY_TIME = 30.0  # seconds that a process may take to be ready
STOP_TIME = 15.0  # seconds that it may take to stop in order
_LOOK = 0.05


class DemoError(HoplineError):
    """Something of the demonstration did not come up."""


class Process:
    """One process: its output goes to a log, or line by line to whoever asks."""

    def __init__(self, name: str, command: Sequence[str], log: Path, *, is_heard: bool = False) -> None:
        self.name = name
        self.log = log
        self._log = log.open("ab")
        self._process = subprocess.Popen(  # noqa: S603 - our own programs
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if is_heard else self._log,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for us; we tell the others
            text=True,
        )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def lines(self) -> Iterator[str]:
        """Give what it says, until it ends."""
        assert self._process.stdout is not None  # noqa: S101 - asked for
        yield from self._process.stdout

    def wait_for(self, word: str) -> None:
        """Wait until the log has a word."""
        deadline = time.monotonic() + READY_TIME
        while word not in self.log.read_text(encoding="utf-8", errors="replace"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise DemoError(f"{self.name} did not get ready, see {self.log}")
            time.sleep(_LOOK)

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Let it end in order; who takes too long is killed."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIME)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode

    def finish(self) -> int:
        """Wait until it ends by itself."""
        return self._process.wait()

    def clear_away(self) -> None:
        """See to it that nothing of it is left."""
        if self._process.poll() is None:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


class Stage:
    """Where the processes run, and where their logs are."""

    def __init__(self, logs: Path, stack: ExitStack) -> None:
        self._logs = logs
        self._stack = stack
        self._started: Counter[str] = Counter()

    def hopline(self, name: str, *arguments: str) -> Process:
        """Start a ``hopline`` command."""
        return self.python(name, "-m", "hopline", *arguments)

    def python(self, name: str, *arguments: str, is_heard: bool = False) -> Process:
        """Start a Python program."""
        self._started[name] += 1
        log = self._logs / (f"{name}.log" if self._started[name] == 1 else f"{name}-{self._started[name]}.log")
        with _uninterrupted():
            process = Process(name, [sys.executable, *arguments], log, is_heard=is_heard)
            self._stack.callback(process.clear_away)
        return process


@contextmanager
def stage(logs: Path) -> Iterator[Stage]:
    """Give a stage; at the end, however it comes, every process on it is ended."""
    logs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        yield Stage(logs, stack)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait a moment: a process that was just started must be noted before anything else happens."""
    if threading.current_thread() is not threading.main_thread():  # which Ctrl-C never interrupts
        yield
        return
    signals: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if signals:
            raise KeyboardInterrupt


def free_addresses(count: int) -> list[str]:
    """Find places on loopback where nobody listens now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"tcp://127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def shown(path: Path) -> str:
    """Give a path as one would type it here."""
    return os.path.relpath(path)
