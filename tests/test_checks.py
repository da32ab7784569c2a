"""Checks of settings: what is accepted, and the text when something else is found."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from hopline.checks import Range, require, require_choice, require_flag, require_number, require_numbers
from hopline.errors import ArgumentError, ArgumentTypeError

RANGES = [
    (Range(1), [1, 1.5, 10**20], [0, 0.9, -1, math.nan, math.inf], "a number, at least 1"),
    (Range(0, allows_infinity=True), [0, math.inf], [-0.1, -math.inf, math.nan], "a number, at least 0"),
    (Range(0, excludes_least=True), [0.001], [0, -1], "a number above 0"),
    (Range(0, 1_000, excludes_least=True), [1, 1_000], [0, 1_001], "a number above 0 and at most 1,000"),
    (Range(2, 5_000), [2, 5_000], [1, 5_001, math.inf], "a number from 2 to 5,000"),
]


@pytest.mark.parametrize(("accepted", "good", "bad", "text"), RANGES)
def test_a_number_must_be_in_its_range(accepted: Range, good: list[float], bad: list[float], text: str) -> None:
    for number in good:
        require_number("size", number, accepted)
    for number in bad:
        with pytest.raises(ArgumentError) as refused:
            require_number("size", number, accepted)
        assert not isinstance(refused.value, TypeError)
        assert str(refused.value) == f"size: expected {text}, found {number!r}"


@pytest.mark.parametrize("value", ["1", None, True, [1]])
def test_what_is_no_number_has_the_wrong_type(value: object) -> None:
    with pytest.raises(ArgumentTypeError, match="size: expected a number, at least 1"):
        require_number("size", value, Range(1))


def test_every_field_is_checked_and_named_with_its_prefix() -> None:
    @dataclass
    class Settings:
        first: float = 1
        second: float = 1

    accepted = {"first": Range(1), "second": Range(1)}
    require_numbers(Settings(), accepted)
    with pytest.raises(ArgumentError) as refused:
        require_numbers(Settings(second=0), accepted, "lease.")
    assert (refused.value.field, refused.value.found) == ("lease.second", 0)


def test_a_flag_is_true_or_false_and_nothing_like_it() -> None:
    require_flag("open", True)
    with pytest.raises(ArgumentTypeError, match="open: expected True or False, found 1"):
        require_flag("open", 1)


def test_a_choice_is_one_of_several() -> None:
    require_choice("format", "v5", ["v4", "v5"])
    with pytest.raises(ArgumentError, match="format: expected one of v4, v5, found 'v9'"):
        require_choice("format", "v9", ["v4", "v5"])


def test_a_condition_that_does_not_hold_is_reported() -> None:
    require(True, "days", "the first not after the last", "")
    with pytest.raises(ArgumentError, match="days: expected the first not after the last, found 'x'"):
        require(False, "days", "the first not after the last", "x")
