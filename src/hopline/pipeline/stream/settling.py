"""Days that are over: their tables are made once more, of all their messages at once, as the batch job makes them.

What the stream wrote of a day used the skew that was known at the time, left out what came too late, and lies in many
files. Settling it replaces all of that. It reads the messages as they were written, so that nothing is decoded again,
and an hour before and after the day with them, as a run over some days does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from pyspark.sql import functions as sf

from hopline.decoding.keys import Keyring
from hopline.pipeline.days import STITCH_MARGIN, Days
from hopline.pipeline.making import Making, order_of
from hopline.pipeline.storage import Storage, on_days
from hopline.pipeline.tables.all import TABLES

_ONE_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)


def end_of(day: date) -> datetime:
    """Return when a day is over, UTC."""
    return datetime.combine(day + _ONE_DAY, time(), UTC)


def micros(moment: datetime) -> int:
    """Return the microseconds from 1970 to a moment."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND


def days_over(days: Sequence[date], horizon_us: int | None) -> list[date]:
    """Return the days that a horizon has left behind, with what is read of the next day to settle them."""
    if horizon_us is None:
        return []
    return [day for day in days if micros(end_of(day) + STITCH_MARGIN) <= horizon_us]


def settle(storage: Storage, day: date, keyring: Keyring, window_s: int) -> None:
    """Make the tables of a day as the batch job does, of the messages and rejects that were written.

    Args:
        storage: Where the tables are.
        day: The day.
        keyring: The keys, for the kinds of messages that must be signed.
        window_s: The length of a window in seconds.
    """
    span = Days(day, day)
    around = [day - _ONE_DAY, day, day + _ONE_DAY]
    is_near = (sf.col("ts") >= sf.lit(span.read_from)) & (sf.col("ts") < sf.lit(span.read_until))
    messages = on_days(storage.read("messages"), around).where(is_near)
    rejects = on_days(storage.read("rejects"), [day])
    with Making(
        messages,
        rejects,
        window_s=window_s,
        signed_identities=keyring.signed_identities,
        is_judged=bool(keyring),
    ) as making:
        for name in order_of(TABLES):
            # What is told of a flow of the day may lie behind midnight: the next tables are made of all rows.
            storage.replace(name, on_days(making.keep(name), [day]), [day])
