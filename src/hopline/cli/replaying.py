"""Requests driven into a network at a pace, and what became of them."""

from __future__ import annotations

import asyncio
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
class Outcomes:
    """What became of the requests so far."""

    sent: int = 0
    taken: int = 0  # that wanted no answer
    errors: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)  # seconds, of those that were answered
    seconds: float = 0.0
    late: float = 0.0  # the most that it fell behind

    @property
    def answered(self) -> int:
        """How many got the answer that they wanted."""
        return len(self.latencies)

    @property
    def failed(self) -> int:
        """How many got none, or an error."""
        return self.errors.total()

    @property
    def open(self) -> int:
        """How many still wait."""
        return self.sent - self.answered - self.taken - self.failed

    def document(self, planned: int) -> dict[str, Any]:
        """Sum it up for machines."""
        return {
            "requests": planned,
            "sent": self.sent,
            "answered": self.answered,
            "taken": self.taken,
            "failed": self.failed,
            "open": self.open,
            "errors": dict(self.errors.most_common()),
            "seconds": round(self.seconds, 6),
            "rate": round(self.sent / self.seconds, 3) if self.seconds else 0.0,
            "late_seconds": round(self.late, 6),
            "latency_ms": quantiles(self.latencies),
        }


def quantiles(latencies: Sequence[float]) -> dict[str, float]:
    """Give percentiles in milliseconds: the smallest value such that at least that share is not above it."""
    ordered = sorted(latencies)
    if not ordered:
        return {}
    found = {name: ordered[max(0, -int(-share * len(ordered) // 1) - 1)] for name, share in _PERCENTILES.items()}
    return {name: round(value * _MILLISECONDS, 3) for name, value in {**found, "max": ordered[-1]}.items()}


async def drive(
    hub: MessageHub,
    requests: Sequence[Request],
    outcomes: Outcomes,
    *,
    factor: float | None,
    in_flight: int,
    timeout: float | None,
) -> None:
    """Send requests, each when its time has come, and note what becomes of them. At most so many wait at once."""
    loop = asyncio.get_running_loop()
    room = asyncio.Semaphore(in_flight)
    began, first = loop.time(), requests[0].ts
    try:
        async with asyncio.TaskGroup() as group:
            for request in requests:
                if factor is not None:
                    due = began + (request.ts - first) / 1e6 / factor
                    if (wait := due - loop.time()) > 0:
                        await asyncio.sleep(wait)
                await room.acquire()
                if factor is not None:
                    outcomes.late = max(outcomes.late, loop.time() - due)
                outcomes.sent += 1
                group.create_task(_one(hub, request, outcomes, room, timeout))
    finally:
        outcomes.seconds = loop.time() - began


async def _one(
    hub: MessageHub, request: Request, outcomes: Outcomes, room: asyncio.Semaphore, timeout: float | None
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        if await _send(hub, request, timeout):
            outcomes.latencies.append(loop.time() - began)
        else:
            outcomes.taken += 1
    except HoplineError as error:
        outcomes.errors[f"{type(error).__name__}: {error}"] += 1
    finally:
        room.release()


async def _send(hub: MessageHub, request: Request, timeout: float | None) -> bool:
    """Send a request as it was sent before, and tell whether an answer was waited for, and came."""
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
