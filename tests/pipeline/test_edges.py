"""Edges: who talks to whom, from node to node and from handler to handler."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from hopline.pipeline.tables.edges import EDGES
from tests.pipeline import reference
from tests.pipeline.coincidences import CLASSES, PARTITIONS, coincidences, nearest_rank, same, scattered
from tests.pipeline.rows import START, Row, day, message, moment, rows_of, table
from tests.pipeline.tables import edges
from tests.pipeline.test_hops import received, sent

LOGICAL = ("source_node", "source", "target_node", "target", "count", "errors", "transit_p50_us")


def logical(spark: SparkSession, *rows: Row) -> list[tuple[Any, ...]]:
    """Give what matters of the edges between handlers."""
    messages = table(spark, rows)
    found = [row for row in rows_of(edges(messages)) if row["kind"] == "logical"]
    return sorted(tuple(row[name] for name in LOGICAL) for row in found)


def submitted(at: int, node: str = "a", **columns: Any) -> Row:
    return message("submitted", node, at=at, **columns)


def delivered(at: int, to: str, node: str = "b", **columns: Any) -> Row:
    return message("delivered", node, at=at, local_receiver=to, **columns)


def test_a_physical_edge_sums_up_the_transits_that_were_sent_in_its_window(spark: SparkSession) -> None:
    minute = 60_000_000
    rows = [
        *(row for n in range(1, 21) for row in (sent(n, message_id=n), received(minute + 2 * n, message_id=n))),
        *(sent(30, message_id=30), message("handled", "b", at=minute)),
        *(
            sent(minute, message_id=40),
            received(minute + 1, message_id=40),
            message("rejected", "b", at=minute + 3, message_id=40),
        ),
        received(2 * minute, message_id=50),
    ]
    messages = table(spark, rows)
    frame = edges(messages)
    where = {"window_s": 60, "kind": "physical", "identity": "ORDER", "date": day(0)}
    where |= {"source_node": "a", "source": "a", "target_node": "b", "target": "b"}
    times = "transit_p50_us", "transit_p95_us", "transit_p99_us"
    same(
        frame,
        [
            where
            | {"window_start": START, "count": 21, "bytes": 2100, "errors": 0, "lost": 1}
            | dict(zip(times, (minute + 10, minute + 19, minute + 20), strict=True)),
            where
            | {"window_start": moment(minute), "count": 1, "bytes": 100, "errors": 1, "lost": 0}
            | dict.fromkeys(times, 1),
            where
            | {"window_start": moment(2 * minute), "count": 1, "bytes": 100, "errors": 0, "lost": 0}
            | dict.fromkeys(times),
        ],
    )
    assert frame.columns == EDGES.names


def test_a_logical_edge_leads_from_the_handler_of_the_cause_to_the_handler_of_the_message(spark: SparkSession) -> None:
    rows = [
        *(submitted(1, local_receiver="hub"), delivered(11, "pricing")),
        *(submitted(12, "b", cause=11, message_id=2), delivered(15, "shipping", "c", message_id=2)),
        *(submitted(13, "b", cause=11, message_id=3), delivered(19, "hub", "a", message_id=3)),
    ]
    assert logical(spark, *rows) == [
        ("a", "hub", "b", "pricing", 1, 0, 10),
        ("b", "pricing", "a", "hub", 1, 0, 6),
        ("b", "pricing", "c", "shipping", 1, 0, 3),
    ]


def test_an_edge_has_the_names_of_the_classes_at_both_ends(spark: SparkSession) -> None:
    rows = [
        *(submitted(1, local_receiver="hub"), delivered(11, "p", receiver_name="Pricing", handler="price")),
        submitted(12, "b", cause=11, message_id=2, local_receiver="p", receiver_name="Pricing", handler="price"),
        delivered(15, "s", "c", message_id=2, receiver_name="Shipping", handler="ship"),
    ]
    ends = ("source", "source_name", "target", "target_name")
    found = [row for row in rows_of(edges(table(spark, rows))) if row["kind"] == "logical"]
    assert sorted(tuple(row[name] for name in ends) for row in found) == [
        ("hub", None, "p", "Pricing"),
        ("p", "Pricing", "s", "Shipping"),
    ]


def test_a_cause_on_another_node_is_another_record(spark: SparkSession) -> None:
    rows = delivered(11, "stranger", "c", message_id=9), submitted(12, cause=11), delivered(15, "x")
    assert ("a", "", "b", "x", 1, 0, 3) in logical(spark, *rows)


def test_a_message_that_nobody_saw_submitted_comes_from_nowhere(spark: SparkSession) -> None:
    assert logical(spark, delivered(1, "x"), delivered(2, "x")) == [("", "", "b", "x", 2, 0, None)]


def test_a_message_delivered_again_is_one_message_and_a_broadcast_is_one_for_each_receiver(spark: SparkSession) -> None:
    again = submitted(1), delivered(4, "x"), delivered(9, "x")
    copies = submitted(1, message_id=2), *(delivered(5, name, message_id=2) for name in ("y", "z"))
    assert logical(spark, *again, *copies) == [
        ("a", "", "b", "x", 1, 0, 3),
        ("a", "", "b", "y", 1, 0, 4),
        ("a", "", "b", "z", 1, 0, 4),
    ]


def test_messages_that_nothing_tells_apart_are_all_counted_without_a_transit(spark: SparkSession) -> None:
    twins = submitted(1), submitted(2, "c"), delivered(3, "x"), delivered(4, "x"), delivered(5, "x")
    assert logical(spark, *twins) == [("a", "", "b", "x", 1, 0, None), ("c", "", "b", "x", 1, 0, None)]


def test_a_handler_that_fails_is_an_error_in_the_window_of_the_delivery(spark: SparkSession) -> None:
    minute = 60_000_000
    failed = message("handled", "b", at=minute + 5, local_receiver="x", reason="no")
    fine = message("handled", "b", at=7, local_receiver="y")
    stray = message("handled", "b", at=8, local_receiver="never", reason="no")
    assert logical(spark, submitted(1), delivered(3, "x"), failed, delivered(3, "y", seq=4), fine, stray) == [
        ("a", "", "b", "x", 1, 1, 2),
        ("a", "", "b", "y", 1, 0, 2),
    ]


def micros(start: datetime, end: datetime) -> int:
    return round((end - start).total_seconds() * 1_000_000)


def expected_edges(rows: list[Row], window_s: int) -> list[dict[str, Any]]:
    """Sum up the plain way."""
    contributions = []
    for row in reference.transits(rows):
        at = row["sent_ts"] or row["received_ts"]
        later = [
            other
            for other in rows
            if other["event"] in ("sent", "received", "rejected")
            and (other["event"] == "rejected" or other["peer"] is not None)
            and (other["node"], other["message_id"]) == (row["to_node"], row["message_id"])
            and row["received_seq"] is not None
            and other["seq"] > row["received_seq"]
        ]
        rejected = bool(later) and min(later, key=lambda other: other["seq"])["event"] == "rejected"
        pair = ("physical", row["from_node"], row["from_node"], None, row["to_node"], row["to_node"], None)
        identity = f"KIND{row['message_id'] % 3}"
        contributions.append(
            (at, (*pair, identity), 1, row["bytes"], int(rejected), int(bool(row["lost"])), row["transit_us"])
        )
    contributions += logical_contributions(rows)
    groups = defaultdict(list)
    for at, ends, *rest in contributions:
        groups[int((at - START).total_seconds() // window_s) * window_s, ends].append(rest)
    names = ("kind", "source_node", "source", "source_name", "target_node", "target", "target_name", "identity")
    return [
        {"window_start": moment(window * 1_000_000), **dict(zip(names, ends, strict=True))}
        | {name: sum(one[n] for one in group) for n, name in enumerate(("count", "bytes", "errors", "lost"))}
        | {f"transit_p{percent}_us": nearest_rank([one[4] for one in group], percent) for percent in (50, 95, 99)}
        for (window, ends), group in groups.items()
    ]


def logical_contributions(rows: list[Row]) -> list[Any]:
    """Follow each delivery back to what it comes from."""
    rows = [row for row in rows if row["node"] is not None]
    receivers = {(row["node"], row["seq"]): row["local_receiver"] for row in rows if row["event"] == "delivered"}
    by_time = sorted(rows, key=lambda row: (row["ts"], row["node"], row["seq"]))
    result = []
    for message_id in {row["message_id"] for row in rows}:
        mine = [row for row in by_time if row["message_id"] == message_id]
        submissions = [row for row in mine if row["event"] == "submitted"]
        targets: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in mine:
            if row["event"] in ("delivered", "handled"):
                targets[row["node"], row["local_receiver"] or ""].append(row)
        for target, there in targets.items():
            count, at = 0, None
            for row in there:
                is_delivery = row["event"] == "delivered"
                if is_delivery:
                    count, at = count + 1, row["ts"]
                if at is None or (submissions and count > len(submissions)) or not (is_delivery or row["reason"]):
                    continue
                source_node, source, source_name, transit = "", "", None, None
                if submissions:
                    one = submissions[count - 1]
                    handling = receivers.get((one["node"], one["cause"]))
                    source_node, source = one["node"], handling or one["local_receiver"] or ""
                    source_name = CLASSES.get(source)
                    transit = micros(one["ts"], at) if is_delivery and len(submissions) == 1 else None
                ends = ("logical", source_node, source, source_name, *target, CLASSES.get(target[1]), row["identity"])
                size = row["bytes"] if is_delivery else 0
                result.append((at, ends, int(is_delivery), size, int(not is_delivery), 0, transit))
    return result


def one_of_few(number: int) -> Row:
    return {"message_id": 1_000 + number, "fingerprint": number + 10_000, "identity": f"KIND{(1_000 + number) % 3}"}


@PARTITIONS
def test_edges_are_what_plain_sums_give_however_the_records_lie(spark: SparkSession, partitions: int) -> None:
    # Messages of which nothing tells the copies apart, and others that were submitted once or never.
    rows = coincidences(seed=4)
    for n, row in enumerate(rows):
        if n % 2:
            row.update(one_of_few(5 * (n % 40) + row["message_id"]))
    messages = scattered(spark, rows, partitions)
    same(edges(messages, window_s=120), expected_edges(rows, window_s=120))


def test_the_source_of_what_a_handler_asks_in_another_flow_is_that_handler(spark: SparkSession) -> None:
    rows = [submitted(1, flow_id="order"), delivered(10, "clerk", "a", flow_id="order")]
    for number in range(2, 12):
        said: Row = {"flow_id": f"flow-{number}", "message_id": number}
        rows += [submitted(10 * number + 1, cause=10, **said), delivered(10 * number + 2, "pricer", **said)]
    assert ("a", "clerk", "b", "pricer", 10, 0, 1) in logical(spark, *rows)
