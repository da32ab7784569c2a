"""Which days a run is about: all of them, or those between two, both included. Days are UTC's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

Day = date | None
"""The day of a row; None for those of records without a time."""

FOLDER = "date="
"""How the name of a folder begins that has the rows of one day."""
NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""What Spark writes behind it for rows without a day."""

# A run over some days also reads this much before and after them, so that what crosses midnight is stitched whole.
STITCH_MARGIN = timedelta(hours=1)
_ONE_DAY = timedelta(days=1)
# A segment lies under the day on which it was begun, and may hold records of the next.
_PARTITION_SLACK = _ONE_DAY


@dataclass(frozen=True, slots=True)
class Days:
    """The days from the first to the last; None where there is no limit."""

    first: date | None = None
    last: date | None = None

    @property
    def is_all(self) -> bool:
        """Return whether there is no limit at all."""
        return self.first is None and self.last is None

    def __contains__(self, day: Day) -> bool:
        if day is None:  # a record without a time is on no day
            return self.is_all
        if self.first is not None and day < self.first:
            return False
        return self.last is None or day <= self.last

    def __str__(self) -> str:
        if self.is_all:
            return "all days"
        if self.first == self.last:
            return f"{self.first}"
        first = self.first or "the first day"
        last = self.last or "the last"
        return f"{first} to {last}"

    @property
    def read_from(self) -> datetime | None:
        """Return the earliest time of records that are read, or None without a limit."""
        if self.first is None:
            return None
        return _midnight(self.first) - STITCH_MARGIN

    @property
    def read_until(self) -> datetime | None:
        """Return the time from which on records are not read, or None without a limit."""
        if self.last is None:
            return None
        end = _midnight(self.last) + _ONE_DAY
        return end + STITCH_MARGIN

    def may_lie_under(self, partition: date) -> bool:
        """Return whether a folder ``date=...`` may have records that are read."""
        if self.first is not None and partition < self.first - _PARTITION_SLACK:
            return False
        return self.last is None or partition <= self.last + _PARTITION_SLACK


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
