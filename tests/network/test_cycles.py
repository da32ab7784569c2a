"""Starting and stopping, again and again, leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from hopline import Network, Node, RendezvousServer, RendezvousSettings
from tests.network.ours import Ehhlo, Hello, Reversing
from tests.node.running import on_loop, until

CYCLES = 60


def held() -> tuple[int, int, int]:
    """Count the file descriptors, threads and tasks of this process."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count(), len(asyncio.all_tasks())


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
    await until(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))
