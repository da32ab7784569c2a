"""What happens to a message after it was made, as events of its producer span: hops, endings, being given back."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import ENDINGS, Event
from hopline.export import attributes as at
from hopline.export.records import MESSAGE, is_submission, producer_of
from hopline.export.text import printable_name, printable_text
from hopline.pipeline.tables.by_flow import flag, is_event

EVENTS_LIMIT = 128
"""Events of one span, OpenTelemetry's own default; further ones are counted."""

_SPAN = ("trace_id", "span_id")


def events(records: DataFrame, origins: DataFrame, hops: DataFrame) -> DataFrame:
    """Return one row a producer span that has events.

    Args:
        records: The result of `with_spans`.
        origins: The result of `origins`.
        hops: Rows of the table of hops.

    Returns:
        The first events by time, how many there are besides (`dropped_events`), the kind of the first failure among
        all (`failure`) and the same in words (`failure_text`), and when the message left the node that made it for
        the last time (`left_us`).
    """
    rows = _crossings(origins, hops).unionByName(_endings(records))
    in_order = Window.partitionBy(*_SPAN).orderBy("time_us", "name", "attributes")
    shown = sf.when(sf.col("nth") <= EVENTS_LIMIT, sf.struct("time_us", "name", "attributes"))
    first_failure = sf.min(sf.when(sf.col("failure").isNotNull(), sf.struct("time_us", "failure", "failure_text")))
    return (
        rows.withColumn("nth", sf.row_number().over(in_order))
        .groupBy(*_SPAN)
        .agg(
            sf.array_sort(sf.collect_list(shown)).alias("events"),
            sf.greatest(sf.count("*") - EVENTS_LIMIT, sf.lit(0)).cast("int").alias("dropped_events"),
            first_failure["failure"].alias("failure"),
            first_failure["failure_text"].alias("failure_text"),
            sf.max("left_us").alias("left_us"),
        )
    )


def _crossings(origins: DataFrame, hops: DataFrame) -> DataFrame:
    """Return an event for each hop, by the sender's clock, or the receiver's where only the arrival was seen."""
    is_lost = flag(sf.col("lost"))
    was_made_there = sf.try_element_at("by_node", sf.col("from_node")).isNotNull()
    lost = sf.concat(sf.lit("lost on the way to "), printable_name(sf.col("to_node")))
    return hops.join(origins, [*MESSAGE]).select(
        "trace_id",
        producer_of(sf.col("from_node")).alias("span_id"),
        micros("sent_ts", "received_ts").alias("time_us"),
        sf.lit("hop").alias("name"),
        at.attributes(
            at.name("hopline.node", sf.col("from_node")),
            at.name("hopline.peer", sf.col("to_node")),
            at.number("hopline.hops", sf.col("hops")),
            at.word("hopline.wire_format", sf.col("wire_format")),
            at.number("hopline.bytes", sf.col("bytes")),
            at.number("hopline.transit_us", sf.col("transit_us")),
            at.number("hopline.skew_us", sf.col("skew_us")),
            at.number("hopline.skew_bound_us", sf.col("skew_bound_us")),
            at.flag("hopline.lost", sf.when(is_lost, True)),
            at.flag("hopline.duplicate", sf.when(flag(sf.col("duplicate")), True)),
            at.flag("hopline.only_received", sf.when(sf.col("sent_ts").isNull(), True)),
            at.flag("hopline.rejected", sf.when(flag(sf.col("rejected")), True)),
        ).alias("attributes"),
        sf.when(is_lost, "lost").alias("failure"),
        sf.when(is_lost, lost).alias("failure_text"),
        sf.when(was_made_there, sf.unix_micros("sent_ts")).alias("left_us"),
    )


def _endings(records: DataFrame) -> DataFrame:
    """Return an event for each ending, and for each time that a message was given back to its node."""
    is_given_back = is_event(Event.SUBMITTED) & ~is_submission()
    name = sf.when(is_given_back, "given back").otherwise(sf.col("event"))
    reason = printable_text(sf.nullif(sf.col("reason"), sf.lit("")))
    return records.where(is_event(*ENDINGS) | is_given_back).select(
        "trace_id",
        sf.col("producer_id").alias("span_id"),
        micros("ts").alias("time_us"),
        name.alias("name"),
        at.attributes(
            at.name("hopline.node", sf.col("node")),
            at.text("hopline.reason", sf.nullif(sf.col("reason"), sf.lit(""))),
        ).alias("attributes"),
        sf.when(~is_given_back, sf.col("event")).alias("failure"),
        sf.when(~is_given_back, sf.concat_ws(": ", "event", reason)).alias("failure_text"),
        sf.lit(None).cast("long").alias("left_us"),
    )


def micros(*columns: str) -> Column:
    """Return the first known of some times as microseconds since 1970; 0 if all are unknown, or before that."""
    known = sf.coalesce(*(sf.unix_micros(column) for column in columns), sf.lit(0))
    return sf.greatest(known, sf.lit(0))
