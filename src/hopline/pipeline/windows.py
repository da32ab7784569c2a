"""Times as columns: days, windows and what lies between two times, the same whatever the session's time zone."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

WINDOW_S = 60

_SECOND_US = 1_000_000
_DAY_S = 86_400


def window_start(ts: Column, seconds: int) -> Column:
    """Return the start of the window that a time lies in: a whole multiple of its length since 1970."""
    us = sf.unix_micros(ts)
    return sf.timestamp_micros(us - sf.pmod(us, sf.lit(seconds * _SECOND_US)))


def day(ts: Column) -> Column:
    """Return the day of a time, UTC."""
    return sf.date_from_unix_date(sf.floor(sf.unix_seconds(ts) / _DAY_S).cast("int"))


def last_seen(messages: DataFrame) -> DataFrame:
    """Return the time of each node's last message: as long as that, somebody watched."""
    return messages.where(sf.col("node").isNotNull()).groupBy("node").agg(sf.max("ts").alias("last_ts"))


def us_between(start: Column, end: Column) -> Column:
    """Return the microseconds from one time to another."""
    return sf.unix_micros(end) - sf.unix_micros(start)
