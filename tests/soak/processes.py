"""The processes of a run: started, killed, paused and measured by their process ids, and none of them outlives the run.

Theory of operation. A *role* is a process of the network, such as `node-1`; a *life* is one process in that role. Each
process is started in a session of its own, so that Ctrl-C reaches only the program that started it, and so that its
children are found: they are the other processes of the session, whatever process groups they have moved to, and whoever
their parent is after it was killed.

Process ids are used again by the system. A child is therefore remembered with the time of its start, and gets a signal
only while both agree.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

ROOT = Path(__file__).parent.parent.parent  # where children find the packages `tests` and `hopline`
_POLL = 0.05
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SESSION = 3  # fields of /proc/PID/stat after the name of the program, counted from zero
_STARTED = 19


class End(StrEnum):
    """How a life ended."""

    KILLED = "killed"
    STOPPED = "stopped"  # in order
    FORCED = "forced"  # it did not stop in time
    BY_ITSELF = "by itself"


class Life(msgspec.Struct):
    """One process in a role. Times are seconds since 1970."""

    role: str
    number: int  # from 1
    pid: int
    began: float
    ended: float | None = None
    end: End | None = None
    code: int | None = None

    @property
    def name(self) -> str:
        """The role and the number."""
        return f"{self.role}.{self.number}"


class ProcessStatus(NamedTuple):
    """What /proc says about a process."""

    pid: int
    name: str  # of its program
    session: int
    started: int  # clock ticks since the system started


def status_of(pid: int) -> ProcessStatus | None:
    """Return the status of a process, or None if there is none, or only its exit code is left."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    before, _, after = text.rpartition(")")
    fields = after.split()
    if fields[0] in "ZX":
        return None
    name = before.partition("(")[2]
    return ProcessStatus(pid, name, int(fields[_SESSION]), int(fields[_STARTED]))


def processes_of(session: int) -> list[ProcessStatus]:
    """Return the processes of a session."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    statuses = [status_of(pid) for pid in pids]
    return [status for status in statuses if status is not None and status.session == session]


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(fields[1]) * _PAGE


def descriptors_of(pid: int) -> int:
    """Return the number of open file descriptors of a process; 0 if there is no such process."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - only counted
    except OSError:
        return 0


def _signal(process: ProcessStatus, number: int) -> None:
    """Send a signal to a process, unless it has ended and another one has its id."""
    status = status_of(process.pid)
    if status is not None and status.started == process.started:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


