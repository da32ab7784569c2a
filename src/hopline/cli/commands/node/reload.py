"""``hopline node --reload``: run the node in a child process, and start it anew when its source files change.

Theory of operation. A module cannot be imported twice in earnest, so each version of the application gets a process of
its own. This one imports nothing of it: it compares the modification times of the files below the current directory a
few times a second, which takes a millisecond for a project and needs no library, and it passes signals on. The child is
in a process group of its own, so that Ctrl-C in a terminal reaches it once, through this process. So does the end of
the terminal: nothing else would end the child then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hopline.cli.terminal import write_wrapped

PERIOD = 0.3  # seconds between two looks at the files
STOP_TIME = 10.0  # seconds for the child to stop in order before it is killed
SIGNALLED = 128  # plus the number of the signal that ended a process, as a shell has it
_WATCHED = {".py", ".toml"}
_ENVIRONMENT = "pyvenv.cfg"  # marks the directory of a virtual environment

Times = dict[Path, int]


def run_reloading(arguments: list[str], directory: Path) -> int:
    """Run ``hopline`` with some arguments until Ctrl-C, anew after every change. Return its last exit code."""
    stopping = _StopSignals()
    times = modification_times(directory)
    write_wrapped(f"watching {len(times)} files below {directory}; Ctrl-C stops")
    while True:
        child = _start(arguments)
        changed = _next_change(child, times, directory, stopping)
        code = _stop(child, stopping)
        if not changed or stopping.count:
            return code if code >= 0 else SIGNALLED - code
        write_wrapped(f"reloading: {_described(changed, directory)}")
        times = modification_times(directory)


def modification_times(directory: Path) -> Times:
    """Return when each source file below a directory was changed, without hidden and virtual environments' folders."""
    return {path: time for path in _source_files(directory) if (time := _modified_at(path)) is not None}


def changes(before: Times, after: Times) -> list[Path]:
    """Return the files that were changed, added or removed."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _source_files(directory: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        if _ENVIRONMENT in files:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        yield from (path for name in files if (path := Path(folder, name)).suffix in _WATCHED)


def _modified_at(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # removed meanwhile, or a dangling link
        return None


class _StopSignals:
    """Counts the signals that end this process, and ends the child."""

    def __init__(self) -> None:
        self.count = 0
        self.child: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._receive)

    def _receive(self, *_: object) -> None:
        self.count += 1
        if self.child is not None:
            self.child.terminate()


def _start(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "hopline", *arguments], process_group=0)  # noqa: S603 - ourselves


def _next_change(child: subprocess.Popen[bytes], times: Times, directory: Path, stopping: _StopSignals) -> list[Path]:
    """Wait for a change, and return what was changed; nothing if a signal came first."""
    stopping.child = child
    if stopping.count:  # a signal came before there was a child
        child.terminate()
    has_ended = False
    while not stopping.count:
        time.sleep(PERIOD)
        if changed := changes(times, modification_times(directory)):
            return changed
        if not has_ended and child.poll() is not None:
            has_ended = True
            write_wrapped(f"the node ended with exit code {child.returncode}; waiting for a change")
    return []


def _stop(child: subprocess.Popen[bytes], stopping: _StopSignals) -> int:
    """Wait until the child has stopped, and return its exit code. Kill it if it takes too long."""
    if not stopping.count:
        child.terminate()
    try:
        return child.wait(STOP_TIME)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _described(changed: list[Path], directory: Path) -> str:
    first, *others = (path.relative_to(directory) for path in changed)
    more = f" and {len(others)} more" if others else ""
    return f"{first}{more} changed"
