"""Checks of settings and arguments: one way to say what is accepted, and one text when something else is found.

Every settings class calls these in its `__post_init__`, so that settings which exist are valid. What they raise names
the field, what would have been accepted, and what was found; `hopline.config` adds the file and the line.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hopline.errors import ArgumentError, ArgumentTypeError


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `least` to `most`, both included.

    `excludes_least` leaves `least` itself out. Infinity is accepted only if `allows_infinity` is set; NaN never is.
    """

    least: float
    most: float = math.inf
    excludes_least: bool = False
    allows_infinity: bool = False

    def __contains__(self, number: float) -> bool:
        is_above = number > self.least if self.excludes_least else number >= self.least
        if not is_above or number > self.most:
            return False
        return self.allows_infinity or number != math.inf

    def __str__(self) -> str:
        if self.excludes_least:
            text = f"a number above {self.least:,}"
            return text if self.most == math.inf else f"{text} and at most {self.most:,}"
        if self.most == math.inf:
            return f"a number, at least {self.least:,}"
        return f"a number from {self.least:,} to {self.most:,}"


COUNT = Range(1)
"""A number of things of which at least one is needed."""
COUNT_OR_NONE = Range(0)
"""A number of things, possibly none."""
DURATION = Range(0.001)
"""Seconds that have to pass: at least a millisecond."""
DURATION_OR_NONE = Range(0)
"""Seconds, where zero means at once, or never."""


def require(is_valid: bool, field: str, expected: str, found: object) -> None:
    """Raise `ArgumentError` unless a condition holds.

    Args:
        is_valid: The condition.
        field: The name of the setting or argument.
        expected: What is accepted, in words.
        found: The value that was given.
    """
    if not is_valid:
        raise ArgumentError(field, expected, found)


def require_number(field: str, value: object, accepted: Range) -> None:
    """Raise `ArgumentTypeError` unless a value is a number, and `ArgumentError` unless it is in a range."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentTypeError(field, str(accepted), value)
    if value not in accepted:
        raise ArgumentError(field, str(accepted), value)


def require_numbers(settings: object, accepted: Mapping[str, Range], prefix: str = "") -> None:
    """Check several fields of a settings object, each against its range.

    Args:
        settings: The object that has the fields.
        accepted: The range of each field, by its name.
        prefix: What the names of the fields begin with in an error, such as ``"lease."``.
    """
    for name, bounds in accepted.items():
        require_number(prefix + name, getattr(settings, name), bounds)


def require_flag(field: str, value: object) -> None:
    """Raise `ArgumentTypeError` unless a value is True or False."""
    if not isinstance(value, bool):
        raise ArgumentTypeError(field, "True or False", value)


def require_choice(field: str, value: object, choices: Collection[str]) -> None:
    """Raise `ArgumentError` unless a value is one of several."""
    if value not in choices:
        raise ArgumentError(field, f"one of {', '.join(choices)}", value)
