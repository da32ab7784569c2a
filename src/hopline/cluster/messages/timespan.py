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
    span = _as_timedelta(duration)
    length = abs(span)
    if length > LONGEST:
        raise ArgumentError("duration", f"at most {LONGEST.days} days", duration)
    if not span:
        return None
    if length == LONGEST:
        sign = 1 if span == length else -1
        return TimeSpan(value=sign, scale=TimeSpan.MINMAX)
    count = ticks(span)
    exact_scales = (scale for scale, unit in _UNITS.items() if count % unit == 0)
    scale = next(exact_scales)
    return TimeSpan(
        value=count // _UNITS[scale],
        scale=scale or None,
    )


def _as_timedelta(duration: timedelta | float) -> timedelta:
    """Return a duration or a number of seconds as a `timedelta`: the longest one if it is beyond that."""
    if isinstance(duration, timedelta):
        return duration
    try:
        return timedelta(seconds=duration)
    except (OverflowError, ValueError):
        return timedelta.max


def from_timespan(span: TimeSpan) -> timedelta:
    """Return a duration that may be in any unit.

    It is rounded away from zero to a microsecond, so that the shortest interval does not become zero.

    Raises:
        PayloadError: .NET could not express the duration.
    """
    value = span.value
    if span.scale == TimeSpan.MINMAX:
        if value not in (1, -1):
            raise _invalid(span, f"{value} on the scale of the longest")
        return LONGEST * value
    unit = _UNITS.get(span.scale)
    if unit is None:
        raise _invalid(span, f"no scale {span.scale}")
    count = abs(value) * unit
    is_negative = value < 0
    most = _MOST_TICKS + 1 if is_negative else _MOST_TICKS  # as in two's complement
    if count > most:
        raise _invalid(span, f"{value} on scale {span.scale} is beyond 64 bits")
    microseconds = -(-count // TICKS_PER_MICROSECOND)  # rounded up
    rounded = timedelta(microseconds=microseconds)
    length = min(rounded, LONGEST)
    return -length if is_negative else length


def _invalid(span: TimeSpan, problem: str) -> PayloadError:
    return PayloadError(TimeSpan, problem, span.SerializeToString())
