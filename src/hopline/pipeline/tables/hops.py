"""Transits between two nodes: what one sent, matched with what the other received."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.records import Event
from hopline.pipeline.schemas import HOPS
from hopline.pipeline.windows import day, us_between

# What the same bytes say at both ends.
_SAID = ("flow_id", "service", "wire_format", "identity", "version", "partition", "hops", "bytes")
_TRANSIT = ("message_id", "fingerprint", "from_node", "to_node")


def transits(messages: DataFrame) -> DataFrame:
    """Match each `sent` with its `received`: the columns of hops without the skew, and whether it was rejected.

    `rejected` is for edges. Several tables are made of it: keep it rather than compute it again.
    """
    is_sent, is_received = sf.col("event") == Event.SENT, sf.col("event") == Event.RECEIVED
    is_rejected = sf.col("event") == Event.REJECTED
    # All that follows asks for the rows of one message together: this is the only shuffle.
    crossings = (
        messages.filter(sf.col("node").isNotNull())
        .filter(((is_sent | is_received) & sf.col("peer").isNotNull()) | is_rejected)
        .select("message_id", "fingerprint", "node", "peer", "event", "ts", "seq", *_SAID)
        .repartition("message_id")
    )
    then = sf.lead("event").over(Window.partitionBy("message_id", "node").orderBy("seq", "ts"))
    ends = crossings.withColumn("rejected", is_received & sf.coalesce(then == Event.REJECTED, sf.lit(False))).select(
        "message_id",
        "fingerprint",
        sf.when(is_sent, sf.col("node")).otherwise(sf.col("peer")).alias("from_node"),
        sf.when(is_sent, sf.col("peer")).otherwise(sf.col("node")).alias("to_node"),
        is_received.alias("is_received"),
        "event",
        "ts",
        "seq",
        "rejected",
        *_SAID,
    )
    return _with_lost(_matched(ends.filter(~is_rejected)), messages)


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


def _matched(ends: DataFrame) -> DataFrame:
    """Match the first sent with the first received, and so on, where they are the same bytes."""
    in_order = Window.partitionBy(*_TRANSIT).orderBy("is_received", "ts", "seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # What was sent comes first, so that its number is known at each received.
    sent = sf.count(sf.when(~sf.col("is_received"), True)).over(so_far)
    nth = sf.row_number().over(in_order) - sf.when(sf.col("is_received"), sf.col("sent")).otherwise(0)
    is_duplicate = sf.col("is_received") & (sf.col("sent") > 0) & (sf.col("nth") > sf.col("sent"))
    numbered = ends.withColumn("sent", sent).withColumn("nth", nth).withColumn("duplicate", is_duplicate)
    sent_only, received_only = ~sf.col("is_received"), sf.col("is_received")
    # What the bytes say is a key as well: it is the same for all of them, and text as an aggregate would need a sort.
    return numbered.groupBy(*_TRANSIT, "nth", *_SAID).agg(
        sf.max(sf.when(sent_only, sf.col("ts"))).alias("sent_ts"),
        sf.max(sf.when(received_only, sf.col("ts"))).alias("received_ts"),
        sf.max(sf.when(sent_only, sf.col("seq"))).alias("sent_seq"),
        sf.max(sf.when(received_only, sf.col("seq"))).alias("received_seq"),
        sf.max("duplicate").alias("duplicate"),
        sf.max("rejected").alias("rejected"),
    )


def _with_lost(matched: DataFrame, messages: DataFrame) -> DataFrame:
    last_seen = messages.groupBy(sf.col("node").alias("to_node")).agg(sf.max("ts").alias("last_ts"))
    never_arrived = sf.col("sent_ts").isNotNull() & sf.col("received_ts").isNull()
    watched = sf.when(sf.col("last_ts") >= sf.col("sent_ts"), True)
    return matched.join(sf.broadcast(last_seen), "to_node", "left").select(
        day(sf.coalesce("sent_ts", "received_ts")).alias("date"),
        *_TRANSIT,
        *_SAID,
        "sent_ts",
        "received_ts",
        "sent_seq",
        "received_seq",
        us_between(sf.col("sent_ts"), sf.col("received_ts")).alias("transit_us"),
        sf.when(never_arrived, watched).otherwise(False).alias("lost"),
        "duplicate",
        "rejected",
    )
