"""What an address asks for, read from its query string. Nothing in it is trusted.

>>> read_time("2026-03-02 08:00")
datetime.datetime(2026, 3, 2, 8, 0, tzinfo=datetime.timezone.utc)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hopline.message import HoplineError, printable

LONGEST_PARAMETER = 2_000
MOST_ROWS = 500
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|µs|ms|s|min|m|h)?\s*")
_MICROSECONDS = {
    "us": 1,
    "µs": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
}
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_LARGEST_INTEGER = 2**63 - 1


class ParameterError(HoplineError):
    """A part of the address makes no sense."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time: from its start, included, to its end, not included. None leaves a side open."""

    start: datetime | None = None
    end: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Return whether it is all of time."""
        return self.start is None and self.end is None

    @property
    def parameters(self) -> dict[str, str]:
        """Return it as parameters of an address."""
        parameters = {}
        if self.start is not None:
            parameters["from"] = time_text(self.start)
        if self.end is not None:
            parameters["to"] = time_text(self.end)
        return parameters

    @property
    def seconds(self) -> float | None:
        """Return its length; None where a side is open."""
        if self.start is None or self.end is None:
            return None
        length = self.end - self.start
        return length.total_seconds()


EVER = Span()


@dataclass(slots=True)
class Conditions:
    """The conditions of a query, with their values apart: what people write is bound, never part of the SQL."""

    parts: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def add(self, part: str, *values: Any) -> Conditions:
        """Add a condition with a ``?`` for each of its values."""
        self.parts.append(part)
        self.values.extend(values)
        return self

    def within(self, span: Span, column: str) -> Conditions:
        """Add that a time lies within a span. The day is the partition: files of other days are not opened."""
        if span.start is not None:
            self.add(f"date >= ? and {column} >= ?", span.start.date(), span.start)
        if span.end is not None:
            self.add(f"date <= ? and {column} < ?", span.end.date(), span.end)
        return self

    @property
    def sql(self) -> str:
        """Return all of them as one condition."""
        if not self.parts:
            return "true"
        return " and ".join(f"({part})" for part in self.parts)


def time_text(moment: datetime) -> str:
    """Return a time as an address has it: short where it can be."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    text = utc.isoformat(timespec="microseconds")
    return text.removesuffix(".000000").removesuffix(":00")


def read_time(text: str) -> datetime:
    """Read a time in UTC, such as ``2026-03-02 08:00`` or only a day.

    Raises:
        ParameterError: The text is not a time.

    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ParameterError(f"{printable(text)!r} is no time: write it as 2026-01-31 10:05, in UTC") from None
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC)


def read_duration(text: str) -> int:
    """Read a duration such as ``250ms`` as microseconds; a number alone is milliseconds.

    Raises:
        ParameterError: The text is not a duration.

    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ParameterError(f"{printable(text)!r} is no duration: write it as 250ms, 1.5s or 800us")
    number, unit = match.groups(default="ms")
    microseconds = float(number) * _MICROSECONDS[unit]
    return int(min(microseconds, _LARGEST_INTEGER))


class Parameters:
    """The query string of an address."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        for name, value in given.items():
            if len(value) > LONGEST_PARAMETER:
                raise ParameterError(f"{printable(name, 40)} is too long: at most {LONGEST_PARAMETER:,} characters")

    def text(self, name: str) -> str:
        """Return a parameter without the blanks around it; empty where it is not there."""
        return self._given.get(name, "").strip()

    def choice(self, name: str, *choices: str) -> str:
        """Return a parameter that is one of some words; the first of them where it is not there."""
        value = self.text(name)
        if not value:
            return choices[0]
        if value not in choices:
            expected = ", ".join(choices)
            raise ParameterError(f"{name} is {printable(value)!r}: expected one of {expected}")
        return value

    def number(self, name: str, default: int, *, most: int = _LARGEST_INTEGER, least: int = 0) -> int:
        """Return a parameter that is a whole number within bounds."""
        value = self.text(name)
        if not value:
            return default
        is_integer = _INTEGER.fullmatch(value) is not None
        if not is_integer or not least <= int(value) <= most:
            raise ParameterError(f"{name} is {printable(value)!r}: expected a number from {least:,} to {most:,}")
        return int(value)

    def duration(self, name: str) -> int | None:
        """Return a parameter that is a duration, in microseconds."""
        value = self.text(name)
        return read_duration(value) if value else None

    def span(self) -> Span:
        """Return the time that the page is about: ``from`` and ``to``; ``to`` of a day alone includes the day."""
        start = self._time("from")
        end = self._time("to")
        if end is not None and _DAY.fullmatch(self.text("to")):
            end += timedelta(days=1)
        if start and end and start >= end:
            raise ParameterError("the time range is empty: from must be before to")
        return Span(start, end)

    def _time(self, name: str) -> datetime | None:
        value = self.text(name)
        return read_time(value) if value else None