class Process:
    """A running process, and its life."""

    def __init__(self, life: Life, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.life = life
        self.log = log
        self._popen = popen
        self._left: list[ProcessStatus] = []  # children that may outlive it

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._popen.poll() is None

    def has_ended_by_itself(self) -> bool:
        """Return whether the process has ended without being killed or stopped, and note that."""
        if not self.is_running:
            self._note_end(End.BY_ITSELF)
        return self.life.end is End.BY_ITSELF

    def write(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which the one who watches over it notices
            self._popen.stdin.write(f"{line}\n".encode())
            self._popen.stdin.flush()

    def close_input(self) -> None:
        """End its standard input."""
        if self._popen.stdin is not None:
            with suppress(BrokenPipeError):
                self._popen.stdin.close()

    def members(self) -> list[ProcessStatus]:
        """Return the process and its children."""
        return processes_of(self._popen.pid) if self.is_running else []

    def kill(self, *, with_children: bool = True) -> None:
        """Kill the process as a crash does, and the processes that it has started, or not."""
        if self.has_ended_by_itself():
            return
        self._left += [member for member in self.members() if member.pid != self._popen.pid]
        at = time.time()
        self._popen.kill()
        if with_children:
            self.kill_children()
        self._popen.wait()
        self._note_end(End.KILLED, at)

    def kill_children(self) -> None:
        """Kill the children that have outlived the process."""
        for child in self._left:
            _signal(child, signal.SIGKILL)

    def children_left(self) -> int:
        """Return how many children have outlived the process."""
        statuses = [(child, status_of(child.pid)) for child in self._left]
        return sum(status is not None and status.started == child.started for child, status in statuses)

    def pause(self) -> None:
        """Pause the process and its children."""
        for member in self.members():
            _signal(member, signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process and its children go on."""
        for member in self.members():
            _signal(member, signal.SIGCONT)

    def stop(self, timeout: float) -> None:
        """Stop the process in order: end its standard input, or send SIGTERM if it has none. Kill it if it is slow."""
        if self.has_ended_by_itself() or self.life.end is not None:
            return
        self._left += [member for member in self.members() if member.pid != self._popen.pid]
        if self._popen.stdin is None:
            self._popen.send_signal(signal.SIGTERM)
        else:
            self.close_input()
        end = End.STOPPED
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
            end = End.FORCED
        self._note_end(end)

    def close(self) -> None:
        """Kill whatever is left of it."""
        if self.is_running:
            self.resume()
            self.kill()
        self.kill_children()
        self.close_input()

    def _note_end(self, end: End, at: float | None = None) -> None:
        if self.life.ended is None:
            self.life.ended = time.time() if at is None else at
            self.life.end = end
            self.life.code = self._popen.returncode


class Processes:
    """All processes of a run. Leaving the context kills those that still run."""

    def __init__(self, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.lives: list[Life] = []
        self._logs = logs
        self._all: list[Process] = []
        self._current: dict[str, Process] = {}
        self._lock = threading.Lock()  # of the lists, which the sampler reads

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._all):
            process.close()

    def start(
        self,
        role: str,
        arguments: Sequence[str],
        *,
        has_input: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a Python program in a role; its output goes to a log of its own.

        Args:
            role: The role.
            arguments: Of the interpreter.
            has_input: Whether it takes commands on standard input, and stops when that ends.
            environment: Further variables of its environment.
        """
        number = 1 + sum(life.role == role for life in self.lives)
        log = self._logs / f"{role}.{number}.log"
        began = time.time()
        with log.open("ab") as output, _delayed_interrupt():
            popen = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
            )
            process = Process(Life(role, number, popen.pid, began), popen, log)
            with self._lock:
                self.lives.append(process.life)
                self._all.append(process)
                self._current[role] = process
        return process

    def __getitem__(self, role: str) -> Process:
        """Return the process that has a role now."""
        return self._current[role]

    def running(self) -> list[Process]:
        """Return the processes that run now."""
        with self._lock:
            current = list(self._current.values())
        return [process for process in current if process.is_running]

    def children_left(self) -> int:
        """Return how many children have outlived the process that started them."""
        return sum(process.children_left() for process in self._all)


class _delayed_interrupt:  # noqa: N801 - used like a function
    """Delays SIGINT and SIGTERM to the end of the block, so that no process is started without being registered."""

    def __enter__(self) -> None:
        self._received: list[int] = []
        self._handlers: dict[int, object] = {}
        if threading.current_thread() is threading.main_thread():  # only the main thread is interrupted
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, lambda number, _: self._received.append(number))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self._received:
            raise KeyboardInterrupt


def wait_for(text: str, process: Process, timeout: float) -> bool:
    """Wait until the log of a process contains a text. Return False if it ends before, or takes too long."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if text in process.log.read_text(encoding="utf-8", errors="replace"):
            return True
        if not process.is_running:
            return False
        time.sleep(_POLL)
    return False


def run(arguments: Sequence[str], log: Path) -> list[str]:
    """Run a Python program to its end, and return the lines of its output, which also go to a log.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    command = [sys.executable, *arguments]
    lines = []
    with (
        log.open("a", encoding="utf-8") as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                file.write(line)
                lines.append(line.rstrip("\n"))
            code = process.wait()
        except KeyboardInterrupt:  # the program has received it, too, unless it was sent to this process alone
            process.terminate()
            process.wait()
            raise
    if code:
        raise subprocess.CalledProcessError(code, command, output="\n".join(lines))
    return lines
