"""How much memory this process and everything that it started ever used at once: the JVM and Spark's Python workers."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PERIOD = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")


class PeakMemory:
    """Watches while it is entered. `jvm`, `python` and `together` are in bytes."""

    def __init__(self) -> None:
        self.jvm = self.python = self.together = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(PERIOD):
            jvm = python = 0
            for process in _descendants(os.getpid()):
                with suppress(OSError, ValueError, IndexError):
                    size = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
                    if Path(f"/proc/{process}/comm").read_text().strip() == "java":
                        jvm += size
                    else:
                        python += size
            self.jvm, self.python = max(self.jvm, jvm), max(self.python, python)
            self.together = max(self.together, jvm + python)


def _descendants(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], parents.get(root, [])
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += parents.get(process, [])
    return found
