"""The queues of what waits for room: a chance to hand something over is never missed."""

from __future__ import annotations

import asyncio

from hopline import Message
from hopline.client import Deadlines
from hopline.node.routing.backpressure_queue import BackpressureQueue, QueuedDelivery
from hopline.routing import delivery_of

from .running import on_loop

NOBODY: frozenset[bytes] = frozenset()


@on_loop
async def test_room_that_comes_while_the_only_one_is_handed_over_is_not_missed() -> None:
    tries: list[QueuedDelivery] = []

    def hand_over(queued: QueuedDelivery) -> bool:
        tries.append(queued)
        assert not queue.is_empty
        if len(tries) == 1:
            queue.serve_all()  # room comes after the first refusal, before the queued is back in its queue
            return False
        return True

    loop = asyncio.get_running_loop()
    deadlines = Deadlines(loop, loop.time)
    queue = BackpressureQueue(deadlines, hand_over, lambda _: None, lambda _: None)
    delivery = delivery_of(Message(b"HELLO"), loop.time())
    queued = queue.add(delivery.identifier, delivery, loop.time() + 60, NOBODY, submitted=False)
    queue.serve_all()
    assert tries == [queued, queued]
    assert queue.is_empty
    deadlines.close()
