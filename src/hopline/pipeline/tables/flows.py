"""Flows, one row a correlation id: how it ended, how long it took, and where the time went."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType

from hopline.capture.events import ENDINGS, Event
from hopline.pipeline.paths.causality import EVENTS
from hopline.pipeline.paths.walk import COLUMNS, FLOW_DETAIL_LIMIT, PATHS, walk
from hopline.pipeline.tables.asks import STAGE, asks, with_asks
from hopline.pipeline.tables.by_flow import flag, is_event, is_offence, name_of_handler, text
from hopline.pipeline.tables.findings import SHOWN, Finding, Seen, duration, longest_stage, number, short
from hopline.pipeline.tables.hops import with_skew
from hopline.pipeline.tables.table import DATE, FLAG, INT, LONG, PROVISIONAL, TEXT, TIME, Table, columns
from hopline.pipeline.windows import day

FLOWS = columns(
    ("date", DATE, "day of the start"),
    ("flow_id", TEXT, "correlation id"),
    ("start_ts", TIME, "time of the first event, by the clock of its node"),
    ("end_ts", TIME, "time of the last event of the critical path, by the clock of its node"),
    ("duration_us", LONG, "end_ts - start_ts, not corrected for the clocks"),
    ("origin", TEXT, "node that began it; null for an orphan"),
    ("identity", TEXT, "kind of the first message"),
    ("messages", LONG, "number of messages, each counted once however many nodes recorded it"),
    ("records", LONG, "number of records of these messages"),
    ("hops", LONG, "number of transits between nodes"),
    ("nodes", LONG, "number of nodes that recorded some of it"),
    ("bytes", LONG, "bytes of all messages, each counted once, with its size before it travelled"),
    ("depth", INT, "number of messages on the longest chain of causes"),
    ("outcome", TEXT, "complete, failed, unanswered, expired, truncated or orphan"),
    (
        "skew_us",
        LONG,
        "estimated part of the duration that is a difference of clocks, last node minus first; 0 for one clock",
    ),
    ("skew_bound_us", LONG, "largest possible error of that estimate; 0 for one clock"),
    ("critical_path", ArrayType(STAGE), "stages from the first event to the last; their times sum to duration_us"),
    ("parent_flow_id", TEXT, "flow whose handler sent its first message; null where no handler did"),
    ("journey_id", TEXT, "flow that it all began with, found from parent to parent; its own where it has no parent"),
    (PROVISIONAL, FLAG, "true while a stream knows the skew of the day up to now only"),
)

_FLOW = ("flow_key", "flow_id")
_FAILURES = tuple(ending for ending in ENDINGS if ending is not Event.EXPIRED)
_ANSWERS = ("answered", "exception", "late")
_IN_VAIN = ("expired", "late")


def flows(
    records: DataFrame, walked: DataFrame, nesting: DataFrame, callbacks: DataFrame, hops: DataFrame
) -> DataFrame:
    """Return one row a flow: exact totals, the outcome, and the critical path of its first records.

    Args:
        records: The result of `by_flow`.
        walked: The result of `walked`.
        nesting: The result of `hopline.pipeline.tables.nesting.nesting`.
        callbacks: The table of callbacks.
        hops: The table of hops.
    """
    stitched = records.where(sf.col("flow_id").isNotNull())
    lost = hops.where("lost and flow_id is not null").select("flow_id", "lost").distinct()
    start, end = (sf.timestamp_micros(name) for name in ("start_us", "end_us"))
    return (
        _totals(stitched)
        .join(_begun(walked, nesting), "flow_id")
        .join(_answers(callbacks), "flow_id", "left")
        .join(lost, "flow_id", "left")
        .join(asks(nesting, callbacks), "flow_id", "left")
        .withColumns(
            {
                "date": day(start),
                "start_ts": start,
                "end_ts": end,
                "duration_us": sf.col("end_us") - sf.col("start_us"),
                "outcome": _outcome(),
                "critical_path": with_asks(),
            }
        )
        .to(FLOWS)
    )


def _totals(stitched: DataFrame) -> DataFrame:
    """Return what is exact whatever the size of the flow, each message counted once."""
    is_sent, is_received = is_event(Event.SENT), is_event(Event.RECEIVED)
    from_node = sf.when(is_sent, sf.col("node")).otherwise(sf.col("peer"))
    to_node = sf.when(is_sent, sf.col("peer")).otherwise(sf.col("node"))
    # Records that tell the same are counted together: the message crossed between two nodes, or was refused by one.
    place = (
        sf.when(is_event(Event.REJECTED) | is_offence(), sf.xxhash64("node", "fingerprint"))
        .when(is_sent | is_received, sf.xxhash64(from_node, to_node, "hops"))
        .otherwise(0)
    )
    by_place = stitched.groupBy(*_FLOW, "message_id", place.alias("place")).agg(
        sf.count("*").alias("records"),
        sf.count_if(is_event(Event.SUBMITTED)).alias("submitted"),
        sf.count_if(is_sent).alias("sent"),
        sf.count_if(is_received).alias("received"),
        # As long as nobody sent it on, a message has the size that it was made with.
        sf.min(sf.struct("trail", "bytes")).alias("first"),
        sf.max(is_offence()).alias("is_offence"),
        # All messages that have one id have one callback.
        sf.max(sf.when(is_event(*_FAILURES), _waiting("callback_receiver", "callback_key"))).alias("failed_for"),
        sf.max(is_event(Event.EXPIRED)).alias("is_expired"),
    )
    is_own = ~sf.col("is_offence")
    # Of what was sent, whatever arrived more often is a duplicate.
    crossed = sf.when(sf.col("sent") > 0, sf.col("sent")).otherwise(sf.col("received"))
    by_message = by_place.groupBy(*_FLOW, "message_id").agg(
        sf.sum("records").alias("all_records"),
        sf.sum(sf.when(is_own, sf.col("records"))).alias("records"),
        sf.sum(sf.when(is_own, crossed)).alias("hops"),
        sf.sum(sf.when(is_own, sf.col("submitted"))).alias("submitted"),
        sf.max(sf.when(is_own, sf.col("sent"))).alias("sent"),
        sf.min(sf.when(is_own, sf.col("first"))).alias("first"),
        sf.max(sf.when(is_own, sf.col("failed_for"))).alias("failed_for"),
        sf.max(sf.when(is_own, sf.col("is_expired"))).alias("is_expired"),
    )
    copies = sf.when(sf.col("submitted") > 0, sf.col("submitted")).otherwise(sf.greatest("sent", sf.lit(1)))
    messages = sf.when(sf.col("records").isNotNull(), copies)
    return (
        by_message.withColumn("messages", messages)
        .groupBy(*_FLOW)
        .agg(
            sf.sum("all_records").alias("all_records"),
            sf.sum("records").alias("records"),
            sf.sum("hops").alias("hops"),
            sf.sum("messages").alias("messages"),
            sf.sum(sf.col("messages") * sf.col("first.bytes")).alias("bytes"),
            sf.collect_set("failed_for").alias("failed_for"),
            flag(sf.max("is_expired")).alias("is_expired"),
        )
        .drop("flow_key")
    )


def _begun(walked: DataFrame, nesting: DataFrame) -> DataFrame:
    """Return one row a flow with its parent: that it was sent by a handler is assumed only where there is proof."""
    parents = nesting.select("flow_id", "parent_flow_id", "journey_id", sf.col("is_assumed").alias("is_proven"))
    return (
        walked.join(parents, "flow_id", "left")
        .where(sf.col("is_assumed") == flag(sf.col("is_proven")))
        .withColumn("journey_id", sf.coalesce("journey_id", "flow_id"))
    )


def walked(records: DataFrame, skew: DataFrame) -> DataFrame:
    """Return where the time of each flow went: its records, in order, are walked in Arrow batches of whole flows.

    Several tables are made of the result: persist it rather than compute it again.

    Args:
        records: The result of `by_flow`.
        skew: The table of skew.
    """
    stitched = records.where(sf.col("flow_id").isNotNull())
    number = sf.array_position(sf.array(*(sf.lit(event) for event in EVENTS)), sf.col("event"))
    return (
        with_skew(stitched, skew, "peer", "node")
        .withColumns(
            {
                "ts_us": sf.unix_micros("ts"),
                "event_number": sf.coalesce(number, sf.lit(0)),
                "is_offence": is_offence(),
                "handler_name": sf.when(is_event(Event.DELIVERED), name_of_handler()),
            }
        )
        .select("flow_key", *COLUMNS)
        .sortWithinPartitions(*_FLOW, "trail", "ts_us", "node", "seq")
        .select(*COLUMNS)
        .mapInArrow(walk, from_arrow_schema(PATHS))
    )


def _answers(callbacks: DataFrame) -> DataFrame:
    """Return how the requests of each flow ended, by their last attempts, and what waited for the attempts before."""
    outcome = sf.when(~sf.col("asked_again"), sf.col("outcome"))
    earlier = sf.when(sf.col("asked_again"), _waiting("asked_receiver", "callback_key"))
    return callbacks.groupBy("flow_id").agg(
        sf.lit(True).alias("is_asked"),
        sf.max(outcome == "exception").alias("got_exception"),
        sf.max(outcome.isin(*_ANSWERS)).alias("got_answer"),
        sf.max(outcome.isin(*_IN_VAIN)).alias("waited_in_vain"),
        sf.max(outcome == "unanswered").alias("is_unanswered"),
        sf.collect_list(earlier).alias("given_up"),
    )


def _waiting(hub: str, key: str) -> Column:
    """Return the number of the promise that a message of a flow has to do with: its hub, and its number there."""
    return sf.xxhash64(text(hub), sf.coalesce(sf.col(key), sf.lit(0)))


def _outcome() -> Column:
    is_asked = flag(sf.col("is_asked"))
    given_up = sf.coalesce("given_up", sf.array().cast("array<bigint>"))
    is_failed = sf.size(sf.array_except("failed_for", given_up)) > 0
    return (
        sf.when(sf.col("all_records") > FLOW_DETAIL_LIMIT, "truncated")
        .when(sf.col("origin").isNull(), "orphan")
        .when(sf.col("got_exception") | (is_failed & ~flag(sf.col("got_answer"))), "failed")
        .when(~is_asked & sf.col("lost"), "failed")
        .when(sf.col("waited_in_vain") | (~is_asked & sf.col("is_expired")), "expired")
        .when(sf.col("is_unanswered"), "unanswered")
        .otherwise("complete")
    )


def _by_outcome(seen: Seen) -> Finding:
    rows = tuple((outcome, number(count)) for (outcome,), count in seen.counts("outcome"))
    command = seen.command("outcome = 'failed'", "duration_us desc")
    return Finding("Flows by outcome", ("outcome", "flows"), rows, command)


def _worst_flows(seen: Seen) -> Finding:
    columns = "flow_id, outcome, identity, origin, messages, duration_us, skew_us, critical_path"
    # As they are, the worst would be those between odd clocks.
    worst = f"order by duration_us - coalesce(skew_us, 0) desc, flow_id limit {SHOWN}"
    rows = seen.rows(columns, "outcome <> 'complete'", then=worst)
    trouble = bool(rows)
    rows = rows or seen.rows(columns, then=worst)
    flow = rows[0]["flow_id"] if rows else ""
    return Finding(
        f"Slowest {'incomplete ' if trouble else ''}flows, by duration minus skew",
        ("flow", "outcome", "first message", "node", "messages", "duration", "skew", "longest stage"),
        tuple(
            (
                row["flow_id"],
                row["outcome"],
                row["identity"] or "",
                short(row["origin"]),
                number(row["messages"]),
                duration(row["duration_us"]),
                "unknown" if row["skew_us"] is None else duration(row["skew_us"]),
                longest_stage(row["critical_path"]),
            )
            for row in rows
        ),
        seen.command("flow_id = '" + flow.replace("'", "''") + "'"),
        is_trouble=trouble,
    )


TABLE = Table(
    name="flows",
    meaning="one row per flow (correlation id): duration, outcome, critical path",
    schema=FLOWS,
    shown_first=("start_ts", "flow_id", "identity", "origin", "outcome", "duration_us"),
    sorted_by=("flow_id",),
    looked_up_by=("flow_id",),
    function=flows,
    findings=(
        _by_outcome,
        _worst_flows,
    ),
)
