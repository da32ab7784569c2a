"""Starting and stopping, again and again, leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

from hopline import Network, Node, RendezvousServer, RendezvousSettings
from tests.network.ours import Ehhlo, Hello, Reversing
from tests.node.running import on_loop

CYCLES = 60
LONGEST = 20.0


def held() -> dict[str, int]:
    """Count the file descriptors, threads and tasks of this process, but for the threads that asyncio keeps itself."""
    own_threads = [thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")]
    return {
        "file descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": len(own_threads),
        "tasks": len(asyncio.all_tasks()),
    }


async def cycle() -> None:
    """Start a server and two nodes, let one ask the other, and stop them all."""
    async with RendezvousServer(RendezvousSettings(address="tcp://127.0.0.1:0")) as server:
        network = Network(rendezvous=[server.address])
        async with Node(Reversing(), network=network), Node(network=network) as node:
            assert await node.hub.send(Hello(b"\n\x02ab"), callback=Ehhlo, timeout=30) == b"\n\x02ba"


@on_loop
async def test_sixty_cycles_leave_no_descriptor_no_thread_and_no_task() -> None:
    await cycle()
    before = held()
    for _ in range(CYCLES):
        await cycle()
    deadline = time.monotonic() + LONGEST
    while more := {name: count for name, count in held().items() if count > before[name]}:
        assert time.monotonic() < deadline, f"after {CYCLES} cycles there are {more}, where there were {before}"
        await asyncio.sleep(0.01)
