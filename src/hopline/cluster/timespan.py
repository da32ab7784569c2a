"""Durations as the service messages carry them: `bcl.TimeSpan`, a number and its unit.

>>> from hopline.cluster.timespan import from_timespan, to_timespan
>>> from_timespan(to_timespan(90))
datetime.timedelta(seconds=90)
"""

from __future__ import annotations

from datetime import timedelta

from hopline.cluster.service_pb2 import TimeSpan
from hopline.message import TICKS_PER_MICROSECOND, LocalError, PayloadError, ticks

# .NET counts a duration in 64 bits of ticks. What is longest there is longest here, to the microsecond below.
_MOST_TICKS = 2**63 - 1
LONGEST = timedelta(microseconds=_MOST_TICKS // TICKS_PER_MICROSECOND)

_TICKS_PER_SECOND = 1_000_000 * TICKS_PER_MICROSECOND
_UNITS: dict[int, int] = {  # the largest first, as the writer tries them
    TimeSpan.DAYS: 86_400 * _TICKS_PER_SECOND,
    TimeSpan.HOURS: 3_600 * _TICKS_PER_SECOND,
    TimeSpan.MINUTES: 60 * _TICKS_PER_SECOND,
    TimeSpan.SECONDS: _TICKS_PER_SECOND,
    TimeSpan.MILLISECONDS: _TICKS_PER_SECOND // 1_000,
    TimeSpan.TICKS: 1,
}


def to_timespan(duration: timedelta | float) -> TimeSpan | None:
    """Write a duration, or seconds, in the largest unit that is exact; None for zero, which leaves its field out."""
    try:
        span = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
    except (OverflowError, ValueError):
        span = timedelta.max
    if not -LONGEST <= span <= LONGEST:
        raise LocalError("duration", f"at most {LONGEST.days} days", duration)
    if not span:
        return None
    if abs(span) == LONGEST:
        return TimeSpan(value=1 if span > timedelta(0) else -1, scale=TimeSpan.MINMAX)
    count = ticks(span)
    scale = next(scale for scale, unit in _UNITS.items() if count % unit == 0)
    return TimeSpan(value=count // _UNITS[scale], scale=scale or None)


def from_timespan(span: TimeSpan) -> timedelta:
    """Read a duration in whatever unit it comes; raise `PayloadError` for one that .NET could not hold.

    It is rounded away from zero to a microsecond, so that the shortest interval is not taken for none.
    """
    if span.scale == TimeSpan.MINMAX:
        if span.value not in (1, -1):
            raise _nonsense(span, f"{span.value} on the scale of the longest")
        return LONGEST * span.value
    unit = _UNITS.get(span.scale)
    if unit is None:
        raise _nonsense(span, f"no scale {span.scale}")
    count = abs(span.value) * unit
    if count > _MOST_TICKS + (span.value < 0):
        raise _nonsense(span, f"{span.value} on scale {span.scale} is beyond 64 bits")
    rounded = min(timedelta(microseconds=-(-count // TICKS_PER_MICROSECOND)), LONGEST)
    return -rounded if span.value < 0 else rounded


def _nonsense(span: TimeSpan, problem: str) -> PayloadError:
    return PayloadError(TimeSpan, problem, span.SerializeToString())
