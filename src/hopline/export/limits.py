"""The limit of one trace: what no viewer could show, and no task could hold, is counted instead.

A flow of millions of records, such as one that goes round in a loop, would be one trace. Of a journey with more records
than the limit, the record that begins it and the first ones by time are exported, and the trace says how many are
missing. Parents are looked up among what is exported, so nothing refers to what is not.

Journeys that long are rare. The table of flows has the number of records, so the others cost nothing here.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from hopline.pipeline.tables.by_flow import flag

RECORDS_A_TRACE = 50_000

_LAST = "struct<is_later: boolean, ts: timestamp, node: string, seq: bigint>"


def long_journeys(flows: DataFrame, limit: int) -> DataFrame:
    """Return the ids of journeys with more records than a limit, by the table of flows."""
    records = sf.sum("records").alias("records")
    totals = flows.groupBy("journey_id").agg(records)
    is_long = sf.col("records") > limit
    return totals.where(is_long).select("journey_id")


def cuts(records: DataFrame, flows: DataFrame, limit: int) -> DataFrame:
    """Return one row a journey with more records than a limit.

    Args:
        records: Rows of the table of messages: those that may become spans.
        flows: Rows of the table of flows.
        limit: How many records of one journey are exported.

    Returns:
        Where the last of them is (`last`), and how many come after it (`dropped_records`).
    """
    long = long_journeys(flows, limit)
    members = (
        flows.select("flow_id", "journey_id", "origin", "start_ts")
        # There are few: each has more records than the limit.
        .join(sf.broadcast(long), "journey_id")
    )
    position = _position().alias("position")
    positions = records.join(members, "flow_id").select("journey_id", position)
    in_order = Window.partitionBy("journey_id").orderBy("position")
    nth = sf.row_number().over(in_order)
    is_kept = sf.col("nth") <= limit
    kept_position = sf.when(is_kept, sf.col("position"))
    return (
        positions.withColumn("nth", nth)
        .groupBy("journey_id")
        .agg(
            sf.max(kept_position).alias("last"),
            sf.count_if(~is_kept).alias("dropped_records"),
        )
        .where("dropped_records > 0")
    )


def with_cuts(flows: DataFrame, cuts: DataFrame | None) -> DataFrame:
    """Add the columns of `cuts` to the table of flows; they are null where a journey is exported whole."""
    if cuts is None:
        nothing = sf.lit(None)
        no_cuts = {
            "last": nothing.cast(_LAST),
            "dropped_records": nothing.cast("bigint"),
        }
        return flows.withColumns(no_cuts)
    return flows.join(sf.broadcast(cuts), "journey_id", "left")


def is_within_limit() -> Column:
    """Return whether a record is exported, by its own columns and those of `with_cuts`."""
    last = sf.col("last")
    is_whole = last.isNull()
    return is_whole | (_position() <= last)


def _position() -> Column:
    """Return the position of a record in its journey: the one that began it first, then by recorded time."""
    is_on_origin = sf.col("node") == sf.col("origin")
    is_at_start = sf.col("ts") == sf.col("start_ts")
    is_first_flow = sf.col("flow_id") == sf.col("journey_id")
    is_later = ~flag(is_on_origin & is_at_start & is_first_flow)
    return sf.struct(
        is_later.alias("is_later"),
        "ts",
        "node",
        "seq",
    )
