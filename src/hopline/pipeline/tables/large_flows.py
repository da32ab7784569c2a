"""What flows add up to that are too large to be counted in one piece: by Spark, as many tasks as it takes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hopline.capture.records import ENDINGS, Event
from hopline.pipeline.traces.columns import OFFENCES

_FAILURES = tuple(ending for ending in ENDINGS if ending != Event.EXPIRED)
_MAX_BYTES_BITS = 40


def totals_of_large_flows(messages: DataFrame, paths: DataFrame) -> DataFrame:
    """Count what is exact whatever the size of the flow, each message once: as `flow_totals`, with no limit."""
    large = paths.where("records is null").select("flow_id")
    event = sf.col("event")
    # Records are first counted where they tell the same: the message crossed between two nodes, or was refused.
    crossed = sf.xxhash64(
        sf.when(event == Event.SENT, sf.col("node")).otherwise(sf.col("peer")),
        sf.when(event == Event.SENT, sf.col("peer")).otherwise(sf.col("node")),
        "hops",
    )
    place = (
        sf.when((event == Event.REJECTED) | _is_offence(), sf.xxhash64("node", "fingerprint"))
        .when(event.isin(Event.SENT, Event.RECEIVED), crossed)
        .otherwise(0)
    )
    # As long as nobody sent it on, a message has the size that it was made with.
    size = _trail().cast("long") * (1 << _MAX_BYTES_BITS) + sf.col("bytes")
    by_place = (
        messages.join(sf.broadcast(large), "flow_id", "left_semi")
        .select(
            "flow_id",
            "message_id",
            place.alias("place"),
            _if(event == Event.SUBMITTED).alias("submitted"),
            _if(event == Event.SENT).alias("sent"),
            _if(event == Event.RECEIVED).alias("received"),
            size.alias("size"),
            _is_offence().alias("is_offence"),
            sf.coalesce(event.isin(*_FAILURES), sf.lit(False)).alias("is_failed"),
            sf.coalesce(event == Event.EXPIRED, sf.lit(False)).alias("is_expired"),
        )
        .repartition(sf.col("flow_id"))
        .groupBy("flow_id", "message_id", "place")
        .agg(
            sf.count("*").alias("records"),
            sf.sum("submitted").alias("submitted"),
            sf.sum("sent").alias("sent"),
            # Of what was sent, whatever came more often is a duplicate.
            sf.when(sf.sum("sent") > 0, sf.sum("sent")).otherwise(sf.sum("received")).alias("hops"),
            sf.min("size").alias("size"),
            sf.max("is_offence").alias("is_offence"),
            sf.max("is_failed").alias("is_failed"),
            sf.max("is_expired").alias("is_expired"),
        )
        .where(~sf.col("is_offence"))
    )
    by_message = by_place.groupBy("flow_id", "message_id").agg(
        sf.sum("records").alias("records"),
        sf.sum("hops").alias("hops"),
        sf.when(sf.sum("submitted") > 0, sf.sum("submitted"))
        .otherwise(sf.greatest(sf.max("sent"), sf.lit(1)))
        .alias("messages"),
        sf.pmod(sf.min("size"), sf.lit(1 << _MAX_BYTES_BITS)).alias("bytes"),
        sf.max("is_failed").alias("is_failed"),
        sf.max("is_expired").alias("is_expired"),
    )
    return by_message.groupBy("flow_id").agg(
        sf.sum("records").alias("records"),
        sf.sum("hops").alias("hops"),
        sf.sum("messages").alias("messages"),
        sf.sum(sf.col("messages") * sf.col("bytes")).alias("bytes"),
        sf.max("is_failed").alias("is_failed"),
        sf.max("is_expired").alias("is_expired"),
    )


def _if(flag: Column) -> Column:
    return sf.when(flag, sf.lit(1)).otherwise(0)


def _is_offence() -> Column:
    return sf.coalesce(sf.col("verdict").isin(*OFFENCES), sf.lit(False))


def _trail() -> Column:
    """Count how often the flow was sent on: a result starts with no hops, but keeps the trace of what it answers."""
    return sf.greatest(sf.coalesce(sf.col("hops"), sf.lit(0)), sf.coalesce(sf.size("routing"), sf.lit(0)))
