"""What an actor takes while it has nothing to do."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager
from multiprocessing import get_context
from pathlib import Path

Start = Callable[[int], AbstractAsyncContextManager[object]]

STATM = Path("/proc/self/statm")
SETTLE = 0.5  # seconds for threads and tasks to reach the place where they wait


def bytes_each(start: Start, actors: int) -> float:
    """Measure in a process of its own, where no memory lies about that earlier actors gave back."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(_measure, start, actors).result()


def _measure(start: Start, actors: int) -> float:
    return asyncio.run(_growth(start, actors)) / actors


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
