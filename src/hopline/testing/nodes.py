"""A node with a virtual clock, in one line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from hopline.actors import Actor
from hopline.node import Middleware, Network, Node, NodeSettings
from hopline.node.node import Lifespan
from hopline.observers.dead_letters import DeadLetter
from hopline.testing.clock import virtual_time
from hopline.testing.record import SentMessages


@asynccontextmanager
async def node(
    *actors: Actor,
    identity: str | bytes | None = None,
    settings: NodeSettings | None = None,
    middleware: Iterable[Middleware] = (),
    lifespan: Lifespan | None = None,
    on_dead_letter: Callable[[DeadLetter], object] | None = None,
) -> AsyncIterator[Node]:
    """Run a node in virtual time, and record what it sends for `expect`.

    As long as the node runs, the time of the running event loop is virtual: when every task waits, it jumps to the next
    timer. A handler that sleeps for an hour, a request that times out after a minute and a retry with a long pause take
    no time, and happen in the same order in every run.

    Args:
        actors: The actors of the node.
        identity: The node's identity. Default: a new one.
        settings: Capacities and timeouts, as for `hopline.Node`.
        middleware: What runs around every handler, as for `hopline.Node`.
        lifespan: What is open as long as the node runs, as for `hopline.Node`.
        on_dead_letter: Called with every message that ended badly, as for `hopline.Node`.

    Raises:
        ArgumentError: The event loop is not one of asyncio's own; see `virtual_time`.

    >>> import asyncio
    >>> from hopline import Actor, Payload, Request, handler
    >>> class Rested(Payload): ...
    >>> class Nap(Request[Rested]):
    ...     hours: int
    >>> class Sleeper(Actor):
    ...     @handler
    ...     async def sleep(self, nap: Nap) -> Rested:
    ...         await asyncio.sleep(nap.hours * 3600)
    ...         return Rested()
    >>> async def test_a_nap() -> None:
    ...     async with node(Sleeper()) as sleeping:
    ...         await sleeping.hub.ask(Nap(8), timeout=9 * 3600)
    >>> asyncio.run(test_a_nap())
    """
    with virtual_time():
        running = recorded_node(
            *actors,
            identity=identity,
            settings=settings,
            middleware=middleware,
            lifespan=lifespan,
            on_dead_letter=on_dead_letter,
        )
        async with running:
            yield running


def recorded_node(
    *actors: Actor,
    identity: str | bytes | None,
    settings: NodeSettings | None,
    middleware: Iterable[Middleware] = (),
    lifespan: Lifespan | None = None,
    on_dead_letter: Callable[[DeadLetter], object] | None = None,
    network: Network | None = None,
    record: SentMessages | None = None,
) -> Node:
    """Return a node that records what it sends, not started yet, on the clock of the running loop."""
    return Node(
        *actors,
        identity=identity,
        settings=settings,
        clock=asyncio.get_running_loop().time,
        network=network,
        middleware=middleware,
        lifespan=lifespan,
        on_dead_letter=on_dead_letter,
        observers=[SentMessages() if record is None else record],
    )
