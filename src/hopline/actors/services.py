"""What every host of a node shares."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from contextvars import Context
from dataclasses import dataclass
from typing import Protocol

from hopline.actors.context import HandlerContext
from hopline.routing import Delivery, Exchange


class HandlerSpan(Protocol):
    """The telemetry of one handling, current while the handler starts."""

    def detach(self) -> None:
        """Make it current no longer; what the handler started goes on under it."""
        ...

    def end(self, error: BaseException | None) -> None:
        """Say that the handler ended, and how."""
        ...


class Telemetry(Protocol):
    """Who wants to know of every handling."""

    def begin(self, delivery: Delivery, handler: str) -> HandlerSpan:
        """Say that a handler begins, and make its span current."""
        ...


@dataclass(slots=True)
class Services:
    """The node as its actor hosts see it."""

    exchange: Exchange
    loop: asyncio.AbstractEventLoop
    threads: Executor
    base_context: Context  # handlers run in this, not in the context of whoever sent the message
    context_type: type[HandlerContext]
    concurrency: int
    mailbox_capacity: int
    tell_stacks: bool = False
    slow_handler: float = 0.5  # seconds that a plain function may hold the loop before the log says so
    telemetry: Telemetry | None = None
