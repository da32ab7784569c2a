"""Flows: told as scenarios, at random beside a second implementation, and cut into any number of pieces."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import SparkSession

from hopline.pipeline.tables.flows import FLOWS
from hopline.pipeline.tables.skew import SKEW
from tests.pipeline import reference, scenarios
from tests.pipeline.random_traffic import captures
from tests.pipeline.rows import Row, day, moment, rows_of, table
from tests.pipeline.tables import flows

# flow: outcome, origin, start, end, and messages, records, hops, nodes, bytes, depth
EXPECTED = {
    "on_one_node": ("complete", "a", 0, 100, (2, 6, 0, 1, 200, 2)),
    "across_two_nodes": ("complete", "a", 0, 150, (2, 10, 2, 2, 200, 2)),
    "four_actors_on_three_nodes": ("complete", "a", 0, 350, (5, 23, 4, 3, 500, 5)),
    "clocks_that_differ": ("complete", "a", 0, 350, (5, 23, 4, 3, 500, 5)),
    "recorded_on_the_wire": ("complete", "a", 10, 350, (4, 8, 4, 3, 440, 4)),
    "recorded_here_more_and_there_less": ("complete", "a", 0, 350, (5, 17, 4, 3, 520, 5)),
    "in_the_first_format": ("complete", "a", 0, 350, (5, 23, 4, 3, 500, 5)),
    "in_the_first_format_on_the_wire": ("complete", "a", 10, 350, (4, 8, 4, 3, 440, 4)),
    "untraced_on_the_wire": ("complete", "a", 10, 350, (4, 8, 4, 3, 440, 4)),
    "fan_out": ("complete", "a", 0, 100, (5, 14, 0, 1, 500, 3)),
    "answered_by_an_exception": ("failed", "a", 0, 90, (2, 10, 2, 2, 200, 2)),
    "answered_late": ("expired", "a", 0, 150, (2, 9, 2, 2, 200, 2)),
    "taken_although_its_time_was_over": ("complete", "a", 0, 150, (2, 10, 2, 2, 200, 2)),
    "an_exception_that_is_late": ("expired", "a", 0, 150, (2, 7, 2, 2, 200, 2)),
    "expired_in_a_mailbox": ("expired", "z", 0, 140, (1, 4, 1, 2, 100, 1)),
    "expired_in_silence": ("expired", "a", 0, 30, (1, 3, 1, 2, 100, 1)),
    "never_answered": ("unanswered", "a", 0, 60, (1, 5, 1, 2, 100, 1)),
    "nobody_watched_long_enough": ("unanswered", "z", 100, 130, (1, 3, 1, 2, 100, 1)),
    "orphan": ("orphan", None, 30, 310, (5, 18, 4, 2, 510, 5)),
    "orphan_that_came_home": ("orphan", None, 350, 361, (1, 3, 1, 1, 110, 1)),
    "orphan_with_a_receipt": ("orphan", None, 30, 400, (2, 5, 2, 1, 210, 2)),
    "told_one_way": ("complete", "a", 0, 80, (1, 5, 1, 2, 100, 1)),
    "told_one_way_on_the_wire": ("complete", "a", 10, 30, (1, 2, 1, 2, 110, 1)),
    "told_to_nobody": ("failed", "a", 0, 5, (1, 2, 0, 1, 100, 1)),
    "asked_of_nobody": ("failed", "z", 0, 5, (1, 2, 0, 1, 100, 1)),
    "told_and_expired": ("expired", "a", 0, 15, (1, 2, 0, 1, 100, 1)),
    "told_and_lost": ("failed", "a", 0, 10, (1, 2, 1, 1, 100, 1)),
    "broadcast": ("complete", "a", 0, 111, (1, 13, 2, 3, 100, 1)),
    "broadcast_on_the_wire": ("complete", "a", 10, 31, (1, 4, 2, 3, 110, 1)),
    "reported_by_the_router": ("failed", "a", 0, 10, (2, 5, 0, 1, 200, 2)),
    "confirmed_by_a_receipt": ("complete", "a", 0, 70, (2, 10, 2, 2, 200, 2)),
    "a_receipt_is_no_answer": ("complete", "a", 0, 130, (3, 10, 3, 2, 300, 2)),
    "answered_late_after_a_receipt": ("expired", "a", 0, 150, (3, 13, 3, 2, 300, 2)),
    "arrived_twice": ("complete", "a", 0, 60, (3, 15, 3, 2, 300, 2)),
    "asked_inside_a_handler": ("complete", "a", 500, 600, (2, 5, 0, 1, 200, 2)),
    "told_inside_a_handler": ("complete", "a", 500, 580, (1, 5, 1, 2, 100, 1)),
    "forged_and_replayed": ("complete", "a", 0, 150, (2, 10, 2, 2, 200, 2)),
    "rejected_without_an_offence": ("failed", "a", 0, 31, (1, 4, 1, 2, 100, 1)),
    "taken_off_the_wire_by_another_tool": ("orphan", None, 0, 361, (5, 23, 0, 0, 500, 1)),
    "huge": ("truncated", "a", 0, 5_010, (602, 1_805, 0, 1, 60_200, 2)),
    "answered_at_the_third_attempt": ("complete", "a", 0, 390, (6, 30, 6, 2, 600, 2)),
    "answered_late_and_at_the_second_attempt": ("complete", "a", 0, 390, (4, 19, 4, 2, 400, 2)),
    "asked_of_nobody_and_in_vain": ("expired", "a", 0, 330, (2, 5, 1, 2, 200, 1)),
    "expired_and_answered_by_an_exception": ("failed", "a", 0, 390, (3, 13, 3, 2, 300, 2)),
    "asked_again_on_the_wire": ("complete", "a", 10, 390, (4, 8, 4, 2, 440, 4)),
}

PATHS = {
    "on_one_node": "wait a ORDER 20, run a ORDER 50, wait a PRICE 30",
    "across_two_nodes": "send a ORDER 10, transit b ORDER 20, wait b ORDER 20, run b ORDER 40, "
    "send b PRICE 10, transit a PRICE 50",
    "clocks_that_differ": "send a ORDER 10, transit b ORDER -4980, wait b ORDER 20, run b ORDER 10, "
    "send b PRICED 10, transit c PRICED 12020, wait c PRICED 10, run c PRICED 30, "
    "wait c RESERVED 20, run c RESERVED 30, "
    "send c CHARGED 10, transit b CHARGED -11980, wait b CHARGED 10, run b CHARGED 80, "
    "send b SHIPPED 10, transit a SHIPPED 5040",
    "recorded_on_the_wire": "transit b ORDER -4980, run b ORDER 40, transit c PRICED 12020, run c PRICED 100, "
    "transit b CHARGED -11980, run b CHARGED 100, transit a SHIPPED 5040",
    "recorded_here_more_and_there_less": "send a ORDER 10, transit b ORDER 20, run b ORDER 40, "
    "transit c PRICED 20, wait c PRICED 10, run c PRICED 30, wait c RESERVED 20, run c RESERVED 30, "
    "send c CHARGED 10, transit b CHARGED 20, run b CHARGED 100, transit a SHIPPED 40",
    "untraced_on_the_wire": "transit b ORDER 20, run b ORDER 40, transit c PRICED 20, run c PRICED 100, "
    "transit b CHARGED 20, run b CHARGED 100, transit a SHIPPED 40",
    "fan_out": "wait a ORDER 10, run a ORDER 10, wait a LEFT 10, run a LEFT 60, wait a DONE 10",
    "told_inside_a_handler": "send a NOTE 10, transit b NOTE 20, wait b NOTE 20, run b NOTE 30",
    "expired_in_a_mailbox": "send z ORDER 10, transit b ORDER 20, wait b ORDER 110",
    "confirmed_by_a_receipt": "send a PARCEL 10, transit b PARCEL 20, run b PARCEL 10, "
    "send b KINO.RCPTCONFIRM 5, transit a KINO.RCPTCONFIRM 25",
    "arrived_twice": "send a ORDER 10, transit b ORDER 25, wait b ORDER 15, run b ORDER 2, "
    "send b PRICE 1, transit a PRICE 7",
    "broadcast": "send a NEWS 11, transit c NEWS 20, wait c NEWS 30, run c NEWS 50",
    "broadcast_on_the_wire": "send a NEWS 1, transit c NEWS 20",
    "reported_by_the_router": "wait a ORDER 5, run a ORDER 2, wait a KINO.EXCEPTION 3",
    "orphan_that_came_home": "wait a SHIPPED 10, wait a SHIPPED 1",
    "taken_off_the_wire_by_another_tool": "unseen None SHIPPED 361",
    "huge": "unseen a DONE 5010",
    "answered_at_the_third_attempt": "retry a ORDER 300, send a ORDER 10, transit b ORDER 20, wait b ORDER 10, "
    "run b ORDER 20, send b PRICE 10, transit a PRICE 20",
    "asked_of_nobody_and_in_vain": "retry a ORDER 300, send a ORDER 10, transit b ORDER 20",
    "asked_again_on_the_wire": "transit b ORDER 20, run b ORDER 40, transit a KINO.EXCEPTION 20, retry a ORDER 220, "
    "transit b ORDER 20, run b ORDER 40, transit a PRICE 20",
}


def clocks(**estimates: tuple[int, int]) -> list[Row]:
    """Make rows of ``skew``: the names of two nodes, the offset and the bound."""
    return [
        dict.fromkeys(SKEW.names)
        | {"date": day(0), "node_a": pair[0], "node_b": pair[1], "offset_us": offset, "bound_us": bound}
        for pair, (offset, bound) in estimates.items()
    ]


def computed(spark: SparkSession, rows: list[Row], *, skew: list[Row] | None = None, cut: int = 2) -> dict[str, Row]:
    messages = table(spark, rows).repartition(cut).cache()
    try:
        frame = flows(messages, table(spark, skew or [], SKEW))
        assert frame.schema.simpleString() == FLOWS.simpleString()
        return {row["flow_id"]: row for row in rows_of(frame)}
    finally:
        messages.unpersist()


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, Row]:
    return computed(spark, scenarios.rows(), skew=clocks(ab=(-100, 7), ac=(200, 11)))


@pytest.mark.parametrize("flow", EXPECTED)
def test_a_flow_is_one_row(found: dict[str, Row], flow: str) -> None:
    row = found[flow]
    outcome, origin, start, end, counts = EXPECTED[flow]
    assert (row["outcome"], row["origin"]) == (outcome, origin)
    assert (row["start_ts"], row["end_ts"], row["duration_us"]) == (moment(start), moment(end), end - start)
    assert tuple(row[name] for name in ("messages", "records", "hops", "nodes", "bytes", "depth")) == counts
    assert row["date"] == day(start)


@pytest.mark.parametrize("flow", PATHS)
def test_the_critical_path_tells_where_the_time_went(found: dict[str, Row], flow: str) -> None:
    path = found[flow]["critical_path"]
    assert ", ".join(f"{one['stage']} {one['node']} {one['identity']} {one['us']}" for one in path) == PATHS[flow]


def test_the_parts_of_every_path_sum_to_the_duration(found: dict[str, Row]) -> None:
    for row in found.values():
        assert sum(stage["us"] for stage in row["critical_path"]) == row["duration_us"]


def test_every_scenario_is_a_flow_but_for_what_was_only_forged(found: dict[str, Row]) -> None:
    assert found.keys() == EXPECTED.keys() == scenarios.SCENARIOS.keys() - {"only_forged"}


@pytest.mark.parametrize(
    ("flow", "skew", "bound"),
    [
        ("clocks_that_differ", 0, 0),
        ("told_one_way", -100, 7),  # from a to b
        ("broadcast", 200, 11),  # from a to c
        ("expired_in_a_mailbox", None, None),  # nobody knows of z's clock
    ],
)
def test_skew_counts_only_where_a_flow_ends_on_another_clock(
    found: dict[str, Row], flow: str, skew: int | None, bound: int | None
) -> None:
    assert (found[flow]["skew_us"], found[flow]["skew_bound_us"]) == (skew, bound)


def test_a_second_implementation_agrees_on_random_captures(spark: SparkSession) -> None:
    rows = captures(seed=7, flows=300)
    missing = {row["flow_id"] for row in reference.transits(rows) if row["lost"]}
    assert missing
    expected = reference.flows(rows, reference.callbacks(rows), missing)
    assert {row["outcome"] for row in expected} == {"complete", "failed", "expired", "unanswered", "orphan"}
    got = computed(spark, rows)
    names = expected[0].keys()
    assert {flow: {name: row[name] for name in names} for flow, row in got.items()} == {
        row["flow_id"]: row for row in expected
    }


@pytest.mark.parametrize(("partitions", "batch"), [(1, 10_000), (7, 11), (64, 500)])
def test_the_result_is_the_same_however_the_rows_are_cut_and_shuffled(
    spark: SparkSession, found: dict[str, Row], partitions: int, batch: int
) -> None:
    rows = scenarios.rows()
    Random(partitions).shuffle(rows)
    settings = {"spark.sql.shuffle.partitions": partitions, "spark.sql.execution.arrow.maxRecordsPerBatch": batch}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        assert computed(spark, rows, skew=clocks(ab=(-100, 7), ac=(200, 11)), cut=partitions) == found
    finally:
        for name, text in before.items():
            spark.conf.set(name, text or "")
