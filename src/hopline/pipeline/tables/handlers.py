"""What the actors did: how often, how long the messages waited for them and how long they took."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.records import Event
from hopline.pipeline.percentiles import GROUP, percentile, ranked
from hopline.pipeline.schemas import HANDLERS
from hopline.pipeline.windows import WINDOW_S, day, window_start

_GROUP = ("window_start", "node", "actor", "identity", "version", "partition")
_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}


def handlers(messages: DataFrame, window_s: int = WINDOW_S) -> DataFrame:
    """Sum up the `handled` records by window, node, actor and kind."""
    runs = _runs(messages).withColumn("window_start", window_start(sf.col("ts"), window_s))
    times = ("wait_us", "run_us")
    return (
        ranked(runs, _GROUP, *times)
        .groupBy(GROUP, *_GROUP)
        .agg(
            sf.count("*").alias("count"),
            sf.count("reason").alias("errors"),
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


def _runs(messages: DataFrame) -> DataFrame:
    """Give each `handled` record the time in the mailbox that the last `delivered` one before it tells."""
    is_delivered, is_handled = sf.col("event") == Event.DELIVERED, sf.col("event") == Event.HANDLED
    before = Window.partitionBy("message_id", "node", "actor").orderBy("seq", "ts", "event")
    so_far = before.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # A struct, for a delivery that does not say how long it took is still the last one.
    delivery = sf.last(sf.when(is_delivered, sf.struct("duration_us")), ignorenulls=True).over(so_far)
    return (
        messages.filter(is_delivered | is_handled)
        .withColumnRenamed("local_receiver", "actor")
        .select("message_id", *_GROUP[1:], "event", "ts", "seq", "duration_us", "reason")
        .repartition("message_id")
        .withColumn("wait_us", delivery["duration_us"])
        .filter(is_handled)
        .withColumnRenamed("duration_us", "run_us")
    )
