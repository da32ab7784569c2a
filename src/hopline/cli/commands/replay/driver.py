"""Sending recorded requests at the times of the recording, and counting their results."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hopline.client import MessageHub
from hopline.message import Distribution, HoplineError

if TYPE_CHECKING:
    from hopline.capture.replay import Request

_PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
_MILLISECONDS = 1_000.0


@dataclass
class ReplayResults:
    """The results of the requests so far."""

    sent: int = 0
    accepted: int = 0  # requests that expect no answer
    errors: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)  # seconds, of answered requests
    seconds: float = 0.0
    late: float = 0.0  # seconds that sending fell behind the recording, at most

    @property
    def answered(self) -> int:
        """Return the number of requests that were answered."""
        return len(self.latencies)

    @property
    def failed(self) -> int:
        """Return the number of requests that failed or timed out."""
        return self.errors.total()

    @property
    def open(self) -> int:
        """Return the number of requests that have no result yet."""
        return self.sent - self.answered - self.accepted - self.failed

    def document(self, planned: int) -> dict[str, Any]:
        """Return the results as a document for ``--json``."""
        rate = self.sent / self.seconds if self.seconds else 0.0
        return {
            "requests": planned,
            "sent": self.sent,
            "answered": self.answered,
            "accepted": self.accepted,
            "failed": self.failed,
            "open": self.open,
            "errors": dict(self.errors.most_common()),
            "seconds": round(self.seconds, 6),
            "rate": round(rate, 3),
            "late_seconds": round(self.late, 6),
            "latency_ms": quantiles(self.latencies),
        }


def quantiles(latencies: Sequence[float]) -> dict[str, float]:
    """Return percentiles in milliseconds, by nearest rank: the smallest value that at least that share reaches."""
    ordered = sorted(latencies)
    if not ordered:
        return {}
    ranks = {name: math.ceil(share * len(ordered)) for name, share in _PERCENTILES.items()}
    seconds = {name: ordered[max(0, rank - 1)] for name, rank in ranks.items()}
    seconds["max"] = ordered[-1]
    return {name: round(value * _MILLISECONDS, 3) for name, value in seconds.items()}


async def drive(
    hub: MessageHub,
    requests: Sequence[Request],
    results: ReplayResults,
    *,
    speed: float | None,
    in_flight: int,
    timeout: float | None,
) -> None:
    """Send requests at the times of the recording, and count their results.

    Args:
        hub: Sends them.
        requests: In the order of their times; at least one.
        results: Updated with every result.
        speed: How many times as fast as recorded; None sends without pauses.
        in_flight: Requests that may be without a result at the same time.
        timeout: Seconds to wait for an answer; None for the lifetime of each message.
    """
    loop = asyncio.get_running_loop()
    free_slots = asyncio.Semaphore(in_flight)
    started, first = loop.time(), requests[0].ts
    try:
        async with asyncio.TaskGroup() as group:
            for request in requests:
                due = None if speed is None else started + (request.ts - first) / 1e6 / speed
                if due is not None and due > loop.time():
                    await asyncio.sleep(due - loop.time())
                await free_slots.acquire()
                if due is not None:
                    results.late = max(results.late, loop.time() - due)
                results.sent += 1
                group.create_task(_send_one(hub, request, results, free_slots, timeout))
    finally:
        results.seconds = loop.time() - started


async def _send_one(
    hub: MessageHub, request: Request, results: ReplayResults, free_slots: asyncio.Semaphore, timeout: float | None
) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    try:
        if await _send(hub, request, timeout):
            results.latencies.append(loop.time() - started)
        else:
            results.accepted += 1
    except HoplineError as error:
        results.errors[f"{type(error).__name__}: {error}"] += 1
    finally:
        free_slots.release()


async def _send(hub: MessageHub, request: Request, timeout: float | None) -> bool:
    """Send a request as its first sender did; return whether it expected an answer and got one."""
    message, callbacks = request.anew(), request.callbacks
    if message.distribution == Distribution.BROADCAST:
        if not callbacks:
            await hub.broadcast(message)
            return False
        async with hub.stream(message, callback=callbacks, timeout=timeout) as answers:
            async for _ in answers:
                return True
        return False
    if callbacks:
        await hub.send(message, callback=list(callbacks), timeout=timeout)
        return True
    if request.wants_receipt:
        await hub.send(message, timeout=timeout)
        return True
    await hub.send_one_way(message)
    return False
