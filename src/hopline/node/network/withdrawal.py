"""How a node that stops waits for the work that is still on its way to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from hopline.cluster import Membership

_UNDER_WAY = 0.1  # seconds for the first message of a node that has sent none before and has not heard that we stop
_BARRIER_TIMEOUT = 3.0  # seconds within which the nodes that sent work must have heard that we stop
_ASK_INTERVAL = 0.6  # seconds between questions; a node that answered within half a second does not answer again
_POLL_INTERVAL = 0.005


async def withdrawn(membership: Membership, callers: Iterable[bytes], is_joined: Callable[[], bool]) -> None:
    """Wait until other nodes have heard that this one takes no more work, and what they sent before has come.

    Args:
        membership: The membership, which has announced the withdrawal.
        callers: Nodes that sent work for actors here.
        is_joined: Returns whether a rendezvous server is heard; without one there is nothing to wait for.
    """
    if membership.is_withdrawn or not membership.health:
        return
    while is_joined() and not membership.is_withdrawn:  # noqa: ASYNC110 - the membership has no event for it
        await asyncio.sleep(_POLL_INTERVAL)
    await _wait_for_callers(membership, callers, is_joined)
    await asyncio.sleep(_UNDER_WAY)


async def _wait_for_callers(membership: Membership, callers: Iterable[bytes], is_joined: Callable[[], bool]) -> None:
    """Wait until everything has come that callers sent before they heard of the withdrawal. See `DrainBarrier`."""
    loop = asyncio.get_running_loop()
    barrier = membership.drain_barrier
    barrier.begin(node for node in callers if node in membership.health)
    deadline = loop.time() + _BARRIER_TIMEOUT
    ask_at = 0.0
    while is_joined() and not barrier.is_complete:
        now = loop.time()
        if now >= deadline:
            return
        if now >= ask_at:
            membership.request_routes()
            ask_at = now + _ASK_INTERVAL
        await asyncio.sleep(_POLL_INTERVAL)
