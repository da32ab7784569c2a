"""Which units of a stream are closed."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from hopline.pipeline.stream import closing
from hopline.pipeline.stream.settling import micros
from hopline.pipeline.tables.by_flow import by_flow
from tests.pipeline.rows import START, Row, message, table
from tests.pipeline.traffic import Traffic

SECOND = 1_000_000
GAP_S = 10.0


def closed(spark: SparkSession, rows: list[Row], passed_s: dict[str, float]) -> set[str]:
    """Return the flows that are closed when nodes have passed some times, in seconds after the start."""
    records = by_flow(table(spark, rows)).cache()
    took_part = closing.participants(records)
    passed = closing.passed_by(spark, {node: time_of(seconds) for node, seconds in passed_s.items()})
    units = closing.units(records, took_part, passed, GAP_S).cache()
    keys = closing.closed_keys(units, records, GAP_S)
    found = records.join(keys, "flow_key", "left_semi").select("flow_id").distinct().collect()
    return {row.flow_id for row in found}


def time_of(seconds: float) -> int:
    if abs(seconds) >= closing.EVER:
        return int(seconds)
    return micros(START) + round(seconds * SECOND)


def crossing(flow: str = "f", at: int = 0, **more: Any) -> list[Row]:
    """Return a message that a sends to b, which records its arrival a second later."""
    sent = message("sent", "a", at=at, peer="b", flow_id=flow, **more)
    return [sent, message("received", "b", at=at + SECOND, peer="a", flow_id=flow, **more)]


@pytest.mark.parametrize(
    ("passed_s", "is_closed"),
    [
        ({"a": 11, "b": 11}, True),
        ({"a": 10.9, "b": 11}, False),
        ({"a": 11, "b": 10.9}, False),
        ({"a": 11}, False),
        ({"a": 11, "b": closing.NEVER}, False),
        ({"a": 11, "b": closing.EVER}, True),
    ],
)
def test_a_flow_is_closed_when_all_who_took_part_have_passed_its_end_by_the_gap(
    spark: SparkSession, passed_s: dict[str, float], is_closed: bool
) -> None:
    assert closed(spark, crossing(), passed_s) == ({"f"} if is_closed else set())


def test_a_node_that_has_recorded_nothing_of_it_yet_took_part_if_it_was_sent_to(spark: SparkSession) -> None:
    only_sent = crossing()[:1]
    assert closed(spark, only_sent, {"a": 30}) == set()
    assert closed(spark, only_sent, {"a": 30, "b": 10}) == {"f"}


def test_a_request_is_open_until_it_is_answered_or_its_lifetime_is_over(spark: SparkSession) -> None:
    unanswered, answered = Traffic("unanswered"), Traffic("answered")
    unanswered.ask("a", "ORDER", 0, ["PRICE"], ttl_us=60 * SECOND)
    order = answered.ask("a", "ORDER", 0, ["PRICE"], ttl_us=60 * SECOND)
    job = answered.deliver(order, "a", "pricer", 20)
    answered.home(answered.result(job, "PRICE", 70), "a", 100)
    answered.handled(job, 110)
    rows = [*unanswered.rows, *answered.rows]
    assert closed(spark, rows, {"a": 69.9}) == {"answered"}
    assert closed(spark, rows, {"a": 70}) == {"answered", "unanswered"}


def test_a_flow_and_those_that_its_handlers_began_are_closed_together(spark: SparkSession) -> None:
    rows = [
        message("delivered", "a", at=0, seq=7, flow_id="parent"),
        message("submitted", "a", at=SECOND, seq=8, cause=7, flow_id="child", message_id=2),
        message("delivered", "a", at=2 * SECOND, seq=9, flow_id="child", message_id=2),
        message("submitted", "a", at=20 * SECOND, seq=20, cause=9, flow_id="grandchild", message_id=3),
        message("delivered", "a", at=0, seq=5, flow_id="other", message_id=4),
    ]
    assert closed(spark, rows, {"a": 29.9}) == {"other"}
    assert closed(spark, rows, {"a": 30}) == {"other", "parent", "child", "grandchild"}


def test_what_goes_on_and_on_is_cut(spark: SparkSession) -> None:
    hour = closing.LONGEST_FLOW_S
    endless = [message("sent", "a", at=at * SECOND, flow_id="f") for at in range(0, hour + 5, 5)]
    assert closed(spark, endless, {"a": hour}) == set()
    assert closed(spark, [*endless, message("sent", "a", at=(hour + 1) * SECOND, flow_id="f")], {"a": hour}) == {"f"}
    turns = [message("delivered", "a", at=0, seq=0, flow_id="turn 0")]
    for turn in range(1, 5):  # each handler asks for the next
        flow, at = f"turn {turn}", turn * 1_000 * SECOND
        turns.append(message("submitted", "a", at=at, seq=2 * turn - 1, cause=2 * turn - 2, flow_id=flow))
        turns.append(message("delivered", "a", at=at, seq=2 * turn, flow_id=flow))
    assert closed(spark, turns[:5], {"a": 2_000}) == set()
    assert closed(spark, turns, {"a": 4_000}) == {f"turn {turn}" for turn in range(4)}
    heartbeats = [message("sent", "a", at=at * SECOND) for at in range(0, 105, 5)]
    assert closed(spark, heartbeats, {"a": 100}) == set()
    assert closed(spark, [*heartbeats, message("sent", "a", at=105 * SECOND)], {"a": 105}) == {None}


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=13, max_size=13),
)
def test_journeys_are_what_their_links_connect(pairs: list[tuple[int, int]], times: list[tuple[int, int]]) -> None:
    graph = nx.Graph(pairs)
    members = sorted(graph)
    expected = {
        member
        for journey in nx.connected_components(graph)
        for member in journey
        if min(times[one][1] for one in journey) < max(times[one][0] for one in journey) + 10
    }
    links = pa.table({"flow_key": [one for one, _ in pairs], "linked_key": [other for _, other in pairs]})
    order = list(np.random.default_rng(len(pairs)).permutation(members))
    found = closing.open_members(
        links,
        pa.table(
            {
                "flow_key": pa.array(order, pa.int64()),
                "first_us": pa.array([times[one][0] for one in order], pa.int64()),
                "last_us": pa.array([times[one][0] for one in order], pa.int64()),
                "reached_us": pa.array([times[one][1] for one in order], pa.int64()),
            }
        ),
        10,
    )
    assert set(found.tolist()) == expected
