"""What addresses may say."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hopline.explorer.parameters import (
    Conditions,
    ParameterError,
    Parameters,
    Span,
    read_duration,
    read_time,
    time_text,
)
from hopline.explorer.presentation import cell, share, short_flow_id, short_name, words
from hopline.explorer.questions.overview import MOST_BUCKETS, bucket_length_us
from tests.explorer.planted import utc
from tests.query.written import NOON


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("250", 250_000), ("250ms", 250_000), ("1.5s", 1_500_000), ("800us", 800), ("2 min", 120_000_000), ("1h", 3.6e9)],
)
def test_a_duration_is_read_with_its_unit(text: str, microseconds: int) -> None:
    assert read_duration(text) == microseconds


@pytest.mark.parametrize("text", ["", "x", "-5", "1e9", "5 parsecs", "1" * 40 + "x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="no duration"):
        read_duration(text)


def test_a_duration_beyond_all_bounds_is_the_largest() -> None:
    assert read_duration("9" * 40 + "h") == 2**63 - 1


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", "2026-01-31T00:00:00"),
        ("2026-01-31 10:05", "2026-01-31T10:05:00"),
        ("2026-01-31T10:05:06.5", "2026-01-31T10:05:06.5"),
        ("2026-01-31T10:05:00+02:00", "2026-01-31T08:05:00"),
        ("2026-01-31T10:05:00Z", "2026-01-31T10:05:00"),
    ],
)
def test_a_time_is_utc_unless_it_says_otherwise(text: str, moment: str) -> None:
    assert read_time(text) == utc(moment)
    assert read_time(time_text(read_time(text))) == utc(moment), "what a link says is read back"


def test_the_last_day_of_a_range_is_part_of_it() -> None:
    span = Parameters({"from": "2026-01-30", "to": "2026-01-31"}).span()
    assert span == Span(utc("2026-01-30"), utc("2026-02-01"))
    assert Parameters({}).span().is_open
    assert Span(NOON, NOON + timedelta(minutes=1)).seconds == 60


def test_values_never_become_part_of_the_sql() -> None:
    conditions = Conditions().add("identity = ?", "'; drop table flows").within(Span(NOON, None), "ts")
    assert "drop" not in conditions.sql
    assert conditions.values[0] == "'; drop table flows"
    assert Conditions().sql == "true"


@pytest.mark.parametrize("seconds", [0, 0.5, 59, 600, 3_600, 86_400, 40 * 86_400, 10**10])
def test_a_chart_never_has_too_many_bars(seconds: float) -> None:
    length = (
        bucket_length_us(NOON, NOON + timedelta(seconds=seconds)) if seconds < 10**9 else bucket_length_us(None, None)
    )
    assert length > 0
    assert min(seconds, 10**9) * 1_000_000 / length <= MOST_BUCKETS or seconds >= 10**9


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (None, "x", ""),
        (True, "lost", "yes"),
        (1_500, "run_p99_us", "1.5 ms"),
        (1_234_567, "count", "1,234,567"),
        (-17, "message_id", "-17"),
        (b"\x01\xff", "signature", "01ff"),
        ("\x01actor", "receiver", "actor"),
        ("a\nb\u202e", "reason", "a\\nb\\u202e"),
        ([{"identity": "A", "version": "1"}] * 6, "callbacks", "A 1, A 1, A 1, A 1, … (6)"),
        (0.25, "busy_share", "0.25"),
        (NOON, "ts", "2026-01-31 12:00:00.000000"),
    ],
)
def test_a_value_of_a_table_is_shown_as_text(value: object, column: str, text: str) -> None:
    assert cell(value, column) == text


def test_names_and_shares_are_short() -> None:
    assert short_name("0f1e2d3c-1111-4111-8111-111111111111") == "0f1e2d3c"
    assert short_name("warehouse") == "warehouse"
    assert short_flow_id("0f1e2d3c-1111-4111-8111-1111111189ab") == "0f1e2d3c…89ab", "ids of a hub count up"
    assert short_flow_id("monday") == "monday"
    assert short_flow_id(None) == ""
    assert share(1, 3) == "33.3%"
    assert share(1, 1) == "100%"
    assert share(1, 0) == ""
    assert words("run_p99_us") == "run p99"
