"""Whether all messages are accounted for: what each node recorded, hour by hour, and what is missing.

Theory of operation
-------------------
A row of the audit is a sum of three parts, each of which can be computed of some of the records and put together with
those of others: the *counts* of records and events; the *stretches* of numbers without a gap, whose distances are the
records that are missing; and the *balances* of messages, of which a node's records must all be there at once.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import ENDINGS, Event
from hopline.pipeline.tables.by_flow import is_event
from hopline.pipeline.tables.findings import Finding, Seen, number, short
from hopline.pipeline.tables.table import DATE, FLAG, LONG, PROVISIONAL, TEXT, TIME, Table, columns
from hopline.pipeline.windows import day, window_start

AUDIT = columns(
    ("date", DATE, "day"),
    ("node", TEXT, "node"),
    ("hour", TIME, "start of the hour"),
    ("records", LONG, "number of records, rejects included"),
    ("dropped", LONG, "records that the node could not write, by its own count"),
    ("missing", LONG, "numbers that are missing in seq and not counted in dropped"),
    ("rejects", LONG, "records that could not be decoded"),
    *(
        (event, LONG, f"records of the event {event}")
        for event in (
            "submitted",
            "received",
            "sent",
            "delivered",
            "handled",
            "resolved",
            "expired",
            "unroutable",
            "rejected",
            "overflow",
            "hop_limit",
            "failed",
        )
    ),
    ("copies", LONG, "further copies of broadcasts: their outcomes beyond the first"),
    ("balance", LONG, "submitted + received + copies - delivered - sent - endings; 0 if all are accounted for"),
    ("balanced", FLAG, "whether balance is 0; null if only the wire was recorded"),
    (PROVISIONAL, FLAG, "true while a stream waits for more of the hour"),
)

HOUR_S = 3600
_BLOCK_BITS = 16  # gaps are looked for in blocks of so many numbers first, so that a node is not one partition
_CAME_IN = (Event.SUBMITTED, Event.RECEIVED)
_WENT_OUT = (Event.DELIVERED, Event.SENT, *ENDINGS)
_AT_LEVEL_FULL = (Event.SUBMITTED, Event.DELIVERED, Event.HANDLED)
_EVENTS = tuple(event.value for event in Event)
COUNTED = ("records", "dropped", "rejects", *_EVENTS, "balance")
_SUMS = ("records", "dropped", "missing", "rejects", *_EVENTS, "copies", "balance")
_BROADCAST = 1


def audit(counts: DataFrame, stretches: DataFrame, balances: DataFrame) -> DataFrame:
    """Return one row a node and hour: records, gaps between them, and whether what came in also went out.

    Args:
        counts: The result of `counts`.
        stretches: The result of `stretches`.
        balances: The result of `balances`.
    """
    is_full = reduce(add, (sf.col(event.value) for event in _AT_LEVEL_FULL)) > 0
    return (
        counts.unionByName(_missing(stretches), allowMissingColumns=True)
        .unionByName(balances, allowMissingColumns=True)
        .groupBy("node", "hour")
        .agg(*(sf.coalesce(sf.sum(name), sf.lit(0)).alias(name) for name in _SUMS))
        .withColumn("date", day(sf.col("hour")))
        .withColumn("copies", sf.when(is_full, sf.col("copies")).otherwise(0))
        .withColumn("balance", sf.when(is_full, sf.col("balance")))
        .withColumn("balanced", sf.col("balance") == 0)
        .to(AUDIT)
    )


def counts(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    """Return the records of each node and hour, by event, and the balance of the rejects.

    Nothing tells which rejects are the same message: they are balanced hour by hour.

    Args:
        messages: The table of messages.
        rejects: The table of rejects.
    """
    side_of_reject = sf.when(sf.col("is_reject"), _side()).otherwise(0)
    return (
        _records(messages, rejects)
        .groupBy("node", "hour")
        .agg(
            sf.count("*").alias("records"),
            sf.sum("dropped").alias("dropped"),
            sf.count_if("is_reject").alias("rejects"),
            *(sf.count_if(sf.col("event") == event).alias(event) for event in _EVENTS),
            sf.sum(side_of_reject).alias("balance"),
        )
    )


def summed_counts(parts: DataFrame) -> DataFrame:
    """Return the counts of all records, made of the counts of some records each."""
    return parts.groupBy("node", "hour").agg(*(sf.sum(name).alias(name) for name in COUNTED))


def stretches(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    """Return the stretches of each node's numbers that have no gap, with the hour of the first record.

    `dropped` is how many records are known to be lost before it.

    Args:
        messages: The table of messages.
        rejects: The table of rejects.
    """
    numbered = _records(messages, rejects).where(sf.col("seq").isNotNull())
    single = numbered.select(
        "node",
        sf.shiftright("seq", _BLOCK_BITS).alias("block"),
        sf.col("seq").alias("first"),
        sf.col("seq").alias("last"),
        "ts",
        "hour",
        "dropped",
    )
    return joined_stretches(_joined(single, "node", "block"))


def joined_stretches(parts: DataFrame) -> DataFrame:
    """Return stretches of numbers made of others: those that follow each other without a gap become one."""
    return _joined(parts, "node")


def _joined(parts: DataFrame, *keys: str) -> DataFrame:
    in_order = Window.partitionBy(*keys).orderBy("first", "last", "ts", "dropped")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = sf.max("last").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    follows = sf.coalesce(sf.col("first") <= before + 1, sf.lit(False))
    number = sf.sum(sf.when(follows, 0).otherwise(1)).over(so_far)
    begin = sf.min(sf.struct("first", "last", "ts", "dropped", "hour")).alias("begin")
    return (
        parts.withColumn("stretch", number)
        .groupBy(*keys, "stretch")
        .agg(begin, sf.max("last").alias("last"))
        .select(
            "node",
            sf.col("begin.first").alias("first"),
            "last",
            *(sf.col(f"begin.{name}").alias(name) for name in ("ts", "hour", "dropped")),
        )
    )


def _missing(stretches: DataFrame) -> DataFrame:
    """Return by node and hour how many numbers are missing before stretches, and were not dropped."""
    earlier = Window.partitionBy("node").orderBy("first").rowsBetween(Window.unboundedPreceding, -1)
    unexplained = sf.col("first") - sf.max("last").over(earlier) - 1 - sf.col("dropped")
    missing = sf.greatest(sf.coalesce("unexplained", sf.lit(0)), sf.lit(0))
    return (
        stretches.withColumn("unexplained", unexplained).groupBy("node", "hour").agg(sf.sum(missing).alias("missing"))
    )


def _records(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    columns = ("node", "ts", "seq", "event", "dropped")
    both = messages.select(*columns, sf.lit(False).alias("is_reject")).unionByName(
        rejects.select(*columns, sf.lit(True).alias("is_reject"))
    )
    return both.withColumns({"hour": window_start(sf.col("ts"), HOUR_S), "dropped": sf.coalesce("dropped", sf.lit(0))})


def _side() -> Column:
    return sf.when(is_event(*_CAME_IN), 1).when(is_event(*_WENT_OUT), -1).otherwise(0)


def balances(messages: DataFrame) -> DataFrame:
    """Return the outcomes that are too few or too many, and the copies of broadcasts, in the hour of the last record.

    By message: what is under way when an hour ends is balanced all the same.

    Args:
        messages: The table of messages, or the records of some whole flows.
    """
    difference = sf.sum(_side())
    copies = sf.when(sf.max("distribution") == _BROADCAST, sf.greatest(-difference, sf.lit(0))).otherwise(0)
    return (
        messages.where(is_event(*_CAME_IN, *_WENT_OUT))
        .groupBy("node", "message_id")
        .agg(window_start(sf.max("ts"), HOUR_S).alias("hour"), copies.alias("copies"), difference.alias("difference"))
        .groupBy("node", "hour")
        .agg(sf.sum("copies").alias("copies"), sf.sum(sf.col("difference") + sf.col("copies")).alias("balance"))
    )


def summed_balances(parts: DataFrame) -> DataFrame:
    """Return the balances of all messages, made of the balances of some messages each."""
    return parts.groupBy("node", "hour").agg(*(sf.sum(name).alias(name) for name in ("copies", "balance")))


def _unbalanced_hours(seen: Seen) -> Finding:
    rows = seen.rows(
        "node, hour, balance, dropped, missing",
        "balanced = false or dropped > 0 or missing > 0",
        then="order by coalesce(balance, 0) = 0, hour, node",
    )
    return Finding(
        "Unaccounted messages and missing records",
        ("node", "hour", "balance", "records dropped", "records missing"),
        tuple(
            (
                short(row["node"]),
                f"{row['hour']:%Y-%m-%d %H}h",
                f"{row['balance']:+}" if row["balance"] else "0",
                number(row["dropped"]),
                number(row["missing"]),
            )
            for row in rows
        ),
        seen.command("balanced = false or dropped > 0 or missing > 0"),
        is_trouble=True,
    )


TABLE = Table(
    name="audit",
    meaning="per node and hour: are all messages accounted for?",
    schema=AUDIT,
    shown_first=("hour", "node", "records", "dropped", "missing", "rejects", "balance", "balanced"),
    function=audit,
    findings=(_unbalanced_hours,),
)
