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
_MICROSECONDS = {"us": 1, "µs": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "m": 60_000_000, "h": 3_600_000_000}
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
        given = {"from": self.start, "to": self.end}
        return {name: time_text(moment) for name, moment in given.items() if moment is not None}

    @property
    def seconds(self) -> float | None:
        """Return its length; None where a side is open."""
        if self.start is None or self.end is None:
            return None
        return (self.end - self.start).total_seconds()


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
        return " and ".join(f"({part})" for part in self.parts) or "true"


def time_text(moment: datetime) -> str:
    """Return a time as an address has it: short where it can be."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    return text.removesuffix(".000000").removesuffix(":00")


def read_time(text: str) -> datetime:
    """Read a time in UTC, such as ``2026-03-02 08:00`` or only a day.

    Raises:
        ParameterError: it is none.

    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ParameterError(f"{printable(text)!r} is no time: write it as 2026-01-31 10:05, in UTC") from None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_duration(text: str) -> int:
    """Read a duration such as ``250ms`` as microseconds; a number alone is milliseconds.

    Raises:
        ParameterError: it is none.

    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ParameterError(f"{printable(text)!r} is no duration: write it as 250ms, 1.5s or 800us")
    microseconds = float(match[1]) * _MICROSECONDS[match[2] or "ms"]
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
            raise ParameterError(f"{name} is {printable(value)!r}: expected one of {', '.join(choices)}")
        return value

    def number(self, name: str, default: int, *, most: int = _LARGEST_INTEGER, least: int = 0) -> int:
        """Return a parameter that is a whole number within bounds."""
        value = self.text(name)
        if not value:
            return default
        if not re.fullmatch(r"-?[0-9]{1,19}", value) or not least <= int(value) <= most:
            raise ParameterError(f"{name} is {printable(value)!r}: expected a number from {least:,} to {most:,}")
        return int(value)

    def duration(self, name: str) -> int | None:
        """Return a parameter that is a duration, in microseconds."""
        value = self.text(name)
        return read_duration(value) if value else None

    def span(self) -> Span:
        """Return the time that the page is about: ``from`` and ``to``; ``to`` of a day alone includes the day."""
        start, end = self.text("from"), self.text("to")
        until = read_time(end) if end else None
        if until is not None and re.fullmatch(r"\d{4}-\d\d-\d\d", end):
            until += timedelta(days=1)
        span = Span(read_time(start) if start else None, until)
        if span.start and span.end and span.start >= span.end:
            raise ParameterError("the time range is empty: from must be before to")
        return span
