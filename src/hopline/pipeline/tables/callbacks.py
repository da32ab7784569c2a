"""The table of callbacks: who asked for what, who answered, and how it ended."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.message import EXCEPTION
from hopline.pipeline.schemas import CALLBACKS
from hopline.pipeline.tables.asking import ASKING
from hopline.pipeline.traces import Traces, TracesOfMessages
from hopline.pipeline.windows import day, last_seen, us_between


def callbacks(messages: DataFrame, traces: Traces | None = None, ends: DataFrame | None = None) -> DataFrame:
    """Match every request that named callback points with its first answer."""
    asked = (traces or TracesOfMessages(messages)).made_by(ASKING)
    ends = last_seen(messages) if ends is None else ends
    watched = asked.join(sf.broadcast(ends.withColumnRenamed("node", "asked_node")), "asked_node", "left")
    return _with_outcome(watched).to(CALLBACKS)


def _with_outcome(asked: DataFrame) -> DataFrame:
    # What another node saw of the request has another clock: no time of asking, and no latency.
    is_from_home = sf.col("request_node") == sf.col("asked_node")
    asked_ts, ttl = sf.col("request_ts"), sf.col("ttl_us")
    latency = us_between(asked_ts, sf.col("answered_ts"))
    watched = us_between(asked_ts, sf.col("last_ts"))
    is_over = (ttl > 0) & sf.coalesce(is_from_home & (watched > ttl), sf.lit(False))
    outcome = (
        sf.when((ttl > 0) & is_from_home & (latency > ttl), "late")
        .when(sf.col("answer_identity") == EXCEPTION.identity.decode(), "exception")
        .when(sf.col("answered_by").isNotNull(), "answered")
        .when(sf.col("is_expired") | is_over, "expired")
        .otherwise("unanswered")
    )
    return asked.withColumns(
        {
            "date": day(asked_ts),
            "asked_ts": sf.when(is_from_home, asked_ts),
            "latency_us": sf.when(is_from_home, latency),
            "outcome": outcome,
        }
    )
