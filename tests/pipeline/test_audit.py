"""Audit: whether what came in went out, and whether all of it was recorded."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from pyspark.sql import SparkSession

from hopline.capture.records import ENDINGS, Event
from hopline.pipeline.tables.audit import AUDIT
from hopline.pipeline.tables.rejects import REJECTS
from tests.pipeline.coincidences import PARTITIONS, coincidences, same, scattered
from tests.pipeline.rows import START, Row, day, message, moment, rows_of, table
from tests.pipeline.tables import audit

HOUR = 3_600_000_000
IN = (Event.SUBMITTED, Event.RECEIVED)
OUT = (Event.DELIVERED, Event.SENT, *ENDINGS)


def hour_of(ts: datetime) -> datetime:
    return ts.replace(minute=0, second=0, microsecond=0)


def reject(event: str, **columns: Any) -> Row:
    row = message(event, **columns)
    return {name: row.get(name) for name in REJECTS.names}


def audited(spark: SparkSession, *rows: Row, rejects: tuple[Row, ...] = ()) -> list[Row]:
    return rows_of(audit(table(spark, rows), table(spark, rejects, REJECTS)).orderBy("node", "hour"))


def expected_audit(messages: list[Row], rejects: list[Row]) -> list[dict[str, Any]]:
    """Keep the books the plain way."""
    rows = [*messages, *rejects]
    hours: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in rows:
        hours[row["node"], hour_of(row["ts"])].append(row)
    missing: Counter[tuple[Any, Any]] = Counter()
    for node in {row["node"] for row in rows}:
        numbered = sorted((row for row in rows if row["node"] == node), key=lambda row: row["seq"])
        for before, row in pairwise(numbered):
            gap = row["seq"] - before["seq"] - 1 - row["dropped"]
            missing[node, hour_of(row["ts"])] += max(0, gap)
    books = expected_books(messages, rejects)
    result = []
    for (node, hour), inside in hours.items():
        counts = Counter(row["event"] for row in inside)
        is_full = counts["submitted"] + counts["delivered"] + counts["handled"] > 0
        copies, balance = (sum(one[n] for one in books[node, hour]) for n in (0, 1))
        result.append(
            {"date": hour.date(), "node": node, "hour": hour, "records": len(inside)}
            | {"dropped": sum(row["dropped"] for row in inside), "missing": missing[node, hour]}
            | {"rejects": sum("code" in row for row in inside), **{str(event): counts[event] for event in Event}}
            | {"copies": copies if is_full else 0, "balance": balance if is_full else None}
            | {"balanced": balance == 0 if is_full else None}
        )
    return result


def expected_books(messages: list[Row], rejects: list[Row]) -> dict[tuple[Any, Any], list[tuple[int, int]]]:
    """Give copies and balance of every message, by node and the hour of its last record."""
    books = defaultdict(list)
    kept = [row for row in messages if row["event"] in IN + OUT]
    for node, message_id in {(row["node"], row["message_id"]) for row in kept}:
        mine = [row for row in kept if (row["node"], row["message_id"]) == (node, message_id)]
        came_in = sum(row["event"] in IN for row in mine)
        copies = max(0, len(mine) - 2 * came_in) if mine[0]["distribution"] == 1 else 0
        books[node, hour_of(max(row["ts"] for row in mine))].append((copies, 2 * came_in - len(mine) + copies))
    for row in rejects:
        books[row["node"], hour_of(row["ts"])].append((0, (row["event"] in IN) - (row["event"] in OUT)))
    return books


def test_books_hold_when_everything_that_came_in_went_out(spark: SparkSession) -> None:
    rows = [message(event, at=n) for n, event in enumerate(("submitted", "sent", "received", "delivered", "handled"))]
    messages, rejects = table(spark, rows), table(spark, [reject("received", at=5), reject("rejected", at=6)], REJECTS)
    frame = audit(messages, rejects)
    same(
        frame,
        [
            {"date": day(0), "node": "a", "hour": START, "records": 7, "dropped": 0, "missing": 0, "rejects": 2}
            | {
                **dict.fromkeys(map(str, Event), 0),
                "submitted": 1,
                "received": 2,
                "sent": 1,
                "delivered": 1,
                "handled": 1,
            }
            | {"rejected": 1, "copies": 0, "balance": 0, "balanced": True}
        ],
    )
    assert frame.columns == AUDIT.names


def test_a_message_without_an_outcome_is_told_and_books_are_kept_at_level_full_only(spark: SparkSession) -> None:
    lost = message("submitted", "a", at=1)
    wire = message("received", "b", at=1)
    assert [(row["node"], row["balance"], row["balanced"]) for row in audited(spark, lost, wire)] == [
        ("a", 1, False),
        ("b", None, None),
    ]


def test_what_a_broadcast_makes_of_itself_is_copies_and_one_that_vanishes_is_told(spark: SparkSession) -> None:
    spread = [message(event, at=n, distribution=1) for n, event in enumerate(("received", "delivered", "sent", "sent"))]
    vanished = message("received", at=9, distribution=1, message_id=2)
    [row] = audited(spark, *spread, vanished)
    assert (row["copies"], row["balance"], row["balanced"]) == (2, 1, False)


def test_a_message_that_is_under_way_when_the_hour_ends_is_balanced(spark: SparkSession) -> None:
    slow = message("submitted", at=HOUR - 1), message("delivered", at=HOUR + 1)
    lost = message("submitted", at=5, message_id=2)
    found = [(row["hour"], row["balance"]) for row in audited(spark, *slow, lost)]
    assert found == [(moment(0), 1), (moment(HOUR), 0)]


def test_gaps_are_missing_but_for_what_was_dropped_in_the_hour_of_the_record_behind_them(spark: SparkSession) -> None:
    rows = [
        *(message("sent", at=0, seq=100), message("sent", at=1, seq=101)),
        message("sent", at=HOUR, seq=105, dropped=3),
        message("sent", at=HOUR + 1, seq=110, dropped=1),
        message("sent", at=2 * HOUR, seq=1_000_000, dropped=0),
        *(message("sent", "b", at=0, seq=7), message("sent", "b", at=1, seq=9)),
    ]
    found = [(row["node"], row["hour"], row["dropped"], row["missing"]) for row in audited(spark, *rows)]
    assert found == [
        ("a", moment(0), 0, 0),
        ("a", moment(HOUR), 4, 3),
        ("a", moment(2 * HOUR), 0, 1_000_000 - 111),
        ("b", moment(0), 0, 1),
    ]


def test_records_that_name_no_node_are_counted_too(spark: SparkSession) -> None:
    [row] = audited(spark, *(message(None, None, at=at, seq=None, dropped=None) for at in range(3)))
    assert (row["node"], row["records"], row["missing"], row["balanced"]) == (None, 3, 0, None)


@PARTITIONS
def test_the_books_are_those_that_plain_counting_keeps_however_the_records_lie(
    spark: SparkSession, partitions: int
) -> None:
    rows = [row | {"node": row["node"] or "d"} for row in coincidences(seed=5)]
    for n, row in enumerate(rows):  # hours that do not go with the numbers, and numbers in several blocks
        row["ts"] += timedelta(hours=n % 3)
        row["seq"] = 10 * n if row["node"] == "d" else row["seq"] * 331
        row["dropped"] *= 100
    rejects = [{name: row.get(name) for name in REJECTS.names} for row in rows[::7]]
    messages = [row for n, row in enumerate(rows) if n % 7]
    same(
        audit(scattered(spark, messages, partitions), table(spark, rejects, REJECTS)), expected_audit(messages, rejects)
    )
