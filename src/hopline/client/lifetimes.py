"""How long callers wait and messages live: seconds on this side, ticks on the wire. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hopline.message import ArgumentError
from hopline.routing import NO_DEADLINE, TICKS_PER_SECOND

_LONGEST_LIFETIME = (1 << 63) - 1
_LONGEST_WAIT = 1e9  # seconds; longer timeouts count as unlimited


def seconds_of(timeout: float | timedelta) -> float:
    """Return a timeout in seconds, or raise `ArgumentError` if it is none."""
    seconds: Any = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not (isinstance(seconds, (int, float)) and seconds >= 0):
        raise ArgumentError("timeout", "seconds, not below zero", timeout)
    return float(seconds) if seconds <= _LONGEST_WAIT else NO_DEADLINE


def ticks_of(seconds: float) -> int:
    """Return a lifetime in the wire's unit; zero is no limit."""
    return 0 if seconds == NO_DEADLINE else max(1, min(int(seconds * TICKS_PER_SECOND), _LONGEST_LIFETIME))
