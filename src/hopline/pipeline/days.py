"""Which days a run is about: all of them, or those between two, both included. Days are UTC's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

Day = date | None
"""The day of a row; None for those of records without a time."""

# A run over some days also reads this much before and after them, so that what crosses midnight is stitched whole.
STITCH_MARGIN = timedelta(hours=1)
# A segment lies under the day on which it was begun, and may hold records of the next.
_PARTITION_SLACK = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Days:
    """The days from the first to the last; None where there is no limit."""

    first: date | None = None
    last: date | None = None

    @property
    def is_all(self) -> bool:
        """Return whether there is no limit at all."""
        return self.first is None and self.last is None

    def __contains__(self, day: date | None) -> bool:
        if day is None:  # a record without a time is on no day
            return self.is_all
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)

    def __str__(self) -> str:
        if self.is_all:
            return "all days"
        if self.first == self.last:
            return f"{self.first}"
        return f"{self.first or 'the first day'} to {self.last or 'the last'}"

    @property
    def begin(self) -> datetime | None:
        """Return when they begin."""
        return None if self.first is None else datetime.combine(self.first, time(), UTC)

    @property
    def end(self) -> datetime | None:
        """Return when they are over."""
        return None if self.last is None else datetime.combine(self.last, time(), UTC) + timedelta(days=1)

    @property
    def read_from(self) -> datetime | None:
        """Return the earliest time that is read."""
        return None if self.begin is None else self.begin - STITCH_MARGIN

    @property
    def read_until(self) -> datetime | None:
        """Return the time at which reading stops."""
        return None if self.end is None else self.end + STITCH_MARGIN

    def may_hold(self, earliest: datetime, latest: datetime) -> bool:
        """Return whether a file with records of these times has some that are read."""
        start, end = self.read_from, self.read_until
        return (start is None or latest >= start) and (end is None or earliest < end)

    def may_lie_under(self, partition: date) -> bool:
        """Return whether a folder ``date=...`` may have records that are read."""
        return (self.first is None or partition >= self.first - _PARTITION_SLACK) and (
            self.last is None or partition <= self.last + _PARTITION_SLACK
        )
