"""Which units are closed: those of which no more records are expected.

Theory of operation
-------------------
A unit is a flow, or a message without one; its records have one `flow_key`. It is closed when it was heard of by
everybody who can say something of it, and nothing was said for the gap:

* *Who took part*: the nodes that recorded some of it, and those that it was sent to or came from. A node that was sent
  a message may write its segment much later.
* *Passed*: a node has passed a time when it has a later record, for its records come in the order of its clock. So it
  must have passed the last record of the unit by the gap, and by what the clocks of two nodes may differ, as far as
  that is known. A node that has been silent for the idle time has passed every time.
* *The last record* is not the end for a request that waits: without an answer it expires when its lifetime is over, and
  only what the node recorded after that shows that it did. So the lifetime is part of the unit.

Flows whose handlers began others are closed together with these, for parents, journeys and critical paths go through
all of them. What links two flows is a submission whose cause is a delivery of the other flow.

A unit that goes on and on would hold back the horizon for ever. It is cut, and what comes later is late: a flow after
`LONGEST_FLOW_S`, and after ten gaps a message without a flow, which may just be one that is sent again and again. So is
a journey that is longer than a flow may be, as that of an actor whose handler asks for the next turn: its flows that
are closed wait no longer for those that are not.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.pipeline.tables.by_flow import flag, is_event, is_offence, text

LONGEST_FLOW_S = 3600
_LONGEST_MESSAGE_GAPS = 10
_SECOND_US = 1_000_000
EVER = 2**62
"""What a silent node has passed."""
NEVER = -(2**62)
"""What a node has passed that others mention, and of which no record has come."""


def participants(records: DataFrame) -> DataFrame:
    """Return which nodes took part in which unit, and when each was first told of: `flow_key`, `node`, `first_us`.

    Args:
        records: The result of `by_flow`.
    """
    ts_us = sf.unix_micros("ts")
    recorded = records.select("flow_key", text("node").alias("node"), ts_us.alias("us"))
    is_link = is_event(Event.SENT, Event.RECEIVED) & sf.col("peer").isNotNull()
    linked = records.where(is_link).select("flow_key", sf.col("peer").alias("node"), ts_us.alias("us"))
    return recorded.union(linked).groupBy("flow_key", "node").agg(sf.min("us").alias("first_us"))


def units(records: DataFrame, participants: DataFrame, passed: DataFrame, gap_s: float) -> DataFrame:
    """Return one row a unit: `flow_key`, `first_us`, `last_us`, `reached_us`, `is_flow`, `is_closed`.

    Args:
        records: The result of `by_flow`.
        participants: The result of `participants`.
        passed: The time that each node has passed: `node`, `passed_us`.
        gap_s: The longest pause inside a unit.
    """
    gap_us = round(gap_s * _SECOND_US)
    reached = (
        participants.join(sf.broadcast(passed), "node", "left")
        .groupBy("flow_key")
        .agg(sf.min(sf.coalesce("passed_us", sf.lit(NEVER))).alias("reached_us"))
    )
    longest_us = sf.when(sf.col("is_flow"), LONGEST_FLOW_S * _SECOND_US).otherwise(_LONGEST_MESSAGE_GAPS * gap_us)
    is_quiet = sf.col("reached_us") >= sf.col("last_us") + gap_us
    is_cut = sf.col("last_us") - sf.col("first_us") > longest_us
    return _spans(records).join(reached, "flow_key").withColumn("is_closed", flag(is_quiet | is_cut))


def _spans(records: DataFrame) -> DataFrame:
    """Return when each unit began, and up to when something may be recorded of it without a pause."""
    ts_us, ttl_us = sf.unix_micros("ts"), sf.coalesce("ttl_us", sf.lit(0))
    is_request = sf.col("request_rank").isNotNull() & ~is_offence() & (ttl_us > 0)
    is_answer, is_receipt = sf.col("is_answer") & ~is_offence(), sf.col("is_receipt")
    is_answered = sf.max(is_answer & ~is_receipt) | (
        sf.max(is_answer & is_receipt) & sf.max(flag(sf.col("is_receipt_enough")))
    )
    by_callback = records.groupBy("flow_key", "callback_id").agg(
        sf.max(sf.col("flow_id").isNotNull()).alias("is_flow"),
        sf.min(ts_us).alias("first_us"),
        sf.max(ts_us).alias("last_us"),
        sf.max(sf.when(is_request, ts_us + ttl_us)).alias("until_us"),
        is_answered.alias("is_answered"),
    )
    waits_until = sf.when(~sf.col("is_answered"), sf.col("until_us"))
    last_us = sf.coalesce(sf.greatest("last_us", waits_until), sf.lit(0))  # records without a time never wait
    return by_callback.groupBy("flow_key").agg(
        sf.max("is_flow").alias("is_flow"),
        sf.min(sf.coalesce("first_us", sf.lit(EVER))).alias("first_us"),
        sf.max(last_us).alias("last_us"),
    )


def closed_keys(units: DataFrame, records: DataFrame, gap_s: float) -> DataFrame:
    """Return the `flow_key` of the units to close: those that are closed, with all that they are linked to.

    Args:
        units: The result of `units`, persisted.
        records: The result of `by_flow`.
        gap_s: The longest pause inside a journey.
    """
    closed = units.where("is_closed").select("flow_key")
    links = _links(records).toArrow()
    if not len(links):
        return closed
    spark = units.sparkSession
    linked = _keys(spark, np.unique(np.concatenate([_numbers(links, "flow_key"), _numbers(links, "linked_key")])))
    members = units.join(linked, "flow_key").select("flow_key", "first_us", "last_us", "reached_us").toArrow()
    still_open = open_members(links, members, round(gap_s * _SECOND_US))
    if not len(still_open):
        return closed
    return closed.join(sf.broadcast(_keys(spark, still_open)), "flow_key", "left_anti")


def _links(records: DataFrame) -> DataFrame:
    """Return pairs of units of which one was begun by a handler of the other."""
    has_flow = sf.col("flow_id").isNotNull() & sf.col("node").isNotNull()
    deliveries = records.where(is_event(Event.DELIVERED) & has_flow).select(
        "node", sf.col("seq").alias("cause"), sf.col("flow_key").alias("linked_key")
    )
    caused = records.where(is_event(Event.SUBMITTED) & has_flow & sf.col("cause").isNotNull())
    is_other = sf.col("flow_key") != sf.col("linked_key")
    return (
        caused.select("flow_key", "node", "cause")
        .join(deliveries, ["node", "cause"])
        .where(is_other)
        .select("flow_key", "linked_key")
        .distinct()
    )


def open_members(links: pa.Table, members: pa.Table, gap_us: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the keys of the units that belong to journeys which are not closed.

    Args:
        links: Pairs of units, `flow_key` and `linked_key`.
        members: The units in them: `flow_key`, `first_us`, `last_us` and `reached_us`.
        gap_us: The longest pause inside a journey.
    """
    keys = _numbers(members, "flow_key")
    order = np.argsort(keys)
    keys = keys[order]
    first_us, last_us, reached_us = (_numbers(members, name)[order] for name in ("first_us", "last_us", "reached_us"))
    one, other = (np.searchsorted(keys, _numbers(links, name)) for name in ("flow_key", "linked_key"))
    journey = np.arange(len(keys))  # the smallest place of all that it is linked to, found round by round
    while True:
        smallest = np.minimum(journey[one], journey[other])
        found = journey.copy()
        np.minimum.at(found, one, smallest)
        np.minimum.at(found, other, smallest)
        found = found[found]
        if np.array_equal(found, journey):
            break
        journey = found
    first_of, last_of, reached_of = (np.full(len(keys), limit) for limit in (EVER, NEVER, EVER))
    np.minimum.at(first_of, journey, first_us)
    np.maximum.at(last_of, journey, last_us)
    np.minimum.at(reached_of, journey, reached_us)
    is_open = (reached_of < last_of + gap_us) & (last_of - first_of <= LONGEST_FLOW_S * _SECOND_US)
    still_open: np.ndarray[tuple[int], np.dtype[np.int64]] = keys[is_open[journey]]
    return still_open


def passed_by(spark: SparkSession, times: Mapping[str, int]) -> DataFrame:
    """Return the time that each node has passed, as `units` takes it."""
    return spark.createDataFrame(list(times.items()), "node string, passed_us long")


def _numbers(table: pa.Table, column: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    numbers: np.ndarray[tuple[int], np.dtype[np.int64]] = table[column].to_numpy()
    return numbers


def _keys(spark: SparkSession, keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> DataFrame:
    return spark.createDataFrame(pa.table({"flow_key": keys}))


def is_behind(time_us: Column, horizon_us: int | None) -> Column:
    """Return whether a time lies behind the horizon: what belongs to it is not final yet. What has no time never is."""
    if horizon_us is None:
        return sf.lit(True)
    return sf.coalesce(time_us >= horizon_us, sf.lit(True))
