"""The table of callbacks: who asked for what, who answered, and how it ended."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hopline.capture.records import Event
from hopline.pipeline.schemas import CALLBACKS
from hopline.pipeline.tables.stitching import (
    EXCEPTION,
    RECEIPT,
    asks_for_receipt_only,
    comes_home,
    has_callback,
    is_from_waiting,
    is_home,
    is_offence,
    may_begin,
    text,
    trail,
)
from hopline.pipeline.windows import day, us_between

_KEY = ("flow_id", "home", "asked_receiver", "callback_key")
_KIND = ("identity", "version", "partition")


def callbacks(messages: DataFrame) -> DataFrame:
    """Match every request that named callback points with its first answer."""
    asked = _asked(messages)
    ends = messages.where(sf.col("node").isNotNull()).groupBy("node").agg(sf.max("ts").alias("capture_ends"))
    ends = sf.broadcast(ends.withColumnRenamed("node", "asked_node"))
    return _with_outcome(asked.join(ends, "asked_node", "left")).to(CALLBACKS)


def _asked(messages: DataFrame) -> DataFrame:
    """Find the request and, where it was awaited, the first answer."""
    # Few records say anything of requests and answers: most others are known by a look at few columns.
    is_addressed = text("receiver") == sf.col("callback_receiver")
    is_expired = sf.col("event") == Event.EXPIRED
    relevant = messages.where(sf.col("flow_id").isNotNull() & (text("callback_receiver") != "") & ~is_offence()).where(
        _may_be_request() | is_addressed | is_expired
    )
    said = relevant.where(has_callback() & (_request_rank().isNotNull() | comes_home() | is_expired)).select(
        "flow_id",
        text("callback_receiver_node").alias("home"),
        sf.col("callback_receiver").alias("asked_receiver"),
        sf.coalesce("callback_key", sf.lit(0)).alias("callback_key"),
        "node",
        _request().alias("request"),
        sf.when(comes_home(), _answer()).alias("answer"),
        (sf.col("identity") == RECEIPT).alias("is_receipt"),
        is_expired.alias("is_expired"),
    )
    # Where the format does not say which node waits, only the request does: hence first by node, then all of them.
    by_node = (
        said.repartition(sf.col("flow_id"))
        .groupBy(*_KEY, "node")
        .agg(
            sf.min(sf.when(sf.col("request.rank").isNotNull(), sf.col("request"))).alias("request"),
            sf.min(sf.when(~sf.col("is_receipt"), sf.col("answer"))).alias("answer"),
            sf.min(sf.when(sf.col("is_receipt"), sf.col("answer"))).alias("receipt"),
            sf.max("is_expired").alias("is_expired"),
        )
    )
    by_key = by_node.groupBy(*_KEY).agg(
        sf.min("request").alias("request"),
        sf.collect_list(
            sf.when(
                sf.col("answer").isNotNull() | sf.col("receipt").isNotNull(),
                sf.struct("node", "answer", "receipt"),
            )
        ).alias("homes"),
        sf.max("is_expired").alias("is_expired"),
    )
    asked_node = sf.coalesce(sf.nullif(sf.col("home"), sf.lit("")), sf.col("request.sender"))
    asked = by_key.where("request is not null").withColumn("asked_node", asked_node)
    here = sf.filter("homes", lambda home: home["node"] == sf.col("asked_node"))
    asked = asked.withColumn("here", sf.get(here, sf.lit(0)))
    receipt = sf.when(sf.col("request.is_receipt_enough"), sf.col("here.receipt"))
    return asked.withColumn("answer", sf.least(sf.col("here.answer"), receipt))


def _request_rank() -> Column:
    """Rank the records that may be the request's own: as the one who waits submitted it, as it left, as it came."""
    event = sf.col("event")
    is_begun = sf.col("cause").isNull() | is_from_waiting()
    is_first = sf.when(event == Event.SUBMITTED, is_begun).otherwise(trail() <= 1)
    rank = sf.when(event == Event.SUBMITTED, 0).when(event == Event.SENT, 1).otherwise(2)
    return sf.when(_may_be_request() & is_first & may_begin(), rank)


def _may_be_request() -> Column:
    event = sf.col("event")
    return (event.isin(Event.SUBMITTED, Event.SENT) & is_home()) | (event == Event.RECEIVED)


def _request() -> Column:
    """Give what a row tells of the request, in the order in which records count."""
    return sf.struct(
        _request_rank().alias("rank"),
        trail().alias("trail"),
        sf.when(sf.col("node") == sf.col("callback_receiver_node"), sf.col("seq")).alias("home_seq"),
        "ts",
        "node",
        "seq",
        sf.when(sf.col("event") == Event.RECEIVED, sf.col("peer")).otherwise(sf.col("node")).alias("sender"),
        *_KIND,
        sf.col("callbacks").alias("asked_for"),
        sf.coalesce(sf.col("ttl_us"), sf.lit(0)).alias("ttl_us"),
        asks_for_receipt_only().alias("is_receipt_enough"),
    )


def _answer() -> Column:
    last_router = sf.when(sf.col("hops") > 0, sf.try_element_at("routing", sf.lit(-1))["identity"])
    return sf.struct(
        "ts",
        "seq",
        *_KIND,
        sf.coalesce(sf.when(sf.col("event") == Event.RECEIVED, sf.col("peer")), last_router, sf.col("node")).alias(
            "sender"
        ),
    )


def _with_outcome(asked: DataFrame) -> DataFrame:
    # What another node saw of the request has another clock: no time of asking, and no latency.
    is_from_home = sf.col("request.node") == sf.col("asked_node")
    asked_ts, ttl = sf.col("request.ts"), sf.col("request.ttl_us")
    latency = us_between(asked_ts, sf.col("answer.ts"))
    watched = us_between(asked_ts, sf.col("capture_ends"))
    is_over = (ttl > 0) & sf.coalesce(is_from_home & (watched > ttl), sf.lit(False))
    return asked.select(
        day(asked_ts).alias("date"),
        "flow_id",
        "asked_node",
        "asked_receiver",
        "callback_key",
        *(sf.col(f"request.{name}").alias(name) for name in _KIND),
        sf.col("request.asked_for").alias("asked_for"),
        sf.when(is_from_home, asked_ts).alias("asked_ts"),
        ttl.alias("ttl_us"),
        *(sf.col(f"answer.{name}").alias(f"answer_{name}") for name in _KIND),
        sf.col("answer.sender").alias("answered_by"),
        sf.col("answer.ts").alias("answered_ts"),
        sf.when(is_from_home, latency).alias("latency_us"),
        sf.when((ttl > 0) & is_from_home & (latency > ttl), "late")
        .when(sf.col("answer.identity") == EXCEPTION, "exception")
        .when(sf.col("answer").isNotNull(), "answered")
        .when(sf.col("is_expired") | is_over, "expired")
        .otherwise("unanswered")
        .alias("outcome"),
    )
