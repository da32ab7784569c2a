"""Transits between two nodes, each with the skew of their clocks and whether it was lost."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.tables.findings import Finding, Seen, number, short
from hopline.pipeline.tables.table import DATE, FLAG, INT, LONG, PROVISIONAL, TEXT, TIME, Table, columns

HOPS = columns(
    ("date", DATE, "day of sending, or of the arrival if only that was seen"),
    ("from_node", TEXT, "node that sent it"),
    ("to_node", TEXT, "node that it was sent to"),
    ("flow_id", TEXT, "flow, or null"),
    ("message_id", LONG, "message"),
    ("fingerprint", LONG, "hash of its frames on this hop"),
    ("service", FLAG, "one of the protocol's own messages"),
    ("wire_format", TEXT, "format on this hop"),
    ("identity", TEXT, "kind of message"),
    ("version", TEXT, "version of the kind"),
    ("partition", TEXT, "partition of the kind"),
    ("hops", INT, "hop count of the message on this hop"),
    ("bytes", LONG, "bytes in all frames"),
    ("sent_ts", TIME, "time of sending, by the sender's clock; null if only the arrival was seen"),
    ("received_ts", TIME, "time of arrival, by the receiver's clock; null if it was not seen to arrive"),
    ("sent_seq", LONG, "seq of the sender's record"),
    ("received_seq", LONG, "seq of the receiver's record"),
    ("transit_us", LONG, "received_ts - sent_ts, not corrected for the clocks"),
    ("skew_us", LONG, "estimated difference of the clocks, receiver minus sender"),
    ("skew_bound_us", LONG, "largest possible error of that estimate"),
    ("lost", FLAG, "true if it never arrived; null if the receiver's capture does not go on long enough to tell"),
    ("duplicate", FLAG, "true if it arrived more often than it was sent"),
    ("rejected", FLAG, "true if the receiver rejected it"),
    (PROVISIONAL, FLAG, "true while a stream knows the skew of the day up to now only"),
)


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


def _lost_and_duplicate(seen: Seen) -> Finding:
    links = seen.rows(
        "from_node, to_node, count(*) filter (lost) as lost, count(*) filter (lost is not true) as duplicates",
        "lost or duplicate",
        then="group by all order by count(*) desc, from_node, to_node",
    )
    rows = [
        (short(link["from_node"]), short(link["to_node"]), number(link["lost"]), number(link["duplicates"]))
        for link in links
    ]
    lost, duplicates = (sum(link[kind] for link in links) for kind in ("lost", "duplicates"))
    title = f"Lost and duplicate hops: {number(lost)} lost, {number(duplicates)} duplicates"
    headers = ("from", "to", "lost", "duplicates")
    return Finding(title, headers, tuple(rows), seen.command("lost or duplicate"), is_trouble=True)


TABLE = Table(
    name="hops",
    meaning="one row per transit between two nodes: time, lost, duplicate",
    schema=HOPS,
    shown_first=("sent_ts", "from_node", "to_node", "flow_id", "transit_us", "lost", "duplicate"),
    looked_up_by=("flow_id",),
    function=hops,
    findings=(_lost_and_duplicate,),
)
