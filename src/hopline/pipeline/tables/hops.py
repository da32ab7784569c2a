"""Transits between two nodes, each with the skew of their clocks and whether it was lost."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.schemas import HOPS


def hops(transits: DataFrame, skew: DataFrame, last_seen: DataFrame) -> DataFrame:
    """Return one row a transit.

    Args:
        transits: Sendings matched with arrivals, as `transits` does it.
        skew: The estimated offsets of the clocks.
        last_seen: The time of each node's last message.

    Returns:
        The table of hops. What never arrived is `lost` where the receiver's capture goes on after the sending, by the
        estimated offset of the two clocks where there is one; null where nobody watched the receiver any more.
    """
    never_arrived = sf.col("sent_ts").isNotNull() & sf.col("received_ts").isNull()
    sent_us = sf.unix_micros("sent_ts") + sf.coalesce("skew_us", sf.lit(0))  # by the receiver's clock
    was_watched = sf.when(sf.unix_micros("last_ts") >= sent_us, True)
    receivers = sf.broadcast(last_seen.withColumnRenamed("node", "to_node"))
    return (
        with_skew(transits, skew, "from_node", "to_node")
        .join(receivers, "to_node", "left")
        .withColumn("lost", sf.when(never_arrived, was_watched).otherwise(False))
        .to(HOPS)
    )


def with_skew(rows: DataFrame, skew: DataFrame, one: str, other: str) -> DataFrame:
    """Add `skew_us`, by how much the other's clock is ahead of the one's that day, and `skew_bound_us`."""
    forwards = skew.select("date", sf.col("node_a").alias(one), sf.col("node_b").alias(other), "offset_us", "bound_us")
    backwards = skew.select(
        "date", sf.col("node_b").alias(one), sf.col("node_a").alias(other), (-sf.col("offset_us")), "bound_us"
    )
    offsets = forwards.union(backwards).withColumnsRenamed({"offset_us": "skew_us", "bound_us": "skew_bound_us"})
    return rows.join(sf.broadcast(offsets), ["date", one, other], "left")
