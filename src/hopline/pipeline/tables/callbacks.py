"""Requests that named callback points: who asked for what, who answered, and how it ended."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType

from hopline.capture.events import Event
from hopline.pipeline.tables.by_flow import EXCEPTION, KIND, flag, is_event, is_offence
from hopline.pipeline.tables.findings import Finding, Seen, number
from hopline.pipeline.tables.messages import MESSAGE_KIND
from hopline.pipeline.tables.table import DATE, FLAG, INT, LONG, TEXT, TIME, Table, columns
from hopline.pipeline.windows import day, us_between

CALLBACKS = columns(
    ("date", DATE, "day of the request"),
    ("flow_id", TEXT, "flow"),
    ("asked_node", TEXT, "node of the hub that waits"),
    ("asked_receiver", TEXT, "hub that waits"),
    ("callback_key", LONG, "number of its promise, 0 if the format has none"),
    ("identity", TEXT, "kind of the request"),
    ("version", TEXT, "version of the kind"),
    ("partition", TEXT, "partition of the kind"),
    ("asked_for", ArrayType(MESSAGE_KIND), "kinds of answers that it waits for"),
    ("asked_ts", TIME, "time of the request, by the clock of asked_node; null if only other nodes saw it"),
    ("ttl_us", LONG, "lifetime of the request, 0 for no limit"),
    ("attempt", INT, "number of the attempt, from 1"),
    ("asked_again", FLAG, "true if another attempt followed, so that this one does not decide how the request ended"),
    ("answer_identity", TEXT, "kind of the first answer"),
    ("answer_version", TEXT, "version of that kind"),
    ("answer_partition", TEXT, "partition of that kind"),
    ("answered_by", TEXT, "node that sent the answer"),
    ("answered_ts", TIME, "time of its arrival, by the clock of asked_node"),
    ("latency_us", LONG, "answered_ts - asked_ts, by one clock"),
    ("outcome", TEXT, "of this attempt: answered, exception, expired, unanswered or late"),
)

_CALLBACK = ("flow_key", "flow_id", "callback_id")
_LAST = "asked_again is not true"  # rows of before the column was there have null


def callbacks(records: DataFrame, last_seen: DataFrame) -> DataFrame:
    """Return one row a request that named callback points, with its first answer.

    Args:
        records: The result of `by_flow`.
        last_seen: The time of each node's last message.
    """
    asking_nodes = sf.broadcast(last_seen.withColumnRenamed("node", "asked_node"))
    return _with_outcome(_answered(records).join(asking_nodes, "asked_node", "left")).to(CALLBACKS)


def _answered(records: DataFrame) -> DataFrame:
    """Return each request with the first answer that reached the node of the one who waits."""
    is_request = sf.col("request_rank").isNotNull()
    is_answer, is_receipt = sf.col("is_answer"), sf.col("is_receipt")
    relevant = records.where(sf.col("callback_id").isNotNull() & ~is_offence()).where(
        is_request | is_answer | is_event(Event.EXPIRED)
    )
    # Where the format does not say which node waits, only the request does: hence first by node, then all of them.
    by_node = relevant.groupBy(*_CALLBACK, "node").agg(
        sf.min(sf.when(is_request, _request())).alias("request"),
        sf.min(sf.when(is_answer & ~is_receipt, _answer())).alias("answer"),
        sf.min(sf.when(is_answer & is_receipt, _answer())).alias("receipt"),
        sf.max(is_answer & ~is_receipt & is_event(Event.RESOLVED)).alias("is_resolved"),
        sf.max(is_answer & is_receipt & is_event(Event.RESOLVED)).alias("is_receipt_resolved"),
        sf.max(is_event(Event.EXPIRED)).alias("is_expired"),
    )
    by_callback = by_node.groupBy(*_CALLBACK).agg(
        sf.min("request").alias("request"),
        sf.collect_list(
            sf.when(
                sf.col("answer").isNotNull() | sf.col("receipt").isNotNull(),
                sf.struct("node", "answer", "receipt", "is_resolved", "is_receipt_resolved"),
            )
        ).alias("arrivals"),
        sf.max("is_expired").alias("is_expired"),
    )
    asked_node = sf.coalesce(sf.nullif(sf.col("request.home"), sf.lit("")), sf.col("request.sender"))
    at_home = sf.filter("arrivals", lambda arrival: arrival["node"] == sf.col("asked_node"))
    return (
        by_callback.where(sf.col("request").isNotNull())
        .withColumn("asked_node", asked_node)
        .withColumn("arrival", sf.get(at_home, sf.lit(0)))
        .withColumn("receipt", sf.when(sf.col("request.is_receipt_enough"), sf.col("arrival.receipt")))
        .withColumn("answer", sf.least(sf.col("arrival.answer"), sf.col("receipt")))
    )


def _request() -> Column:
    """Return what a record says of the request; the smallest is the record that counts."""
    at_home = sf.when(sf.col("node") == sf.col("home"), sf.col("seq"))
    sender = sf.when(is_event(Event.RECEIVED), sf.col("peer")).otherwise(sf.col("node"))
    return sf.struct(
        "request_rank",
        "trail",
        at_home.alias("seq_at_home"),
        "ts",
        "node",
        "seq",
        sender.alias("sender"),
        "home",
        sf.col("callback_receiver").alias("asked_receiver"),
        sf.coalesce("callback_key", sf.lit(0)).alias("callback_key"),
        *KIND,
        "asked_for",
        sf.coalesce("ttl_us", sf.lit(0)).alias("ttl_us"),
        "attempt",
        "request_id",
        "is_receipt_enough",
    )


def _answer() -> Column:
    return sf.struct("ts", "seq", *KIND, "answered_by")


def _with_outcome(asked: DataFrame) -> DataFrame:
    # What another node saw of the request has another clock: no time of asking, and no latency.
    is_from_home = sf.coalesce(sf.col("request.node") == sf.col("asked_node"), sf.lit(False))
    asked_ts, ttl_us = sf.when(is_from_home, sf.col("request.ts")), sf.col("request.ttl_us")
    answered_ts = sf.col("answer.ts")
    latency_us = us_between(asked_ts, answered_ts)
    is_taken = sf.col("arrival.is_resolved") | (
        sf.col("request.is_receipt_enough") & sf.col("arrival.is_receipt_resolved")
    )
    is_late = (ttl_us > 0) & (latency_us > ttl_us) & ~is_taken
    is_over = (ttl_us > 0) & (us_between(asked_ts, sf.col("last_ts")) > ttl_us)
    outcome = (
        sf.when(is_late, "late")
        .when(sf.col("answer.identity") == EXCEPTION, "exception")
        .when(sf.col("answer").isNotNull(), "answered")
        .when(sf.col("is_expired") | is_over, "expired")
        .otherwise("unanswered")
    )
    return asked.select(
        day(sf.col("request.ts")).alias("date"),
        "flow_id",
        "asked_node",
        *(sf.col(f"request.{name}").alias(name) for name in ("asked_receiver", "callback_key", *KIND, "asked_for")),
        asked_ts.alias("asked_ts"),
        ttl_us.alias("ttl_us"),
        sf.col("request.attempt").alias("attempt"),
        _asked_again().alias("asked_again"),
        *(sf.col(f"answer.{name}").alias(f"answer_{name}") for name in KIND),
        sf.col("answer.answered_by").alias("answered_by"),
        answered_ts.alias("answered_ts"),
        latency_us.alias("latency_us"),
        outcome.alias("outcome"),
    )


def _asked_again() -> Column:
    """Return whether a later attempt of the same request followed.

    Attempts have numbers of their own as promises, which their hub counts up.
    """
    key = sf.col("request.callback_key")
    # Backwards, so that the highest attempt so far is kept from row to row, however many there are.
    backwards = Window.partitionBy("flow_key", "request.request_id").orderBy(key.desc())
    later = backwards.rowsBetween(Window.unboundedPreceding, -1)
    return flag(sf.max("request.attempt").over(later) > sf.col("request.attempt"))


def _by_outcome(seen: Seen) -> Finding:
    rows = tuple((outcome, number(count)) for (outcome,), count in seen.counts("outcome", where=_LAST))
    return Finding(
        "Callbacks by outcome",
        ("outcome", "requests"),
        rows,
        seen.command(f"outcome <> 'answered' and {_LAST}", "latency_us desc"),
    )


TABLE = Table(
    name="callbacks",
    meaning="one row per request that waits for an answer: first answer, latency, outcome",
    schema=CALLBACKS,
    shown_first=("asked_ts", "asked_node", "identity", "flow_id", "latency_us", "outcome"),
    looked_up_by=("flow_id",),
    function=callbacks,
    findings=(_by_outcome,),
)
