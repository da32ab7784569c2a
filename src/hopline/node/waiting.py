"""Where messages of this node wait for room at their receivers, each kind in the order of its coming."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from hopline.message import MessageIdentifier
from hopline.routing import Delivery, Outcome

Destination: TypeAlias = bytes | MessageIdentifier
Ended: TypeAlias = tuple[Outcome, str]
Nodes: TypeAlias = frozenset[bytes]


def destination(delivery: Delivery) -> Destination:
    """Tell what a message waits for: its receiver, or anyone who handles it."""
    return delivery.message.receiver_identity or delivery.message.identifier


class WaitingRoom:
    """Queues of deliveries by their destination, with a task for each that sees them off as room is made."""

    def __init__(
        self,
        capacity: int,
        wait: Callable[[Delivery, Nodes], Awaitable[Ended | None]],
        end: Callable[[Delivery, Outcome, str], None],
        changed: Callable[[], None],
    ) -> None:
        self._capacity = capacity
        self._wait = wait  # for room, and hand over: gives how it ended if that never came
        self._end = end
        self._changed = changed
        self._queues: dict[Destination, deque[tuple[Delivery, Nodes]]] = {}
        self._tasks: dict[Destination, asyncio.Task[None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, where: Destination) -> bool:
        return where in self._queues

    def add(self, where: Destination, delivery: Delivery, unreachable: Nodes) -> bool:
        """Let a delivery wait behind those that came before it, unless too many wait already."""
        if self._count >= self._capacity:
            return False
        self._count += 1
        queue = self._queues.get(where)
        if queue is None:
            queue = self._queues[where] = deque()
            self._tasks[where] = asyncio.get_running_loop().create_task(self._see_off(where, queue))
        queue.append((delivery, unreachable))
        return True

    async def _see_off(self, where: Destination, queue: deque[tuple[Delivery, Nodes]]) -> None:
        while queue:
            delivery, unreachable = queue[0]
            ended = await self._wait(delivery, unreachable)
            queue.popleft()
            self._count -= 1
            if not queue:
                self._forget(where)
            if ended is not None:
                self._end(delivery, *ended)
            self._changed()

    def _forget(self, where: Destination) -> None:
        del self._queues[where], self._tasks[where]

    async def close(self, reason: str) -> int:
        """Fail whatever waits, and tell how much that was."""
        tasks, left = list(self._tasks.values()), [one for queue in self._queues.values() for one, _ in queue]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._queues.clear()
        self._tasks.clear()
        self._count = 0
        for delivery in left:
            self._end(delivery, Outcome.FAILED, reason)
        return len(left)
