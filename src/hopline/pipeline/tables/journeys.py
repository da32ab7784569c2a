"""Journeys: a flow with all that its handlers began, how it ended, and where the time went through all of it.

Theory of operation
-------------------
The critical path of a flow stops at the flows that its handlers waited for: a stage `ask` names the flow, and takes as
long as that flow did. Here these stages are replaced by the path of the flow that they name, level by level, until
none is left. What a handler waited beyond the end of a flow that never answered is a stage `unanswered`.

Every round gives each stage one more number, its place among the parts of the stage that it comes from, so that sorting
by all numbers gives the order of travel. All stages still sum to the duration of the first flow.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType

from hopline.capture.events import Event
from hopline.pipeline.tables.asks import STAGE
from hopline.pipeline.tables.by_flow import is_event, is_offence
from hopline.pipeline.tables.findings import SHOWN, Finding, Seen, duration, longest_stage, number, short
from hopline.pipeline.tables.table import DATE, FLAG, INT, LONG, PROVISIONAL, TEXT, TIME, Table, columns

LEVELS_LIMIT = 32
"""Flows inside flows whose paths are followed; a stage `ask` stays what it is below that."""
FLOWS_LIMIT = 1_000
"""Of a journey with more flows, the critical path is that of its first flow."""

OUTCOMES = ("complete", "orphan", "truncated", "unanswered", "expired", "failed")
"""The outcome of a journey is the worst of its flows' outcomes; here the worst is last."""

JOURNEYS = columns(
    ("date", DATE, "day of the start"),
    ("journey_id", TEXT, "flow that it began with"),
    ("start_ts", TIME, "time of the first event of that flow, by the clock of its node"),
    ("end_ts", TIME, "time of the last event of the critical path, by the clock of its node"),
    ("duration_us", LONG, "end_ts - start_ts, not corrected for the clocks"),
    ("origin", TEXT, "node that began it; null where the first flow is an orphan"),
    ("identity", TEXT, "kind of the first message"),
    ("flows", LONG, "number of flows, at least 2"),
    ("depth", INT, "number of flows on the longest way from parent to child"),
    ("messages", LONG, "number of messages of all flows"),
    ("hops", LONG, "number of transits between nodes of all flows"),
    ("nodes", LONG, "number of nodes that recorded some of it"),
    ("bytes", LONG, "bytes of the messages of all flows"),
    ("outcome", TEXT, "worst outcome of its flows: failed, expired, unanswered, truncated, orphan or complete"),
    ("outcome_flow_id", TEXT, "flow with that outcome: the deepest, of several the first"),
    ("skew_us", LONG, "estimated part of the duration that is a difference of clocks, last node minus first"),
    ("skew_bound_us", LONG, "largest possible error of that estimate; 0 for one clock"),
    (
        "critical_path",
        ArrayType(STAGE),
        "stages from the first event to the last, each with its flow; their times sum to duration_us",
    ),
    (PROVISIONAL, FLAG, "true while a stream knows the skew of the day up to now only"),
)

_OF_FIRST_FLOW = ("date", "start_ts", "end_ts", "duration_us", "origin", "identity", "skew_us", "skew_bound_us")


def journeys(flows: DataFrame, nesting: DataFrame, records: DataFrame) -> DataFrame:
    """Return one row a journey of at least two flows.

    Args:
        flows: The table of flows.
        nesting: The result of `hopline.pipeline.tables.nesting.nesting`.
        records: The result of `by_flow`.
    """
    levels = nesting.where("level > 0").select("flow_id", "journey_id", "level")
    first = levels.select("journey_id").distinct()
    members = levels.union(first.select(sf.col("journey_id").alias("flow_id"), "journey_id", sf.lit(0)))
    flows_of_journeys = flows.drop("journey_id").join(members, "flow_id")
    deepest = levels.agg(sf.max("level")).first()
    rounds = min((deepest[0] if deepest else None) or 0, LEVELS_LIMIT)
    first_flows = flows_of_journeys.where("level = 0").select("journey_id", *_OF_FIRST_FLOW)
    return (
        first_flows.join(_totals(flows_of_journeys), "journey_id")
        .join(_nodes(records, members), "journey_id", "left")
        .join(_paths(flows_of_journeys, rounds), "journey_id", "left")
        .withColumn("nodes", sf.coalesce("nodes", sf.lit(0)))
        .withColumn("critical_path", sf.coalesce("critical_path", sf.array().cast(ArrayType(STAGE))))
        .to(JOURNEYS)
    )


