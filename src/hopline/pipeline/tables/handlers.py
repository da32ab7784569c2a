"""What the actors did: how often, how long the messages waited for them and how long they took."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.percentiles import GROUP, percentile, ranked
from hopline.pipeline.schemas import HANDLERS
from hopline.pipeline.tables.runs import RUNNING
from hopline.pipeline.traces import Traces, TracesOfMessages
from hopline.pipeline.windows import WINDOW_S, day, window_start

_GROUP = ("window_start", "node", "actor", "identity", "version", "partition")
_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}


def handlers(messages: DataFrame, window_s: int = WINDOW_S, traces: Traces | None = None) -> DataFrame:
    """Sum up the `handled` records by window, node, actor and kind."""
    runs = (traces or TracesOfMessages(messages)).made_by(RUNNING)
    runs = runs.withColumn("window_start", window_start(sf.col("ts"), window_s)).drop("ts")
    times = ("wait_us", "run_us")
    return (
        ranked(runs, _GROUP, *times)
        .groupBy(GROUP, *_GROUP)
        .agg(
            sf.count("*").alias("count"),
            sf.count_if("has_failed").alias("errors"),
            *(
                percentile(value, percent).alias(f"{value.removesuffix('_us')}_{name}_us")
                for value in times
                for name, percent in _PERCENTILES.items()
            ),
            (sf.coalesce(sf.sum("run_us"), sf.lit(0)) / (window_s * 1_000_000)).alias("busy_share"),
        )
        .withColumns({"date": day(sf.col("window_start")), "window_s": sf.lit(window_s)})
        .to(HANDLERS)
    )
