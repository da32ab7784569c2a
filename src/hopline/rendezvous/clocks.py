"""The two clocks of a rendezvous server, in ticks of 100 ns."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

_UNIX_EPOCH = 621_355_968_000_000_000  # 1970-01-01 in ticks since the year 1, as .NET counts


def utc_ticks() -> int:
    """Return the wall clock in UTC ticks since the year 1, as leases use it."""
    return time.time_ns() // 100 + _UNIX_EPOCH


def monotonic_ticks() -> int:
    """Return a clock that never goes back."""
    return time.monotonic_ns() // 100


class Clocks(msgspec.Struct, frozen=True):
    """The clocks of a server. Leases use `utc`; everything else uses `monotonic`."""

    utc: Callable[[], int] = utc_ticks  # within `clock_drift` of the other servers' clocks
    monotonic: Callable[[], int] = monotonic_ticks
