"""A node with a virtual clock, in one line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hopline.actors import Actor
from hopline.node import Network, Node, NodeSettings
from hopline.testing.clock import virtual_time
from hopline.testing.record import SentMessages


@asynccontextmanager
async def node(
    *actors: Actor,
    identity: bytes | None = None,
    settings: NodeSettings | None = None,
) -> AsyncIterator[Node]:
    """Run a node in virtual time, and record what it sends for `expect`.

    As long as the node runs, the time of the running event loop is virtual: when every task waits, it jumps to the next
    timer. A handler that sleeps for an hour, a request that times out after a minute and a retry with a long pause take
    no time, and happen in the same order in every run.

    Args:
        actors: The actors of the node.
        identity: The node's identity. Default: a new one.
        settings: Capacities and timeouts, as for `hopline.Node`.

    Raises:
        ArgumentError: The event loop is not one of asyncio's own; see `virtual_time`.

    >>> import asyncio
    >>> from hopline import Actor, Payload, handler
    >>> class Nap(Payload):
    ...     hours: int
    >>> class Rested(Payload): ...
    >>> class Sleeper(Actor):
    ...     @handler
    ...     async def sleep(self, nap: Nap) -> Rested:
    ...         await asyncio.sleep(nap.hours * 3600)
    ...         return Rested()
    >>> async def test_a_nap() -> None:
    ...     async with node(Sleeper()) as sleeping:
    ...         await sleeping.hub.send(Nap(8), callback=Rested, timeout=9 * 3600)
    >>> asyncio.run(test_a_nap())
    """
    with virtual_time():
        async with recorded_node(*actors, identity=identity, settings=settings) as running:
            yield running


def recorded_node(
    *actors: Actor,
    identity: bytes | None = None,
    settings: NodeSettings | None = None,
    network: Network | None = None,
    record: SentMessages | None = None,
) -> Node:
    """Return a node that records what it sends, not started yet, on the clock of the running loop."""
    record = SentMessages() if record is None else record
    clock = asyncio.get_running_loop().time
    return Node(*actors, identity=identity, settings=settings, clock=clock, network=network, observers=[record])
