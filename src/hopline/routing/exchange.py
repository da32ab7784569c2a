"""What the parts of a node hand to one another: deliveries, through ports, over the exchange that routes them."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hopline.message import Message
from hopline.routing.outcome import Outcome

NO_DEADLINE = float("inf")


class Delivery(msgspec.Struct, frozen=True):
    """A message on this node: since when, until when, and what its sender's telemetry noted of it."""

    message: Message
    since: float
    deadline: float = NO_DEADLINE
    origin: object = None


class Port(Protocol):
    """Where a local receiver takes its messages."""

    identity: bytes
    name: str
    capacity: int

    def offer(self, delivery: Delivery) -> bool:
        """Take a delivery, or say that there is no room."""
        ...

    async def room(self) -> None:
        """Wait until there may be room."""
        ...


class Exchange(Protocol):
    """What hubs and actor hosts need of their node."""

    def clock(self) -> float:
        """Tell the node's time in seconds; it never goes back."""
        ...

    def try_submit(self, message: Message) -> bool:
        """Take a message for routing unless its receiver has no room now, in which case nothing happened."""
        ...

    async def submit(self, message: Message) -> None:
        """Take a message for routing; wait for room, for a bounded time."""
        ...

    def settle(self, delivery: Delivery, outcome: Outcome, *, receiver: bytes = b"", reason: str = "") -> None:
        """Note what became of a delivery, and tell its sender when it ended badly."""
        ...
