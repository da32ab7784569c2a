"""Skew: the offset of two clocks from the shortest transits both ways."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from hopline.pipeline.tables.hops import HOPS
from hopline.pipeline.tables.skew import SKEW
from hopline.pipeline.tables.skew import skew as estimated
from tests.pipeline import reference
from tests.pipeline.coincidences import PARTITIONS, coincidences, same, scattered, with_slow_ways
from tests.pipeline.rows import day, message, table
from tests.pipeline.tables import skew

_NAMES = ("date", "from_node", "to_node", "transit_us")
TRANSITS = StructType([field for field in HOPS if field.name in _NAMES])


def expected_skew(transits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Estimate the plain way."""
    seen: dict[tuple[date, str, str], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for row in transits:
        pair = sorted((row["from_node"], row["to_node"]))
        if row["transit_us"] is not None and pair[0] != pair[1]:
            seen[row["date"], pair[0], pair[1]][row["from_node"] == pair[1]].append(row["transit_us"])
    result = []
    for (on, node_a, node_b), (there, back) in seen.items():
        row = {"date": on, "node_a": node_a, "node_b": node_b, "offset_us": None, "bound_us": None}
        row |= {"min_transit_ab_us": min(there, default=None), "min_transit_ba_us": min(back, default=None)}
        row |= {"transits_ab": len(there), "transits_ba": len(back)}
        if there and back:
            row["bound_us"] = (min(there) + min(back) + 1) // 2
            row["offset_us"] = (min(there) - min(back) + 1) // 2 if row["bound_us"] >= 0 else None
        result.append(row)
    return result


def transit(from_node: str, to_node: str, us: int, on: int = 0) -> dict[str, Any]:
    return {"date": day(on), "from_node": from_node, "to_node": to_node, "transit_us": us}


def test_the_offset_is_half_the_difference_of_the_shortest_ways_and_the_bound_half_their_sum(
    spark: SparkSession,
) -> None:
    ways = [transit("a", "b", 150), transit("a", "b", 900), transit("b", "a", -40)]
    frame = estimated(table(spark, ways, TRANSITS))
    same(
        frame,
        [
            {"date": day(0), "node_a": "a", "node_b": "b", "offset_us": 95, "bound_us": 55}
            | {"min_transit_ab_us": 150, "min_transit_ba_us": -40, "transits_ab": 2, "transits_ba": 1}
        ],
    )
    assert frame.columns == SKEW.names


def test_one_direction_alone_gives_no_estimate_and_a_node_is_no_pair_with_itself(spark: SparkSession) -> None:
    rows = [
        *(message("sent", "b", peer="a", at=1), message("received", "a", peer="b", at=8)),
        *(message("sent", "a", peer="a", at=2, message_id=2), message("received", "a", peer="a", at=3, message_id=2)),
        message("sent", "c", peer="d", at=4, message_id=3),
    ]
    frame = skew(table(spark, rows))
    nothing = {"offset_us": None, "bound_us": None, "min_transit_ab_us": None}
    same(frame, [{"node_a": "a", "node_b": "b", "min_transit_ba_us": 7, "transits_ab": 0, "transits_ba": 1} | nothing])


def test_each_day_has_its_own_estimate(spark: SparkSession) -> None:
    tomorrow = 86_400_000_000
    ways = [
        transit("a", "b", 10),
        transit("b", "a", 10),
        transit("a", "b", 30, tomorrow),
        transit("b", "a", 10, tomorrow),
    ]
    frame = estimated(table(spark, ways, TRANSITS))
    same(frame, [{"date": day(0), "offset_us": 0}, {"date": day(tomorrow), "offset_us": 10}])


@pytest.mark.parametrize(("there", "back"), [(4, 3), (3, 4), (-3, 4), (4, -3)])
def test_half_a_microsecond_is_rounded_so_that_the_truth_stays_within_the_bound(there: int, back: int) -> None:
    """The reference is the same sum as the column's; what it must keep is said here."""
    [row] = expected_skew([transit("a", "b", there), transit("b", "a", back)])
    for truth in (-back, there):  # with a true transit of zero one way or the other
        assert abs(truth - row["offset_us"]) <= row["bound_us"]


def test_clocks_that_did_not_keep_step_have_no_offset_and_the_bound_says_why(spark: SparkSession) -> None:
    ways = [transit("a", "b", -31_800), transit("b", "a", -7_800)]
    frame = estimated(table(spark, ways, TRANSITS))
    same(frame, [{"offset_us": None, "bound_us": -19_800, "min_transit_ab_us": -31_800, "min_transit_ba_us": -7_800}])


@PARTITIONS
def test_skew_is_what_plain_arithmetic_finds_however_the_records_lie(spark: SparkSession, partitions: int) -> None:
    rows = with_slow_ways(coincidences(seed=2, size=1_000))
    expected = expected_skew(reference.transits(rows))
    assert {row["offset_us"] is None for row in expected} == {False, True}
    assert any((row["bound_us"] or 0) < 0 for row in expected)
    same(skew(scattered(spark, rows, partitions)), expected)
