"""What the actor hosts of a node share."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from contextvars import Context
from dataclasses import dataclass

from hopline.actors.context import HandlerContext
from hopline.routing import Exchange


@dataclass(slots=True)
class ActorRuntime:
    """The node as its actor hosts use it."""

    exchange: Exchange
    loop: asyncio.AbstractEventLoop
    threads: Executor  # for blocking handlers
    base_context: Context  # handlers run in copies of this, not in the context of the sender
    context_type: type[HandlerContext]
    concurrency: int
    mailbox_capacity: int
    include_tracebacks: bool = False
    slow_handler: float = 0.5  # seconds that a plain function may hold the event loop before a warning is logged
