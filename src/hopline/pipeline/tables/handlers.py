"""What the actors did, by window: how often, how long messages waited for them and how long they took."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.pipeline.schemas import HANDLERS
from hopline.pipeline.tables.by_flow import KIND, is_event
from hopline.pipeline.tables.percentiles import percentile
from hopline.pipeline.windows import WINDOW_S, day, window_start

_GROUP = ("window_start", "node", "actor", "actor_name", "handler", *KIND)
_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}


def handlers(records: DataFrame, window_s: int = WINDOW_S) -> DataFrame:
    """Return one row a window, node, actor and kind of message, of the `handled` records.

    Args:
        records: The result of `by_flow`.
        window_s: The length of a window in seconds.
    """
    runs = _runs(records).withColumn("window_start", window_start(sf.col("ts"), window_s))
    times = [
        percentile(f"{time}_us", percent).alias(f"{time}_{name}_us")
        for time in ("wait", "run")
        for name, percent in _PERCENTILES.items()
    ]
    return (
        runs.groupBy(*_GROUP)
        .agg(
            sf.count("*").alias("count"),
            sf.count("reason").alias("errors"),
            *times,
            sf.max("wait_us").alias("wait_max_us"),
            sf.max("run_us").alias("run_max_us"),
            (sf.coalesce(sf.sum("run_us"), sf.lit(0)) / (window_s * 1_000_000)).alias("busy_share"),
        )
        .withColumns({"date": day(sf.col("window_start")), "window_s": sf.lit(window_s)})
        .to(HANDLERS)
    )


def _runs(records: DataFrame) -> DataFrame:
    """Return each `handled` record with the time in the mailbox that the last `delivered` one before it tells."""
    is_delivered, is_handled = is_event(Event.DELIVERED), is_event(Event.HANDLED)
    in_order = Window.partitionBy("flow_key", "message_id", "node", "actor").orderBy("seq", "ts", "event")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # A struct, because a delivery that does not say how long it took is still the last one.
    delivery = sf.last(sf.when(is_delivered, sf.struct("duration_us")), ignorenulls=True).over(so_far)
    return (
        records.where(is_delivered | is_handled)
        .withColumnsRenamed({"local_receiver": "actor", "receiver_name": "actor_name"})
        .select("flow_key", "message_id", *_GROUP[1:], "event", "ts", "seq", "duration_us", "reason")
        .withColumn("wait_us", delivery["duration_us"])
        .where(is_handled)
        .withColumnRenamed("duration_us", "run_us")
    )