def _totals(flows: DataFrame) -> DataFrame:
    """Return what all flows of each journey are together."""
    severity = sf.array_position(sf.array(*(sf.lit(outcome) for outcome in OUTCOMES)), sf.col("outcome"))
    worst = sf.max(
        sf.struct(severity.alias("severity"), "level", (-sf.unix_micros("start_ts")).alias("age"), "flow_id", "outcome")
    )
    return (
        flows.groupBy("journey_id")
        .agg(
            sf.count("*").alias("flows"),
            (sf.max("level") + 1).alias("depth"),
            *(sf.sum(name).alias(name) for name in ("messages", "hops", "bytes")),
            worst.alias("worst"),
        )
        .withColumns({"outcome": sf.col("worst.outcome"), "outcome_flow_id": sf.col("worst.flow_id")})
        .drop("worst")
    )


def _nodes(records: DataFrame, members: DataFrame) -> DataFrame:
    """Count the nodes that recorded some of each journey."""
    seen = records.where(
        sf.col("flow_id").isNotNull() & sf.col("node").isNotNull() & ~is_offence() & ~is_event(Event.REJECTED)
    )
    return (
        seen.select("flow_id", "node")
        .join(members, "flow_id")
        .groupBy("journey_id")
        .agg(sf.countDistinct("node").alias("nodes"))
    )


def _paths(flows: DataFrame, rounds: int) -> DataFrame:
    """Return the critical path of each journey, with the paths of the flows that were waited for in their places."""
    small = flows.groupBy("journey_id").agg((sf.count("*") <= FLOWS_LIMIT).alias("is_small"))
    is_ask = sf.col("stage.stage") == "ask"
    stages = (
        flows.where("level = 0")
        .join(small, "journey_id")
        .select("journey_id", "is_small", sf.posexplode(_with_flow()).alias("nth", "stage"))
        .select("journey_id", "is_small", sf.array("nth").alias("place"), "stage")
    )
    asked = flows.where("level > 0").select(
        sf.col("flow_id").alias("asked"), sf.col("duration_us").alias("took_us"), _with_flow().alias("path")
    )
    for _ in range(rounds):
        is_known = (sf.size("path") > 0) & (sf.col("took_us") <= sf.col("stage.us"))
        stages = (
            stages.withColumn("asked", sf.when(is_ask & sf.col("is_small"), sf.col("stage.flow_id")))
            .join(asked, "asked", "left")
            .withColumn("parts", sf.when(is_known, _with_rest()).otherwise(sf.array("stage")))
            .select("journey_id", "is_small", "place", sf.posexplode("parts").alias("nth", "stage"))
            .select("journey_id", "is_small", sf.concat("place", sf.array("nth")).alias("place"), "stage")
        )
    in_order = sf.sort_array(sf.collect_list(sf.struct("place", "stage")))
    return stages.groupBy("journey_id").agg(in_order["stage"].alias("critical_path"))


def _with_flow() -> Column:
    """Return the critical path of a flow with the flow in each stage; an `ask` has that which was asked."""
    return sf.transform(
        "critical_path", lambda stage: _changed(stage, flow_id=sf.coalesce(stage["flow_id"], sf.col("flow_id")))
    )


def _with_rest() -> Column:
    """Return the path of the flow that was asked, and what was waited beyond its end, where it did not answer."""
    rest_us = sf.col("stage.us") - sf.col("took_us")
    rest = _changed(sf.col("stage"), stage=sf.lit("unanswered"), us=rest_us)
    return sf.when(rest_us > 0, sf.concat("path", sf.array(rest))).otherwise(sf.col("path"))


def _changed(of: Column, **fields: Column) -> Column:
    return sf.struct(*(fields.get(name, of[name]).alias(name) for name in STAGE.names))


def _slowest(seen: Seen) -> Finding:
    rows = seen.rows(
        "journey_id, outcome, identity, origin, flows, duration_us, critical_path",
        then=f"order by duration_us - coalesce(skew_us, 0) desc, journey_id limit {SHOWN}",
    )
    journey = rows[0]["journey_id"] if rows else ""
    return Finding(
        "Slowest journeys: flows with all that their handlers began",
        ("journey", "outcome", "first message", "node", "flows", "duration", "longest stage"),
        tuple(
            (
                row["journey_id"],
                row["outcome"],
                row["identity"] or "",
                short(row["origin"]),
                number(row["flows"]),
                duration(row["duration_us"]),
                longest_stage(row["critical_path"]),
            )
            for row in rows
        ),
        seen.command("journey_id = '" + journey.replace("'", "''") + "'"),
    )


TABLE = Table(
    name="journeys",
    meaning="one row per flow whose handlers began others, with all of them: duration, outcome, critical path",
    schema=JOURNEYS,
    shown_first=("start_ts", "journey_id", "identity", "flows", "outcome", "duration_us"),
    sorted_by=("journey_id",),
    looked_up_by=("journey_id",),
    function=journeys,
    findings=(_slowest,),
)
