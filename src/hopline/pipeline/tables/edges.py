"""Who talks to whom, by window: from node to node, and from the handler that made a message to the one that got it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.capture.records import Event
from hopline.pipeline.percentiles import GROUP, percentile, ranked
from hopline.pipeline.schemas import EDGES
from hopline.pipeline.tables.deliveries import DELIVERING
from hopline.pipeline.traces import TracesOfMessages
from hopline.pipeline.windows import WINDOW_S, day, window_start

_ENDS = ("kind", "source_node", "source", "target_node", "target", "identity")
_GROUP = ("window_start", *_ENDS)
_COUNTS = ("count", "bytes", "errors", "lost")


def edges(
    messages: DataFrame, hops: DataFrame, window_s: int = WINDOW_S, deliveries: DataFrame | None = None
) -> DataFrame:
    """Sum up the hops between nodes, and the messages between handlers.

    `deliveries` are of the same messages, where they were made before.
    """
    deliveries = TracesOfMessages(messages).made_by(DELIVERING) if deliveries is None else deliveries
    columns = ("at", *_ENDS, *_COUNTS, "transit_us")
    both = _physical(hops).select(*columns).unionByName(_logical(deliveries, messages).select(*columns))
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


def _physical(hops: DataFrame) -> DataFrame:
    return hops.select(
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


def _logical(deliveries: DataFrame, messages: DataFrame) -> DataFrame:
    return (
        deliveries.where("cause is null")
        .unionByName(_looked_up(deliveries.where("cause is not null"), messages))
        .select(
            "at",
            sf.lit("logical").alias("kind"),
            "source_node",
            "source",
            "target_node",
            "target",
            "identity",
            sf.col("is_delivered").cast("int").alias("count"),
            "bytes",
            (~sf.col("is_delivered")).cast("int").alias("errors"),
            sf.lit(0).alias("lost"),
            "transit_us",
        )
    )


def _looked_up(deliveries: DataFrame, messages: DataFrame) -> DataFrame:
    """Put the receiver that was handling the cause in the place of the source."""
    at = ["source_node", "cause"]
    handling = (
        messages.where((sf.col("event") == Event.DELIVERED) & sf.col("local_receiver").isNotNull())
        .select(sf.col("node").alias("source_node"), sf.col("seq").alias("cause"), "ts", "local_receiver")
        .join(deliveries.select(*at).distinct(), at, "left_semi")
        .groupBy(*at)
        .agg(sf.min_by("local_receiver", "ts").alias("handling"))
    )
    found = deliveries.join(handling, at, "left")
    return found.withColumn("source", sf.coalesce("handling", "source")).drop("handling")
