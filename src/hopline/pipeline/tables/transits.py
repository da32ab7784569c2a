"""What one node sent, matched with what the other received. The tables of hops, skew and edges are made of it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.pipeline.tables.by_flow import KIND, is_event
from hopline.pipeline.windows import day, us_between

TRANSIT = ("flow_key", "message_id", "fingerprint", "from_node", "to_node")
# What the same bytes say at both ends.
SAID = ("flow_id", "service", "wire_format", *KIND, "hops", "bytes")


def transits(records: DataFrame) -> DataFrame:
    """Match each `sent` record with its `received` one, where they are the same bytes between the same nodes.

    Args:
        records: The result of `by_flow`.

    Returns:
        One row a transit. The first that was sent is matched with the first that was received, and so on; either side
        may be missing.
    """
    is_sent, is_received, is_rejected = (is_event(one) for one in (Event.SENT, Event.RECEIVED, Event.REJECTED))
    on_the_wire = records.where(
        sf.col("node").isNotNull() & (((is_sent | is_received) & sf.col("peer").isNotNull()) | is_rejected)
    )
    next_event = sf.lead("event").over(Window.partitionBy("flow_key", "message_id", "node").orderBy("seq", "ts"))
    ends = (
        on_the_wire.withColumn("rejected", is_received & (sf.coalesce(next_event, sf.lit("")) == Event.REJECTED.value))
        .where(~is_rejected)
        .select(
            *TRANSIT[:3],
            sf.when(is_sent, sf.col("node")).otherwise(sf.col("peer")).alias("from_node"),
            sf.when(is_sent, sf.col("peer")).otherwise(sf.col("node")).alias("to_node"),
            is_received.alias("is_received"),
            "ts",
            "seq",
            "rejected",
            *SAID,
        )
    )
    return _matched(ends).withColumns(
        {
            "date": day(sf.coalesce("sent_ts", "received_ts")),
            "transit_us": us_between(sf.col("sent_ts"), sf.col("received_ts")),
        }
    )


def _matched(ends: DataFrame) -> DataFrame:
    sent_first = Window.partitionBy(*TRANSIT).orderBy("is_received", "ts", "seq")
    so_far = sent_first.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_received = sf.col("is_received")
    sent = sf.count(sf.when(~is_received, True)).over(so_far)
    nth = sf.row_number().over(sent_first) - sf.when(is_received, sf.col("sent")).otherwise(0)
    is_duplicate = is_received & (sf.col("sent") > 0) & (sf.col("nth") > sf.col("sent"))
    numbered = ends.withColumn("sent", sent).withColumn("nth", nth).withColumn("duplicate", is_duplicate)
    # What the bytes say is a key as well: it is the same for all of them, and text as an aggregate would need a sort.
    return numbered.groupBy(*TRANSIT, "nth", *SAID).agg(
        sf.max(sf.when(~is_received, sf.col("ts"))).alias("sent_ts"),
        sf.max(sf.when(is_received, sf.col("ts"))).alias("received_ts"),
        sf.max(sf.when(~is_received, sf.col("seq"))).alias("sent_seq"),
        sf.max(sf.when(is_received, sf.col("seq"))).alias("received_seq"),
        sf.max("duplicate").alias("duplicate"),
        sf.max("rejected").alias("rejected"),
    )
