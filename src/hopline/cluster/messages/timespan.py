"""Durations as the service messages carry them: `bcl.TimeSpan`, a number and its unit.

>>> from hopline.cluster.messages.timespan import from_timespan, to_timespan
>>> from_timespan(to_timespan(90))
datetime.timedelta(seconds=90)
"""

from __future__ import annotations

from datetime import timedelta

from hopline.cluster.messages.service_pb2 import TimeSpan
from hopline.message import TICKS_PER_MICROSECOND, ArgumentError, PayloadError, ticks

# .NET counts a duration in 64 bits of ticks. The longest one here is the same, rounded down to a microsecond.
_MOST_TICKS = 2**63 - 1
LONGEST = timedelta(microseconds=_MOST_TICKS // TICKS_PER_MICROSECOND)

_TICKS_PER_SECOND = 1_000_000 * TICKS_PER_MICROSECOND
_UNITS: dict[int, int] = {  # in the order in which the writer tries them
    TimeSpan.DAYS: 86_400 * _TICKS_PER_SECOND,
    TimeSpan.HOURS: 3_600 * _TICKS_PER_SECOND,
    TimeSpan.MINUTES: 60 * _TICKS_PER_SECOND,
    TimeSpan.SECONDS: _TICKS_PER_SECOND,
    TimeSpan.MILLISECONDS: _TICKS_PER_SECOND // 1_000,
    TimeSpan.TICKS: 1,
}


def to_timespan(duration: timedelta | float) -> TimeSpan | None:
    """Return a duration, or a number of seconds, in the largest unit that is exact; None for zero.

    A field that is None is left out, as the reference does.

    Raises:
        ArgumentError: The duration is longer than .NET can express.
    """
    try:
        span = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
    except (OverflowError, ValueError):
        span = timedelta.max
    if not -LONGEST <= span <= LONGEST:
        raise ArgumentError("duration", f"at most {LONGEST.days} days", duration)
    if not span:
        return None
    if abs(span) == LONGEST:
        sign = 1 if span > timedelta(0) else -1
        return TimeSpan(value=sign, scale=TimeSpan.MINMAX)
    count = ticks(span)
    scale = next(scale for scale, unit in _UNITS.items() if count % unit == 0)
    return TimeSpan(value=count // _UNITS[scale], scale=scale or None)


def from_timespan(span: TimeSpan) -> timedelta:
    """Return a duration that may be in any unit.

    It is rounded away from zero to a microsecond, so that the shortest interval does not become zero.

    Raises:
        PayloadError: .NET could not express the duration.
    """
    if span.scale == TimeSpan.MINMAX:
        if span.value not in (1, -1):
            raise _invalid(span, f"{span.value} on the scale of the longest")
        return LONGEST * span.value
    unit = _UNITS.get(span.scale)
    if unit is None:
        raise _invalid(span, f"no scale {span.scale}")
    count = abs(span.value) * unit
    is_negative = span.value < 0
    most = _MOST_TICKS + 1 if is_negative else _MOST_TICKS  # as in two's complement
    if count > most:
        raise _invalid(span, f"{span.value} on scale {span.scale} is beyond 64 bits")
    microseconds = -(-count // TICKS_PER_MICROSECOND)  # rounded up
    rounded = min(timedelta(microseconds=microseconds), LONGEST)
    return -rounded if is_negative else rounded


def _invalid(span: TimeSpan, problem: str) -> PayloadError:
    return PayloadError(TimeSpan, problem, span.SerializeToString())
