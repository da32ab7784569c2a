"""Durations on the wire: the largest exact unit, nothing for zero, and no number that breaks a reader."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline import ArgumentError, PayloadError
from hopline.cluster.messages.service_pb2 import Health, TimeSpan
from hopline.cluster.messages.timespan import LONGEST, from_timespan, to_timespan

UNITS = [timedelta(**{unit: 1}) for unit in ("days", "hours", "minutes", "seconds", "milliseconds")]
WHOLE = st.builds(lambda unit, count: count * unit, st.sampled_from(UNITS), st.integers(-10_000, 10_000))
DURATIONS = st.one_of(st.timedeltas(-LONGEST, LONGEST), WHOLE)
I64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-1000, 1000))
I32 = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-1, 16))


@pytest.mark.parametrize(
    ("duration", "written"),
    [
        (5, "080a1003"),
        (0.5, "08e8071004"),
        (60, "08021002"),
        (timedelta(hours=1), "08021001"),
        (timedelta(days=1), "0802"),
        (timedelta(seconds=90), "08b4011003"),
        (timedelta(microseconds=1), "08141005"),
        (timedelta(seconds=-5), "08091003"),
        (LONGEST, "0802100f"),
        (-LONGEST, "0801100f"),
    ],
    ids=str,
)
def test_a_duration_is_written_in_the_largest_exact_unit(duration: timedelta | float, written: str) -> None:
    span = to_timespan(duration)
    assert span is not None
    assert span.SerializeToString().hex() == written
    assert from_timespan(span) == (duration if isinstance(duration, timedelta) else timedelta(seconds=duration))


@pytest.mark.parametrize("zero", [0, 0.0, timedelta(0)])
def test_zero_leaves_the_field_out(zero: timedelta | float) -> None:
    health = Health(uri="tcp://1:2", heart_beat_interval=to_timespan(zero))
    assert not health.HasField("heart_beat_interval")
    assert from_timespan(health.heart_beat_interval) == timedelta(0)


@given(DURATIONS)
def test_what_is_written_is_read_again(duration: timedelta) -> None:
    assert from_timespan(to_timespan(duration) or TimeSpan()) == duration


@given(DURATIONS.filter(bool))
def test_no_larger_unit_would_be_exact(duration: timedelta) -> None:
    span = to_timespan(duration)
    assert span is not None
    if span.scale not in (TimeSpan.DAYS, TimeSpan.MINMAX):
        per_larger = {1: 24, 2: 60, 3: 60, 4: 1000, 5: 10_000}[span.scale]
        assert span.value % per_larger


@pytest.mark.parametrize(
    ("value", "scale", "duration"),
    [
        (2, TimeSpan.DAYS, timedelta(days=2)),
        (48, TimeSpan.HOURS, timedelta(days=2)),
        (120, TimeSpan.MINUTES, timedelta(hours=2)),
        (3600, TimeSpan.SECONDS, timedelta(hours=1)),
        (-1000, TimeSpan.MILLISECONDS, timedelta(seconds=-1)),
        (10_000_000, TimeSpan.TICKS, timedelta(seconds=1)),
        (1, TimeSpan.TICKS, timedelta(microseconds=1)),
        (-1, TimeSpan.TICKS, timedelta(microseconds=-1)),
        (2**63 - 1, TimeSpan.TICKS, LONGEST),
        (-(2**63), TimeSpan.TICKS, -LONGEST),
        (1, TimeSpan.MINMAX, LONGEST),
        (-1, TimeSpan.MINMAX, -LONGEST),
        (0, TimeSpan.HOURS, timedelta(0)),
    ],
)
def test_every_scale_is_read(value: int, scale: int, duration: timedelta) -> None:
    assert from_timespan(TimeSpan(value=value, scale=scale)) == duration


@pytest.mark.parametrize(
    ("value", "scale"),
    [
        (1, 6),
        (0, 14),
        (1, -1),
        (0, TimeSpan.MINMAX),
        (2, TimeSpan.MINMAX),
        (10_675_200, TimeSpan.DAYS),
        (-10_675_200, TimeSpan.DAYS),
        (2**63 - 1, TimeSpan.MILLISECONDS),
        (-(2**63), TimeSpan.SECONDS),
    ],
)
def test_nonsense_is_refused(value: int, scale: int) -> None:
    with pytest.raises(PayloadError, match="not a valid TimeSpan"):
        from_timespan(TimeSpan(value=value, scale=scale))


@given(I64, I32)
def test_whatever_the_numbers_are_they_are_read_or_refused_and_what_is_read_can_be_written(
    value: int, scale: int
) -> None:
    try:
        duration = from_timespan(TimeSpan(value=value, scale=scale))
    except PayloadError:
        return
    assert from_timespan(to_timespan(duration) or TimeSpan()) == duration


@pytest.mark.parametrize(
    "duration", [float("nan"), float("inf"), 1e300, -1e300, timedelta.max, LONGEST + timedelta.resolution], ids=str
)
def test_what_is_too_long_for_the_wire_cannot_be_written(duration: timedelta | float) -> None:
    with pytest.raises(ArgumentError, match="at most 10675199 days"):
        to_timespan(duration)
