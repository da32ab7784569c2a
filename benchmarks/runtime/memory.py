"""What an actor takes while it has nothing to do."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import resource
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol


class Start(Protocol):
    """A function at the top of a module that starts so many actors."""

    __name__: str

    def __call__(self, actors: int, /) -> AbstractAsyncContextManager[object]:
        """Start them."""


STATM = Path("/proc/self/statm")
SETTLE = 0.5  # seconds for threads and tasks to reach the place where they wait


def bytes_each(start: Start, actors: int) -> float:
    """Measure in a process of its own, where no memory lies about that earlier actors gave back."""
    command = [sys.executable, "-m", __name__, start.__module__, start.__name__, str(actors)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)  # noqa: S603 - this very module


async def _growth(start: Start, actors: int) -> int:
    async with start(1):  # what is paid once is paid here
        await asyncio.sleep(0)
    gc.collect()
    before = resident()
    async with start(actors):
        await asyncio.sleep(SETTLE)
        gc.collect()
        return resident() - before


def resident() -> int:
    """Give the bytes of this process that are in memory; where /proc is missing, the most that there ever were."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


if __name__ == "__main__":
    module, name, count = sys.argv[1:]
    print(asyncio.run(_growth(getattr(importlib.import_module(module), name), int(count))) / int(count))
