"""Do the books hold? What each node recorded, hour by hour, and what is missing."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.records import Event
from hopline.pipeline.schemas import AUDIT
from hopline.pipeline.tables.books import BALANCING, CAME_IN, WENT_OUT
from hopline.pipeline.traces import Traces, TracesOfMessages
from hopline.pipeline.windows import day, window_start

_HOUR_S = 3_600
# Numbers are looked through in blocks of this size, so that one busy node is the work of many tasks.
_BLOCK_BITS = 14
_AT_LEVEL_FULL = (Event.SUBMITTED, Event.DELIVERED, Event.HANDLED)
_COUNTS = ("records", "dropped", "missing", "rejects", *Event, "copies", "balance")


def audit(messages: DataFrame, rejects: DataFrame, traces: Traces | None = None) -> DataFrame:
    """Count what each node recorded by hour, what is missing, and whether what came in went out."""
    is_full = _sum(_AT_LEVEL_FULL) > 0
    return (
        _by_hour(messages, rejects)
        .unionByName(_gaps(messages, rejects), allowMissingColumns=True)
        .unionByName((traces or TracesOfMessages(messages)).made_by(BALANCING), allowMissingColumns=True)
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
    event = sf.col("event")
    return records.groupBy("node", window_start(sf.col("ts"), _HOUR_S).alias("hour")).agg(
        sf.count("*").alias("records"),
        sf.sum("dropped").alias("dropped"),
        sf.count_if("is_reject").alias("rejects"),
        # Nothing tells which of them are the same message: they are balanced hour by hour.
        sf.sum(sf.when(sf.col("is_reject"), _side()).otherwise(0)).alias("balance"),
        *(sf.count_if(event == name).alias(name) for name in Event),
    )


def _gaps(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    """Count the numbers that no record has and none says it dropped, in the hour of the record behind the gap."""
    columns = ("node", "seq", "ts", sf.coalesce("dropped", sf.lit(0)).alias("dropped"))
    records = messages.select(*columns).unionByName(rejects.select(*columns)).where(sf.col("seq").isNotNull())
    # A number for each block: all that is compared, and most of what is moved, are numbers.
    block = sf.shiftright("seq", _BLOCK_BITS)
    in_order = Window.partitionBy("place").orderBy("seq", "ts")
    numbered = records.withColumn("place", sf.xxhash64("node", block)).withColumn(
        "previous", sf.lag("seq").over(in_order)
    )
    is_first = sf.col("previous").isNull()
    blocks = numbered.groupBy("place", "node", window_start(sf.col("ts"), _HOUR_S).alias("hour")).agg(
        sf.sum(_unexplained(sf.col("seq"), sf.col("previous"), sf.col("dropped"))).alias("inside"),
        sf.max("seq").alias("last"),
        sf.min(sf.when(is_first, sf.col("seq"))).alias("first"),
        sf.sum(sf.when(is_first, sf.col("dropped"))).alias("first_dropped"),
    )
    # One row a block and hour: few enough to look at a node's in one place.
    earlier = Window.partitionBy("node").orderBy("block").rangeBetween(Window.unboundedPreceding, -1)
    return (
        blocks.withColumn("block", sf.shiftright("last", _BLOCK_BITS))
        .withColumn("before", sf.max("last").over(earlier))
        .select(
            "node",
            "hour",
            (sf.col("inside") + _unexplained(sf.col("first"), sf.col("before"), sf.col("first_dropped"))).alias(
                "missing"
            ),
        )
    )


def _side() -> Column:
    event = sf.col("event")
    return sf.when(event.isin(*CAME_IN), 1).when(event.isin(*WENT_OUT), -1).otherwise(0)


def _unexplained(seq: Column, previous: Column, dropped: Column) -> Column:
    """Count the numbers between two records that the second does not say it dropped."""
    return sf.greatest(sf.coalesce(seq - previous - 1 - dropped, sf.lit(0)), sf.lit(0))


def _sum(names: tuple[str, ...]) -> Column:
    total = sf.lit(0)
    for name in names:
        total = total + sf.col(name)
    return total
