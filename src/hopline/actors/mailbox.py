"""A bounded queue of deliveries whose senders can wait for room."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from hopline.routing import Delivery


class Mailbox:
    """Deliveries in the order of their arrival, never more than `capacity`."""

    __slots__ = ("_waiting", "capacity", "deliveries")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.deliveries: deque[Delivery] = deque()
        self._waiting: deque[asyncio.Future[None]] | None = None  # made when somebody has to wait

    def __len__(self) -> int:
        return len(self.deliveries)

    def offer(self, delivery: Delivery) -> bool:
        """Put a delivery last, unless the mailbox is full."""
        if len(self.deliveries) >= self.capacity:
            return False
        self.deliveries.append(delivery)
        return True

    def take(self) -> Delivery:
        """Give the delivery that came first; whoever waits for room may go on."""
        delivery = self.deliveries.popleft()
        if self._waiting:
            self._wake_one()
        return delivery

    def close(self) -> list[Delivery]:
        """Empty the mailbox for good; those who wait for room may go on and find that it is gone."""
        left = list(self.deliveries)
        self.deliveries.clear()
        self.capacity = 0
        while self._waiting:
            self._wake_one()
        return left

    async def room(self) -> None:
        """Wait until something was taken out. There may be no room again by then: offer, and ask again."""
        if len(self.deliveries) < self.capacity:
            return
        if self._waiting is None:
            self._waiting = deque()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # it may have been passed over already
                    self._waiting.remove(turn)
            else:  # the turn was given to one who is gone: pass it on
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
