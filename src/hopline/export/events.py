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
    crossings = _crossings(origins, hops)
    endings = _endings(records)
    rows = crossings.unionByName(endings)
    in_order = Window.partitionBy(*_SPAN).orderBy("time_us", "name", "attributes")
    nth = sf.row_number().over(in_order)
    is_shown = sf.col("nth") <= EVENTS_LIMIT
    event = sf.struct("time_us", "name", "attributes")
    shown_events = sf.collect_list(sf.when(is_shown, event))
    beyond_limit = sf.count("*") - EVENTS_LIMIT
    dropped_events = sf.greatest(beyond_limit, sf.lit(0)).cast("int")
    is_failure = sf.col("failure").isNotNull()
    failure = sf.struct("time_us", "failure", "failure_text")
    first_failure = sf.min(sf.when(is_failure, failure))
    return (
        rows.withColumn("nth", nth)
        .groupBy(*_SPAN)
        .agg(
            sf.array_sort(shown_events).alias("events"),
            dropped_events.alias("dropped_events"),
            first_failure["failure"].alias("failure"),
            first_failure["failure_text"].alias("failure_text"),
            sf.max("left_us").alias("left_us"),
        )
    )


def _crossings(origins: DataFrame, hops: DataFrame) -> DataFrame:
    """Return an event for each hop, by the sender's clock, or the receiver's where only the arrival was seen."""
    from_node = sf.col("from_node")
    is_lost = flag(sf.col("lost"))
    is_duplicate = flag(sf.col("duplicate"))
    is_rejected = flag(sf.col("rejected"))
    is_only_received = sf.col("sent_ts").isNull()
    producer_there = sf.try_element_at("by_node", from_node)
    was_made_there = producer_there.isNotNull()
    receiver = printable_name(sf.col("to_node"))
    lost = sf.concat(sf.lit("lost on the way to "), receiver)
    return hops.join(origins, [*MESSAGE]).select(
        "trace_id",
        producer_of(from_node).alias("span_id"),
        micros("sent_ts", "received_ts").alias("time_us"),
        sf.lit("hop").alias("name"),
        at.attributes(
            at.name("hopline.node", "from_node"),
            at.name("hopline.peer", "to_node"),
            at.number("hopline.hops", "hops"),
            at.word("hopline.wire_format", "wire_format"),
            at.number("hopline.bytes", "bytes"),
            at.number("hopline.transit_us", "transit_us"),
            at.number("hopline.skew_us", "skew_us"),
            at.number("hopline.skew_bound_us", "skew_bound_us"),
            at.true_flag("hopline.lost", is_lost),
            at.true_flag("hopline.duplicate", is_duplicate),
            at.true_flag("hopline.only_received", is_only_received),
            at.true_flag("hopline.rejected", is_rejected),
        ).alias("attributes"),
        sf.when(is_lost, "lost").alias("failure"),
        sf.when(is_lost, lost).alias("failure_text"),
        sf.when(was_made_there, sf.unix_micros("sent_ts")).alias("left_us"),
    )


def _endings(records: DataFrame) -> DataFrame:
    """Return an event for each ending, and for each time that a message was given back to its node."""
    is_given_back = is_event(Event.SUBMITTED) & ~is_submission()
    name = sf.when(is_given_back, "given back").otherwise(sf.col("event"))
    reason = sf.nullif(sf.col("reason"), sf.lit(""))
    failure_text = sf.concat_ws(": ", "event", printable_text(reason))
    is_failure = ~is_given_back
    return records.where(is_event(*ENDINGS) | is_given_back).select(
        "trace_id",
        sf.col("producer_id").alias("span_id"),
        micros("ts").alias("time_us"),
        name.alias("name"),
        at.attributes(
            at.name("hopline.node", "node"),
            at.text("hopline.reason", reason),
        ).alias("attributes"),
        sf.when(is_failure, sf.col("event")).alias("failure"),
        sf.when(is_failure, failure_text).alias("failure_text"),
        sf.lit(None).cast("long").alias("left_us"),
    )


def micros(*columns: str) -> Column:
    """Return the first known of some times as microseconds since 1970; 0 if all are unknown, or before that."""
    zero = sf.lit(0)
    times = [sf.unix_micros(column) for column in columns]
    first_time = sf.coalesce(*times, zero)
    return sf.greatest(first_time, zero)
