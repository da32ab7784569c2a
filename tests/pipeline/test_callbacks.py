"""Requests and their answers: told as scenarios, and at random beside a second implementation."""

from __future__ import annotations

from collections import defaultdict

import pytest
from pyspark.sql import SparkSession

from hopline.pipeline.tables.callbacks import CALLBACKS
from tests.pipeline import reference, scenarios
from tests.pipeline.random_traffic import captures
from tests.pipeline.rows import Row, moment, rows_of, table
from tests.pipeline.tables import callbacks
from tests.pipeline.traffic import EXCEPTION, RECEIPT, kind

# flow: who asked, when, who answered with what, when, and how it ended. Where nobody is named, no answer came.
EXPECTED = {
    "on_one_node": ("a", 0, "a", "PRICE", 100, "answered"),
    "across_two_nodes": ("a", 0, "b", "PRICE", 150, "answered"),
    "four_actors_on_three_nodes": ("a", 0, "b", "SHIPPED", 350, "answered"),
    "clocks_that_differ": ("a", 0, "b", "SHIPPED", 350, "answered"),
    "recorded_on_the_wire": ("a", 10, "b", "SHIPPED", 350, "answered"),
    "recorded_here_more_and_there_less": ("a", 0, "b", "SHIPPED", 350, "answered"),
    "in_the_first_format": ("a", 0, "b", "SHIPPED", 350, "answered"),
    "in_the_first_format_on_the_wire": ("a", 10, "b", "SHIPPED", 350, "answered"),
    "untraced_on_the_wire": ("a", 10, "b", "SHIPPED", 350, "answered"),
    "fan_out": ("a", 0, "a", "DONE", 100, "answered"),
    "answered_by_an_exception": ("a", 0, "b", EXCEPTION, 90, "exception"),
    "answered_late": ("a", 0, "b", "PRICE", 150, "late"),
    "taken_although_its_time_was_over": ("a", 0, "b", "PRICE", 150, "answered"),
    "an_exception_that_is_late": ("a", 0, "b", EXCEPTION, 150, "late"),
    "expired_in_a_mailbox": ("z", 0, None, None, None, "expired"),
    "expired_in_silence": ("a", 0, None, None, None, "expired"),
    "never_answered": ("a", 0, None, None, None, "unanswered"),
    "nobody_watched_long_enough": ("z", 100, None, None, None, "unanswered"),
    "orphan": ("a", None, None, None, None, "unanswered"),
    "orphan_with_a_receipt": ("a", None, None, None, None, "unanswered"),
    "asked_of_nobody": ("z", 0, None, None, None, "unanswered"),
    "reported_by_the_router": ("a", 0, "a", EXCEPTION, 10, "exception"),
    "confirmed_by_a_receipt": ("a", 0, "b", RECEIPT, 70, "answered"),
    "a_receipt_is_no_answer": ("a", 0, "b", "PRICE", 130, "answered"),
    "answered_late_after_a_receipt": ("a", 0, "b", "PRICE", 150, "late"),
    "arrived_twice": ("a", 0, "b", "PRICE", 60, "answered"),
    "asked_inside_a_handler": ("a", 500, "a", "PRICE", 600, "answered"),
    "forged_and_replayed": ("a", 0, "b", "PRICE", 150, "answered"),
    "huge": ("a", 0, "a", "DONE", 5_010, "answered"),
    # Of what was asked again, the last attempt.
    "answered_at_the_third_attempt": ("a", 300, "b", "PRICE", 390, "answered"),
    "answered_late_and_at_the_second_attempt": ("a", 300, "b", "PRICE", 390, "answered"),
    "asked_of_nobody_and_in_vain": ("a", 300, None, None, None, "expired"),
    "expired_and_answered_by_an_exception": ("a", 300, "b", EXCEPTION, 390, "exception"),
    "asked_again_on_the_wire": ("a", 310, "b", "PRICE", 390, "answered"),
}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Row]]:
    frame = callbacks(table(spark, scenarios.rows()))
    assert frame.schema.simpleString() == CALLBACKS.simpleString()
    by_flow = defaultdict(list)
    for row in rows_of(frame):
        by_flow[row["flow_id"]].append(row)
    return by_flow


@pytest.mark.parametrize("flow", EXPECTED)
def test_a_request_is_matched_with_its_first_answer(found: dict[str, list[Row]], flow: str) -> None:
    (row,) = (row for row in found[flow] if not row["asked_again"])
    asked_node, asked, answered_by, answer, answered, outcome = EXPECTED[flow]
    assert (row["asked_node"], row["asked_receiver"]) == (asked_node, f"hub-{asked_node}")
    assert row["asked_ts"] == (None if asked is None else moment(asked))
    assert (row["answered_by"], row["answer_identity"]) == (answered_by, answer)
    assert row["answered_ts"] == (None if answered is None else moment(answered))
    assert row["latency_us"] == (None if asked is None or answered is None else answered - asked)
    assert row["outcome"] == outcome


@pytest.mark.parametrize(
    ("flow", "outcomes"),
    [
        ("answered_at_the_third_attempt", {1: "exception", 2: "exception", 3: "answered"}),
        ("answered_late_and_at_the_second_attempt", {1: "late", 2: "answered"}),
        ("asked_of_nobody_and_in_vain", {1: "expired", 2: "expired"}),
        ("expired_and_answered_by_an_exception", {1: "expired", 2: "exception"}),
        ("asked_again_on_the_wire", {1: "exception", 2: "answered"}),
    ],
)
def test_every_attempt_stays_what_it_was_and_says_whether_another_followed(
    found: dict[str, list[Row]], flow: str, outcomes: dict[int, str]
) -> None:
    attempts = sorted(found[flow], key=lambda row: row["attempt"])
    assert {row["attempt"]: row["outcome"] for row in attempts} == outcomes
    assert [row["asked_again"] for row in attempts] == [row["attempt"] < len(outcomes) for row in attempts]


def test_nothing_else_is_a_request(found: dict[str, list[Row]]) -> None:
    assert found.keys() == EXPECTED.keys()


def test_what_was_asked_for_is_what_the_request_says(found: dict[str, list[Row]]) -> None:
    (row,) = found["a_receipt_is_no_answer"]
    assert row["asked_for"] == [kind(RECEIPT), kind("PRICE"), kind(EXCEPTION)]
    assert (row["identity"], row["version"], row["partition"]) == ("ORDER", "1", "")
    (row,) = found["answered_late"]
    assert row["ttl_us"] == 100


def test_a_second_implementation_agrees_on_random_captures(spark: SparkSession) -> None:
    rows = captures(seed=5, flows=300)
    expected = reference.callbacks(rows)

    def key(row: Row) -> tuple[str, str, int]:
        return row["flow_id"], row["asked_receiver"], row["callback_key"]

    assert {row["outcome"] for row in expected} == {"answered", "exception", "late", "expired", "unanswered"}
    assert {row["attempt"] for row in expected} == {1, 2, 3}
    assert {(row["attempt"], row["asked_again"]) for row in expected} >= {(1, True), (2, True), (2, False)}
    got = sorted(rows_of(callbacks(table(spark, rows))), key=key)
    names = expected[0].keys()
    assert [{name: row[name] for name in names} for row in got] == sorted(expected, key=key)
