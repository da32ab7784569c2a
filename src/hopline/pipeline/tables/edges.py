"""Who talks to whom, by window: from node to node, and from the handler that made a message to the one that got it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.records import Event
from hopline.pipeline.percentiles import GROUP, percentile, ranked
from hopline.pipeline.schemas import EDGES
from hopline.pipeline.windows import WINDOW_S, day, us_between, window_start

_ENDS = ("kind", "source_node", "source", "target_node", "target", "identity")
_GROUP = ("window_start", *_ENDS)
_COUNTS = ("count", "bytes", "errors", "lost")
_NOBODY = ""


def edges(messages: DataFrame, transits: DataFrame, window_s: int = WINDOW_S) -> DataFrame:
    """Sum up the transits between nodes, and the messages between handlers."""
    columns = ("at", *_ENDS, *_COUNTS, "transit_us")
    both = _physical(transits).select(*columns).unionByName(_logical(messages).select(*columns))
    in_windows = both.withColumn("window_start", window_start(sf.col("at"), window_s)).drop("at")
    return (
        ranked(in_windows, _GROUP, "transit_us")
        .groupBy(GROUP, *_GROUP)
        .agg(
            *(sf.sum(name).alias(name) for name in _COUNTS),
            *(percentile("transit_us", percent).alias(f"transit_p{percent}_us") for percent in (50, 95, 99)),
        )
        .withColumns({"date": day(sf.col("window_start")), "window_s": sf.lit(window_s)})
        .to(EDGES)
    )


def _physical(transits: DataFrame) -> DataFrame:
    return transits.select(
        sf.coalesce("sent_ts", "received_ts").alias("at"),
        sf.lit("physical").alias("kind"),
        sf.col("from_node").alias("source_node"),
        sf.col("from_node").alias("source"),
        sf.col("to_node").alias("target_node"),
        sf.col("to_node").alias("target"),
        "identity",
        sf.lit(1).alias("count"),
        "bytes",
        sf.col("rejected").cast("int").alias("errors"),
        sf.coalesce(sf.col("lost").cast("int"), sf.lit(0)).alias("lost"),
        "transit_us",
    )


def _logical(messages: DataFrame) -> DataFrame:
    """Give each delivery and each failure of a handler the submission that it comes from."""
    # Submissions have no target, and so come before all deliveries: their number is known at each of these.
    of_message = Window.partitionBy("message_id").orderBy("target_node", "target", "ts", "node", "seq")
    at_target = Window.partitionBy("message_id", "target_node", "target").orderBy("ts", "node", "seq")
    so_far = (Window.unboundedPreceding, Window.currentRow)
    is_submitted, is_delivered = sf.col("event") == Event.SUBMITTED, sf.col("event") == Event.DELIVERED
    delivered_at = sf.when(is_delivered, sf.col("ts"))
    numbered = (
        _with_source(messages)
        .repartition("message_id")
        .withColumn("submissions", sf.count(sf.when(is_submitted, True)).over(of_message.rowsBetween(*so_far)))
        .withColumns(
            {
                "nth": sf.count(sf.when(is_submitted | is_delivered, True)).over(at_target.rowsBetween(*so_far)),
                "at": sf.last(delivered_at, ignorenulls=True).over(at_target.rowsBetween(*so_far)),
            }
        )
        # What was delivered more often than submitted is the same message again.
        .filter(is_submitted | (sf.col("submissions") == 0) | (sf.col("nth") <= sf.col("submissions")))
    )
    nth = Window.partitionBy("message_id", "nth").orderBy(sf.col("event") != Event.SUBMITTED)
    submission = sf.first(sf.when(is_submitted, sf.struct("source_node", "source", "ts")), ignorenulls=True)
    return (
        numbered.withColumn("submission", submission.over(nth.rowsBetween(*so_far)))
        .filter(~is_submitted & sf.col("at").isNotNull())
        .select(
            "at",
            sf.lit("logical").alias("kind"),
            sf.coalesce("submission.source_node", sf.lit(_NOBODY)).alias("source_node"),
            sf.coalesce("submission.source", sf.lit(_NOBODY)).alias("source"),
            "target_node",
            "target",
            "identity",
            is_delivered.cast("int").alias("count"),
            sf.when(is_delivered, sf.col("bytes")).otherwise(0).alias("bytes"),
            (~is_delivered).cast("int").alias("errors"),
            sf.lit(0).alias("lost"),
            # Messages that nothing tells apart are counted, but which took how long nobody knows.
            sf.when(
                is_delivered & (sf.col("submissions") == 1), us_between(sf.col("submission.ts"), sf.col("at"))
            ).alias("transit_us"),
        )
    )


def _with_source(messages: DataFrame) -> DataFrame:
    """Give each submission the receiver that was handling its cause, and each delivery its target."""
    is_submitted, is_delivered = sf.col("event") == Event.SUBMITTED, sf.col("event") == Event.DELIVERED
    has_failed = (sf.col("event") == Event.HANDLED) & sf.col("reason").isNotNull()
    # A delivery and all that it caused have one key.
    cause = sf.when(is_submitted, sf.coalesce("cause", "seq")).otherwise(sf.col("seq"))
    caused = Window.partitionBy("key").orderBy(~is_delivered, "ts", "seq")
    handling = sf.first(sf.when(is_delivered, sf.col("local_receiver")), ignorenulls=True)
    return (
        messages.filter(sf.col("node").isNotNull() & (is_submitted | is_delivered | has_failed))
        .select(
            "message_id",
            "node",
            sf.xxhash64("node", cause).alias("key"),
            "event",
            "ts",
            "seq",
            "local_receiver",
            "cause",
            "identity",
            "bytes",
        )
        .withColumn("handling", handling.over(caused.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .select(
            "message_id",
            "node",
            "event",
            "ts",
            "seq",
            "identity",
            "bytes",
            sf.col("node").alias("source_node"),
            sf.coalesce(
                sf.when(sf.col("cause").isNotNull(), sf.col("handling")), "local_receiver", sf.lit(_NOBODY)
            ).alias("source"),
            sf.when(~is_submitted, sf.col("node")).alias("target_node"),
            sf.when(~is_submitted, sf.coalesce("local_receiver", sf.lit(_NOBODY))).alias("target"),
        )
    )
