"""Times as columns: days, windows and what lies between two times, the same whatever the session's time zone."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

WINDOW_S = 60

_SECOND_US = 1_000_000
_DAY_S = 86_400


def window_start(ts: Column, seconds: int) -> Column:
    """Return the start of the window that a time lies in: a whole multiple of its length since 1970."""
    window_us = sf.lit(seconds * _SECOND_US)
    us = sf.unix_micros(ts)
    us_into_window = sf.pmod(us, window_us)
    start_us = us - us_into_window
    return sf.timestamp_micros(start_us)


def day(ts: Column) -> Column:
    """Return the day of a time, UTC."""
    seconds = sf.unix_seconds(ts)
    days = sf.floor(seconds / _DAY_S)
    return sf.date_from_unix_date(days.cast("int"))


def last_seen(messages: DataFrame) -> DataFrame:
    """Return the time of each node's last message, as `last_ts`: until then, the node was captured."""
    has_node = sf.col("node").isNotNull()
    of_nodes = messages.where(has_node)
    last_ts = sf.max("ts").alias("last_ts")
    return of_nodes.groupBy("node").agg(last_ts)


def us_between(start: Column, end: Column) -> Column:
    """Return the microseconds from one time to another."""
    start_us = sf.unix_micros(start)
    end_us = sf.unix_micros(end)
    return end_us - start_us
