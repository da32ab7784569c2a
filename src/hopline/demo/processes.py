"""The processes of the demonstration. Each is ended by its own pid, and none outlives the demonstration."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hopline.message import HoplineError

READY_TIMEOUT = 30.0  # seconds for a process to be ready
STOP_TIMEOUT = 15.0  # seconds for a process to stop after SIGTERM
_POLL_INTERVAL = 0.05
_INTERRUPT_INTERVAL = 0.5
_LOW_PRIORITY = 10  # as `nice` lowers it


class DemoError(HoplineError):
    """A part of the demonstration failed; the text names its log."""


class Process:
    """A child process. Its standard output goes to its log, or can be read line by line (`is_read`)."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        is_read: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._log = log.open("ab")
        self._process = subprocess.Popen(  # noqa: S603 - our own programs
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if is_read else self._log,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C reaches the parent only, which ends its children
            text=True,
            env=environment,
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def lines(self) -> Iterator[str]:
        """Yield the lines of its standard output until it ends."""
        assert self._process.stdout is not None  # noqa: S101 - `is_read`
        yield from self._process.stdout

    def wait_for(self, text: str) -> None:
        """Wait until its log contains a text.

        Raises:
            DemoError: If the process ends before, or takes longer than `READY_TIMEOUT`.
        """
        deadline = time.monotonic() + READY_TIMEOUT
        while text not in self.log.read_text(encoding="utf-8", errors="replace"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise DemoError(f"{self.name} did not get ready, see {self.log}")
            time.sleep(_POLL_INTERVAL)

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Send SIGTERM, wait for the end, and return the exit code; kill the process if it takes too long."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode

    def finish(self) -> int:
        """Send SIGTERM, wait until the process has done what it has to do, and return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait()

    def interrupt(self) -> None:
        """Send SIGTERM again and again until the process ends: the first one may be taken for `finish`."""
        deadline = time.monotonic() + STOP_TIMEOUT
        while self._process.poll() is None and time.monotonic() < deadline:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_INTERRUPT_INTERVAL)

    def lower_priority(self) -> None:
        """Let the process, and what it starts, run when the processor has nothing else to do."""
        os.setpriority(os.PRIO_PROCESS, self.pid, _LOW_PRIORITY)

    def wait(self) -> int:
        """Wait until the process ends by itself, and return its exit code."""
        return self._process.wait()

    def close(self) -> None:
        """Kill the process if it still runs, and close its files."""
        if self._process.poll() is None:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


class ProcessGroup:
    """Starts processes, each with a log of its own, and registers their end."""

    def __init__(self, logs: Path, stack: ExitStack, environment: Mapping[str, str] | None) -> None:
        self._logs = logs
        self._environment = environment
        self._stack = stack
        self._starts: Counter[str] = Counter()

    def hopline(self, name: str, *arguments: str) -> Process:
        """Start a ``hopline`` command."""
        return self.python(name, "-m", "hopline", *arguments)

    def python(self, name: str, *arguments: str, is_read: bool = False) -> Process:
        """Start a Python program."""
        self._starts[name] += 1
        starts = self._starts[name]
        file = f"{name}.log" if starts == 1 else f"{name}-{starts}.log"
        with _delayed_interrupt():
            process = Process(
                name,
                [sys.executable, *arguments],
                self._logs / file,
                is_read=is_read,
                environment=self._environment,
            )
            self._stack.callback(process.close)
        return process


@contextmanager
def process_group(logs: Path, environment: Mapping[str, str] | None = None) -> Iterator[ProcessGroup]:
    """Yield a group of processes; all of them are ended when the block is left.

    Args:
        logs: The directory of their logs.
        environment: Their environment; None for that of this process.
    """
    logs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        yield ProcessGroup(logs, stack, environment)


@contextmanager
def _delayed_interrupt() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block, so that no process is started without its end being registered."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    signals: list[int] = []
    previous_handler = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous_handler)
        if signals:
            raise KeyboardInterrupt


def free_addresses(count: int) -> list[str]:
    """Return addresses on loopback at which nothing listens now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"tcp://127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def relative(path: Path) -> str:
    """Return a path relative to the current directory, as a user would type it."""
    return os.path.relpath(path)
