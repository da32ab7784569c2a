"""Handlers: what actors did, by window."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import SparkSession

from hopline.pipeline.tables.handlers import HANDLERS
from tests.pipeline.coincidences import PARTITIONS, coincidences, nearest_rank, same, scattered
from tests.pipeline.rows import START, Row, day, message, moment, table
from tests.pipeline.tables import handlers

GROUP = ("node", "local_receiver", "receiver_name", "handler", "identity", "version", "partition")
SHARES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}


def expected_handlers(rows: list[Row], window_s: int) -> list[dict[str, Any]]:
    """Sum up the plain way: for each handled record, look for the last delivery before it."""
    groups: dict[tuple[Any, ...], list[tuple[Row, int | None]]] = defaultdict(list)
    for row in rows:
        if row["event"] == "handled":
            window = int((row["ts"] - START).total_seconds() // window_s) * window_s
            before = [
                other
                for other in rows
                if other["event"] == "delivered"
                and all(other[name] == row[name] for name in ("message_id", "node", "local_receiver"))
                and other["seq"] < row["seq"]
            ]
            wait = max(before, key=lambda other: other["seq"])["duration_us"] if before else None
            groups[(window, *(row[name] for name in GROUP))].append((row, wait))
    result = []
    for (window, node, actor, name, method, identity, version, partition), members in groups.items():
        waits, runs = [wait for _, wait in members], [row["duration_us"] for row, _ in members]
        result.append(
            {"window_start": moment(window * 1_000_000), "window_s": window_s, "date": day(window * 1_000_000)}
            | {"node": node, "actor": actor, "actor_name": name, "handler": method}
            | {"identity": identity, "version": version, "partition": partition}
            | {"count": len(members), "errors": sum(row["reason"] is not None for row, _ in members)}
            | {f"wait_{name}_us": nearest_rank(waits, percent) for name, percent in SHARES.items()}
            | {f"run_{name}_us": nearest_rank(runs, percent) for name, percent in SHARES.items()}
            | {"busy_share": sum(run for run in runs if run is not None) / (window_s * 1_000_000)}
        )
    return result


def handled(at: int, run: int, **columns: Any) -> Row:
    return message("handled", at=at, duration_us=run, local_receiver="x", **columns)


def test_an_actors_work_is_counted_with_its_failures_and_its_busy_share(spark: SparkSession) -> None:
    rows = [handled(n, 300_000 + n, message_id=n, reason="no" if n % 10 == 0 else None) for n in range(1, 101)]
    frame = handlers(table(spark, rows))
    nothing = dict.fromkeys(("wait_p50_us", "wait_p95_us", "wait_p99_us", "wait_max_us"))
    same(
        frame,
        [
            {"date": day(0), "window_start": START, "window_s": 60, "node": "a", "actor": "x", "identity": "ORDER"}
            | {"version": "1", "partition": "", "count": 100, "errors": 10, "busy_share": 30_005_050 / 60_000_000}
            | {"run_p50_us": 300_050, "run_p95_us": 300_095, "run_p99_us": 300_099, "run_max_us": 300_100}
            | nothing
        ],
    )
    assert frame.columns == HANDLERS.names


def test_the_time_in_the_mailbox_is_that_of_the_last_delivery_of_the_same_message_to_the_same_actor(
    spark: SparkSession,
) -> None:
    delivered = [
        message("delivered", at=1, duration_us=9, local_receiver="x"),
        message("delivered", at=2, duration_us=70, local_receiver="x"),
        message("delivered", at=3, duration_us=800, local_receiver="y"),
        message("delivered", at=4, duration_us=801, local_receiver="x", message_id=2),
        message("delivered", "b", at=4, duration_us=802, local_receiver="x"),
        message("delivered", at=6, duration_us=803, local_receiver="x"),
    ]
    frame = handlers(table(spark, [*delivered, handled(5, 1)]))
    same(frame, [{"count": 1, "wait_p50_us": 70, "wait_max_us": 70}])


def test_a_handler_has_the_name_of_its_class_and_method_where_the_capture_says_so(spark: SparkSession) -> None:
    named = {"receiver_name": "Stock", "handler": "reserve"}
    rows = [handled(1, 1, **named), handled(2, 1, message_id=2, **named), handled(3, 1, node="old")]
    same(
        handlers(table(spark, rows)),
        [
            {"node": "a", "actor": "x", "actor_name": "Stock", "handler": "reserve", "count": 2},
            {"node": "old", "actor": "x", "actor_name": None, "handler": None, "count": 1},
        ],
    )


def test_windows_start_at_whole_multiples_of_their_length_and_an_actor_without_work_has_no_row(
    spark: SparkSession,
) -> None:
    rows = [handled(59_999_999, 1), handled(60_000_000, 1), message("delivered", at=5, local_receiver="y")]
    same(handlers(table(spark, rows)), [{"window_start": moment(0)}, {"window_start": moment(60_000_000)}])
    same(handlers(table(spark, rows), window_s=3600), [{"window_start": moment(0), "window_s": 3600, "count": 2}])


@PARTITIONS
def test_handlers_are_what_plain_sums_give_however_the_records_lie(spark: SparkSession, partitions: int) -> None:
    rows = coincidences(seed=3, size=600)
    same(handlers(scattered(spark, rows, partitions), window_s=120), expected_handlers(rows, window_s=120))
