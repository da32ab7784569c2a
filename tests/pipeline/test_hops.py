"""Hops: every sent and received record in one transit, and what became of it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hopline.pipeline.tables.hops import HOPS
from tests.pipeline import reference
from tests.pipeline.coincidences import PARTITIONS, coincidences, in_order, same, scattered, with_slow_ways
from tests.pipeline.rows import Row, day, message, moment, rows_of, table
from tests.pipeline.tables import hops

WHAT = ("from_node", "to_node", "sent_seq", "received_seq", "transit_us", "lost", "duplicate")


def found(spark: SparkSession, *rows: Row) -> list[tuple[Any, ...]]:
    """Give what matters of each transit."""
    return sorted((tuple(row[name] for name in WHAT) for row in rows_of(transits(table(spark, rows)))), key=repr)


def transits(messages: DataFrame) -> DataFrame:
    """Match them, with the skew that the same messages tell."""
    return hops(messages)


def sent(at: int, *, to: str = "b", **columns: Any) -> Row:
    return message("sent", "a", at=at, peer=to, **columns)


def received(at: int, *, by: str = "b", **columns: Any) -> Row:
    return message("received", by, at=at, peer="a", **columns)


def test_a_message_that_arrives_is_one_transit_with_what_the_message_says(spark: SparkSession) -> None:
    said: Row = {
        "flow_id": "f",
        "service": True,
        "wire_format": "V6",
        "identity": "PING",
        "version": "2",
        "partition": "p",
    }
    said |= {"hops": 1, "bytes": 321, "message_id": 7, "fingerprint": 8}
    matched = transits(table(spark, [sent(5, seq=50, **said), received(17, seq=3, **said)]))
    same(
        matched,
        [
            said
            | {"date": day(0), "from_node": "a", "to_node": "b", "sent_ts": moment(5), "received_ts": moment(17)}
            | {"sent_seq": 50, "received_seq": 3, "transit_us": 12, "skew_us": None, "skew_bound_us": None}
            | {"lost": False, "duplicate": False, "rejected": False}
        ],
    )
    assert matched.columns == HOPS.names


def test_the_same_bytes_are_matched_in_order_and_what_comes_once_more_is_a_duplicate(spark: SparkSession) -> None:
    assert found(spark, sent(1), sent(2), received(21), received(12), received(33)) == [
        ("a", "b", 1, 12, 11, False, False),
        ("a", "b", 2, 21, 19, False, False),
        ("a", "b", None, 33, None, False, True),
    ]


def test_what_never_arrives_is_lost_if_the_receiver_was_still_watched(spark: SparkSession) -> None:
    watched = message("handled", "b", at=10)
    assert found(spark, sent(10), sent(11), sent(3, to="nobody"), watched) == [
        ("a", "b", 10, None, None, True, False),
        ("a", "b", 11, None, None, None, False),
        ("a", "nobody", 3, None, None, None, False),
    ]


def test_what_was_lost_is_judged_by_the_receivers_clock_as_it_is_estimated(spark: SparkSession) -> None:
    """The receiver's clock is 2 s behind: its last record is from after the sending, and seems to be from before."""
    second = 1_000_000
    there = sent(10 * second, message_id=1), received(8 * second + 100, message_id=1)
    back = (
        message("sent", "b", at=8 * second + 200, peer="a", message_id=2),
        message("received", "a", at=10 * second + 300, peer="b", message_id=2),
    )
    lost = sent(11 * second, message_id=3), sent(13 * second, message_id=4)
    last = message("handled", "b", at=10 * second)  # at 12 by the sender's clock
    messages = table(spark, [*there, *back, *lost, last])
    outcomes = {row["message_id"]: row["lost"] for row in rows_of(transits(messages))}
    assert outcomes == {1: False, 2: False, 3: True, 4: None}


def test_clocks_that_did_not_keep_step_are_compared_as_they_are(spark: SparkSession) -> None:
    there = sent(1_000, message_id=1), received(500, message_id=1)
    back = (
        message("sent", "b", at=2_000, peer="a", message_id=2),
        message("received", "a", at=1_900, peer="b", message_id=2),
    )
    messages = table(spark, [*there, *back, sent(2_000, message_id=3), sent(2_001, message_id=4)])
    found = {row["message_id"]: (row["lost"], row["skew_us"]) for row in rows_of(transits(messages))}
    assert found == {1: (False, None), 2: (False, None), 3: (True, None), 4: (None, None)}


def test_an_arrival_that_nobody_sent_is_neither_lost_nor_a_duplicate(spark: SparkSession) -> None:
    assert found(spark, received(4), received(5)) == [
        ("a", "b", None, 4, None, False, False),
        ("a", "b", None, 5, None, False, False),
    ]


def test_other_bytes_other_pairs_and_records_without_a_node_do_not_match(spark: SparkSession) -> None:
    rows = sent(1, fingerprint=5), received(2, fingerprint=6), received(3, by="c", fingerprint=5)
    assert found(spark, *rows, message("sent", None, peer="b"), message("received", "b", peer=None)) == [
        ("a", "b", 1, None, None, True, False),
        ("a", "b", None, 2, None, False, False),
        ("a", "c", None, 3, None, False, False),
    ]


def test_the_skew_beside_a_transit_is_the_receivers_clock_minus_the_senders(spark: SparkSession) -> None:
    there = sent(1_000, message_id=1), received(1_150, message_id=1)
    back = (
        message("sent", "b", at=2_000, peer="a", message_id=2),
        message("received", "a", at=1_950, peer="b", message_id=2),
    )
    matched = transits(table(spark, [*there, *back]))
    same(
        matched,
        [
            {"from_node": "a", "transit_us": 150, "skew_us": 100, "skew_bound_us": 50},
            {"from_node": "b", "transit_us": -50, "skew_us": -100, "skew_bound_us": 50},
        ],
    )


def test_only_the_arrival_that_the_receiver_then_rejected_counts_as_rejected(spark: SparkSession) -> None:
    again = received(3), received(5), message("rejected", "b", at=6), received(8)
    same(
        transits(table(spark, [sent(1), *again, message("rejected", "a", at=9)])),
        [{"received_seq": seq, "rejected": seq == 5} for seq in (3, 5, 8)],
    )


@PARTITIONS
def test_transits_are_those_that_plain_matching_finds_however_the_records_lie(
    spark: SparkSession, partitions: int
) -> None:
    rows = with_slow_ways(coincidences(seed=1))
    expected = reference.transits(rows)
    assert {row["lost"] for row in expected} == {True, False, None}
    same(transits(scattered(spark, rows, partitions)), expected)


def test_there_are_no_hops_without_messages(spark: SparkSession) -> None:
    nothing = transits(table(spark, []))
    assert in_order(rows_of(nothing)) == []
