"""What the actors did, by window: how often, how long messages waited for them and how long they took."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.pipeline.tables.by_flow import KIND, is_event
from hopline.pipeline.tables.findings import Finding, Seen, duration, number, short
from hopline.pipeline.tables.percentiles import percentile
from hopline.pipeline.tables.table import DATE, DOUBLE, FLAG, INT, LONG, PROVISIONAL, TEXT, TIME, Table, columns
from hopline.pipeline.windows import WINDOW_S, day, window_start

_TIMES = ("p50", "p95", "p99", "max")

HANDLERS = columns(
    ("date", DATE, "day of the window"),
    ("window_start", TIME, "start of the window"),
    ("window_s", INT, "length of the window in seconds"),
    ("node", TEXT, "node"),
    ("actor", TEXT, "identity of the actor"),
    ("actor_name", TEXT, "class of the actor; null if the capture does not say"),
    ("handler", TEXT, "method of the actor; null if the capture does not say"),
    ("identity", TEXT, "kind of message"),
    ("version", TEXT, "version of the kind"),
    ("partition", TEXT, "partition of the kind"),
    ("count", LONG, "number of messages handled"),
    ("errors", LONG, "messages whose handler failed"),
    *((f"wait_{name}_us", LONG, f"time in the mailbox, {name}") for name in _TIMES),
    *((f"run_{name}_us", LONG, f"time in the handler, {name}") for name in _TIMES),
    ("busy_share", DOUBLE, "total time in the handler, as a share of the window"),
    (PROVISIONAL, FLAG, "true while a stream waits for more of the window"),
)

_GROUP = ("window_start", "node", "actor", "actor_name", "handler", *KIND)
_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}


def handlers(runs: DataFrame, window_s: int = WINDOW_S) -> DataFrame:
    """Return one row a window, node, actor and kind of message.

    Args:
        runs: The result of `runs`.
        window_s: The length of a window in seconds.
    """
    times = [
        percentile(f"{time}_us", percent).alias(f"{time}_{name}_us")
        for time in ("wait", "run")
        for name, percent in _PERCENTILES.items()
    ]
    return (
        runs.withColumn("window_start", window_start(sf.col("ts"), window_s))
        .groupBy(*_GROUP)
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


def runs(records: DataFrame) -> DataFrame:
    """Return each `handled` record with the time in the mailbox that the last `delivered` one before it tells.

    Args:
        records: The result of `by_flow`.
    """
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
        .select("ts", *_GROUP[1:], "reason", "wait_us", sf.col("duration_us").alias("run_us"))
    )


def _slowest_handlers(seen: Seen) -> Finding:
    slowest = seen.rows(
        "node, actor, actor_name, handler, identity, window_start, count, errors, run_p99_us, wait_p99_us",
        then="qualify row_number() over (partition by node, actor, identity"
        " order by run_p99_us desc nulls last, window_start) = 1"
        " order by run_p99_us desc nulls last, node, actor, identity",
    )
    return Finding(
        "Slowest handlers, by their worst window",
        ("actor", "node", "identity", "window", "messages", "errors", "run p99", "wait p99"),
        tuple(
            (
                _handler_name(row) or short(row["actor"]),
                short(row["node"]),
                row["identity"] or "",
                f"{row['window_start']:%Y-%m-%d %H:%M}",
                number(row["count"]),
                number(row["errors"]),
                duration(row["run_p99_us"]),
                duration(row["wait_p99_us"]),
            )
            for row in slowest
        ),
        seen.command(order_by="run_p99_us desc"),
    )


def _handler_name(row: dict[str, Any]) -> str:
    """Return the handler as one would name it in code, such as ``Stock.reserve``; nothing where that is not known."""
    return ".".join(row[name] for name in ("actor_name", "handler") if row[name])


TABLE = Table(
    name="handlers",
    meaning="per node, actor, identity and window: count, errors, wait and run time",
    schema=HANDLERS,
    shown_first=("window_start", "node", "actor_name", "handler", "identity", "run_p99_us"),
    function=handlers,
    findings=(_slowest_handlers,),
)
