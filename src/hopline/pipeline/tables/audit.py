"""Whether all messages are accounted for: what each node recorded, hour by hour, and what is missing."""

from __future__ import annotations

from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import ENDINGS, Event
from hopline.pipeline.tables.by_flow import is_event
from hopline.pipeline.tables.findings import Finding, Seen, number, short
from hopline.pipeline.tables.table import DATE, FLAG, LONG, TEXT, TIME, Table, columns
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
)

_HOUR_S = 3600
_BLOCK_BITS = 16  # gaps are looked for in blocks of so many numbers, so that a node is not one partition
_CAME_IN = (Event.SUBMITTED, Event.RECEIVED)
_WENT_OUT = (Event.DELIVERED, Event.SENT, *ENDINGS)
_AT_LEVEL_FULL = (Event.SUBMITTED, Event.DELIVERED, Event.HANDLED)
_EVENTS = tuple(event.value for event in Event)
_COUNTS = ("records", "dropped", "missing", "rejects", *_EVENTS, "copies", "balance")
_BROADCAST = 1


def audit(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    """Return one row a node and hour: records, gaps between them, and whether what came in also went out.

    Args:
        messages: The table of messages.
        rejects: The table of rejects.
    """
    is_full = reduce(add, (sf.col(event.value) for event in _AT_LEVEL_FULL)) > 0
    return (
        _by_hour(messages, rejects)
        .unionByName(_balances(messages), allowMissingColumns=True)
        .groupBy("node", "hour")
        .agg(*(sf.coalesce(sf.sum(name), sf.lit(0)).alias(name) for name in _COUNTS))
        .withColumn("date", day(sf.col("hour")))
        .withColumn("copies", sf.when(is_full, sf.col("copies")).otherwise(0))
        .withColumn("balance", sf.when(is_full, sf.col("balance")))
        .withColumn("balanced", sf.col("balance") == 0)
        .to(AUDIT)
    )


def _by_hour(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    columns = ("node", "ts", "seq", "event", "dropped")
    records = messages.select(*columns, sf.lit(False).alias("is_reject")).unionByName(
        rejects.select(*columns, sf.lit(True).alias("is_reject"))
    )
    # Records without a number are in no block: they are spread by their time.
    block = sf.coalesce(sf.shiftright("seq", _BLOCK_BITS), -sf.unix_seconds("ts"))
    in_order = Window.partitionBy("node", "block").orderBy("seq", "ts")
    numbered = records.withColumns(
        {
            "hour": window_start(sf.col("ts"), _HOUR_S),
            "block": block,
            "dropped": sf.coalesce("dropped", sf.lit(0)),
        }
    ).withColumn("previous", sf.lag("seq").over(in_order))
    is_first = sf.col("previous").isNull()
    blocks = numbered.groupBy("node", "hour", "block").agg(
        sf.count("*").alias("records"),
        sf.sum("dropped").alias("dropped"),
        sf.sum(_unexplained(sf.col("seq"), sf.col("previous"), sf.col("dropped"))).alias("missing_inside"),
        sf.max("seq").alias("last"),
        sf.min(sf.when(is_first, sf.struct("seq", "dropped"))).alias("first"),
        sf.count_if("is_reject").alias("rejects"),
        # Nothing tells which rejects are the same message: they are balanced hour by hour.
        sf.sum(sf.when(sf.col("is_reject"), _side()).otherwise(0)).alias("balance"),
        *(sf.count_if(sf.col("event") == event).alias(event) for event in _EVENTS),
    )
    # One row a block and hour: few enough to have a node's in one partition.
    earlier = Window.partitionBy("node").orderBy("block").rangeBetween(Window.unboundedPreceding, -1)
    before = sf.max("last").over(earlier)
    missing_before = _unexplained(sf.col("first.seq"), sf.col("before"), sf.col("first.dropped"))
    return (
        blocks.withColumn("before", before)
        .withColumn("missing", sf.col("missing_inside") + missing_before)
        .select("node", "hour", "records", "dropped", "missing", "rejects", "balance", *_EVENTS)
    )


def _side() -> Column:
    return sf.when(is_event(*_CAME_IN), 1).when(is_event(*_WENT_OUT), -1).otherwise(0)


def _unexplained(seq: Column, previous: Column, dropped: Column) -> Column:
    """Return how many numbers between two records the second does not say were dropped."""
    return sf.greatest(sf.coalesce(seq - previous - 1 - dropped, sf.lit(0)), sf.lit(0))


def _balances(messages: DataFrame) -> DataFrame:
    """Return the outcomes that are too few or too many, and the copies of broadcasts, in the hour of the last record.

    By message: what is under way when an hour ends is balanced all the same.
    """
    difference = sf.sum(_side())
    copies = sf.when(sf.max("distribution") == _BROADCAST, sf.greatest(-difference, sf.lit(0))).otherwise(0)
    return (
        messages.where(is_event(*_CAME_IN, *_WENT_OUT))
        .groupBy("node", "message_id")
        .agg(window_start(sf.max("ts"), _HOUR_S).alias("hour"), copies.alias("copies"), difference.alias("difference"))
        .groupBy("node", "hour")
        .agg(sf.sum("copies").alias("copies"), sf.sum(sf.col("difference") + sf.col("copies")).alias("balance"))
    )


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
