"""Tests on an event loop: started with `on_loop`, waiting for conditions and never for a while."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from hopline import Actor, Message, Node

P = ParamSpec("P")
Got = TypeVar("Got")

LONGEST = 60.0  # seconds that any test may take, on a machine that has much else to do


def on_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on a loop of its own, in asyncio's debug mode."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), LONGEST), debug=True)

    return run


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, and fail if it does not come true."""
    deadline = time.monotonic() + LONGEST / 2
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.001)


async def turns(count: int) -> None:
    """Let the loop turn so many times, for what must not happen meanwhile."""
    for _ in range(count):
        await asyncio.sleep(0)


async def soon(awaitable: Awaitable[Got]) -> Got:
    """Wait for something that is due at once."""
    return await asyncio.wait_for(awaitable, LONGEST / 3)


class Clock:
    """A node's time that goes on only when told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def started(*actors: Actor, **settings: Any) -> AsyncIterator[Node]:
    """Start a node, stop it, and check that every message on it had exactly one outcome."""
    async with Node(*actors, **settings) as node:
        yield node
        assert node.stats().is_balanced, node.stats()
    assert node.stats().is_balanced, node.stats()
    assert node.stats().waiting == 0


def in_vain(message: Message) -> None:
    """Look for a route, as `discover` of a node, and find none."""
