"""The table of flows: what belongs together by its correlation id, how long it took, where, and how it ended."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.schemas import FLOWS
from hopline.pipeline.tables.critical_path import FLOW_DETAIL_LIMIT, walking
from hopline.pipeline.tables.flow_totals import TOTALS
from hopline.pipeline.tables.large_flows import totals_of_large_flows
from hopline.pipeline.traces import Kernel, TracesOfMessages
from hopline.pipeline.windows import day


def walked(skew: DataFrame) -> Kernel:
    """Give the kernel that walks through each flow: its ends, its critical path, and what it adds up to."""
    return walking(skew.select("date", "node_a", "node_b", "bound_us").toArrow())


def flows(
    messages: DataFrame, callbacks: DataFrame, hops: DataFrame, skew: DataFrame, paths: DataFrame | None = None
) -> DataFrame:
    """Give a row for each flow: exact totals, the outcome, and the critical path of its first records.

    `paths` are what `walked` makes of the same messages, where they were made before: they are read twice.
    """
    paths = TracesOfMessages(messages).made_by(walked(skew)) if paths is None else paths
    asked = callbacks.groupBy("flow_id").agg(
        sf.lit(True).alias("is_asked"),
        *(
            sf.max(sf.col("outcome").isin(*outcomes)).alias(name)
            for name, outcomes in {
                "got_exception": ("exception",),
                "got_answer": ("answered", "exception", "late"),
                "waited_in_vain": ("expired", "late"),
                "is_unanswered": ("unanswered",),
            }.items()
        ),
    )
    lost = hops.where("lost and flow_id is not null").select("flow_id", "lost").distinct()
    names = TOTALS.names
    large = totals_of_large_flows(messages, paths).select(
        "flow_id", *(sf.col(name).alias(f"large_{name}") for name in names)
    )
    return (
        paths.join(sf.broadcast(large), "flow_id", "left")
        .withColumns({name: sf.coalesce(f"large_{name}", name) for name in names})
        .join(asked, "flow_id", "left")
        .join(lost, "flow_id", "left")
        .withColumns(
            {
                "date": day(sf.timestamp_micros("start_us")),
                "start_ts": sf.timestamp_micros("start_us"),
                "end_ts": sf.timestamp_micros("end_us"),
                "duration_us": sf.col("end_us") - sf.col("start_us"),
                "outcome": _outcome(),
            }
        )
        .to(FLOWS)
    )


def _outcome() -> Column:
    is_asked, got_answer = (sf.coalesce(name, sf.lit(False)) for name in ("is_asked", "got_answer"))
    return (
        sf.when(sf.col("records") > FLOW_DETAIL_LIMIT, "truncated")
        .when(~sf.col("has_root"), "orphan")
        .when(sf.col("got_exception") | (sf.col("is_failed") & ~got_answer), "failed")
        .when(~is_asked & sf.col("lost"), "failed")
        .when(sf.col("waited_in_vain") | (~is_asked & sf.col("is_expired")), "expired")
        .when(sf.col("is_unanswered"), "unanswered")
        .otherwise("complete")
    )
