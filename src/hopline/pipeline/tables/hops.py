"""Transits between two nodes: what one sent, matched with what the other received."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.schemas import HOPS
from hopline.pipeline.tables.matching import MATCHING
from hopline.pipeline.traces import TracesOfMessages
from hopline.pipeline.windows import day, last_seen, us_between


def transits(messages: DataFrame, matched: DataFrame | None = None, ends: DataFrame | None = None) -> DataFrame:
    """Match each `sent` with its `received`: the columns of hops without the skew, and whether it was rejected.

    `rejected` is for edges. `matched` and `ends` are of the same messages, where they were made before.
    """
    matched = TracesOfMessages(messages).made_by(MATCHING) if matched is None else matched
    ends = last_seen(messages) if ends is None else ends
    never_arrived = sf.col("sent_ts").isNotNull() & sf.col("received_ts").isNull()
    watched = sf.when(sf.col("last_ts") >= sf.col("sent_ts"), True)
    return (
        matched.join(sf.broadcast(ends.withColumnRenamed("node", "to_node")), "to_node", "left")
        .withColumns(
            {
                "date": day(sf.coalesce("sent_ts", "received_ts")),
                "transit_us": us_between(sf.col("sent_ts"), sf.col("received_ts")),
                "lost": sf.when(never_arrived, watched).otherwise(False),
            }
        )
        .drop("last_ts")
    )


def hops(transits: DataFrame, skew: DataFrame) -> DataFrame:
    """Put the estimated skew of the two clocks beside each transit."""
    forwards = sf.col("from_node") < sf.col("to_node")
    estimates = sf.broadcast(skew.select("date", "node_a", "node_b", "offset_us", "bound_us"))
    return (
        transits.withColumns(
            {"node_a": sf.least("from_node", "to_node"), "node_b": sf.greatest("from_node", "to_node")},
        )
        .join(estimates, ["date", "node_a", "node_b"], "left")
        .withColumn("skew_us", sf.when(forwards, sf.col("offset_us")).otherwise(-sf.col("offset_us")))
        .withColumnRenamed("bound_us", "skew_bound_us")
        .to(HOPS)
    )
