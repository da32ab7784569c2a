"""Flows that handlers of other flows began: their parents, their journeys, and what was waited for."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from hopline.pipeline.tables.journeys import JOURNEYS
from hopline.pipeline.tables.skew import SKEW
from tests.pipeline import reference
from tests.pipeline.coincidences import same, scattered
from tests.pipeline.random_traffic import captures
from tests.pipeline.rows import Row, message, rows_of, table
from tests.pipeline.tables import flows_and_journeys
from tests.pipeline.traffic import EXCEPTION, Job, Traffic


def asked_by(job: Job, flow: str, at: int, **columns: object) -> tuple[Traffic, Job]:
    """Let a handler ask a pricer on its own node."""
    t = Traffic(flow)
    price = t.ask(job.node, "PRICE", at, ["PRICED"])
    t.rows[-1] |= {"cause": job.seq, **columns}
    return t, t.deliver(price, job.node, "pricer", at + 10)


def answered(t: Traffic, job: Job, at: int) -> None:
    t.home(t.result(job, "PRICED", at), job.node, at + 5)
    t.handled(job, at + 6)


def an_order_with_questions() -> list[Row]:
    """Let a clerk ask twice, and the second one that it asks ask somebody else."""
    order = Traffic("order")
    clerk = order.deliver(order.ask("a", "ORDER", 0, ["DONE"]), "a", "clerk", 10)
    order.rows[-1] |= {"receiver_name": "Clerk", "handler": "order"}
    first, pricer = asked_by(clerk, "first", 100)
    answered(first, pricer, 195)
    second, pricer = asked_by(clerk, "second", 250)
    third, other = asked_by(pricer, "third", 300)
    answered(third, other, 395)
    answered(second, pricer, 445)
    order.home(order.result(clerk, "DONE", 500), "a", 520)
    order.handled(clerk, 501)
    return [*order.rows, *first.rows, *second.rows, *third.rows]


def sent_in_unusual_ways() -> list[Row]:
    note = Traffic("note")
    clerk = note.deliver(note.tell("b", "NOTE", 10_000), "b", "clerk", 10_010)
    rows = note.rows
    for number, receiver in enumerate(["clerk", None]):
        asked, job = asked_by(clerk, f"by-{receiver}", 10_100 + 100 * number, local_receiver=receiver)
        answered(asked, job, 10_150 + 100 * number)
        rows += asked.rows
    lost, job = asked_by(Job(clerk.message, "b", "clerk", 10_011), "lost-cause", 10_300, local_receiver="clerk")
    answered(lost, job, 10_350)
    told = Traffic("told")
    told.tell("b", "NEWS", 10_400)
    told.rows[-1] |= {"cause": clerk.seq, "local_receiver": None}
    return [*rows, *lost.rows, *told.rows]


def in_a_circle() -> list[Row]:
    """Let two flows begin inside each other, and a third one inside one of these, which cannot be."""
    rows = []
    for flow, cause, at in (("egg", 20_110, 20_000), ("hen", 20_010, 20_100), ("chick", 20_010, 20_200)):
        t, _ = asked_by(Job(Traffic("").message(""), "c", "hen", cause), flow, at)
        rows += t.rows
    return rows


def an_order_that_waited_in_vain() -> list[Row]:
    order = Traffic("patient")
    clerk = order.deliver(order.ask("a", "ORDER", 30_000, ["DONE"]), "a", "clerk", 30_010)
    lost = Traffic("silent")
    price = lost.ask("a", "PRICE", 30_020, ["PRICED"], ttl_us=300)
    lost.rows[-1]["cause"] = clerk.seq
    job = lost.deliver(lost.go(price, "a", "b", 30_030, 30_050), "b", "pricer", 30_060)
    lost.handled(job, 30_070, reason="ValueError")
    order.home(order.result(clerk, "DONE", 30_330), "a", 30_340)
    return [*order.rows, *lost.rows, message("sent", "a", at=90_000, peer="b", message_id=3)]


def an_order_that_asked_again() -> list[Row]:
    """Let a clerk ask three times: two attempts get exceptions, and the third one the answer."""
    order = Traffic("stubborn")
    clerk = order.deliver(order.ask("a", "ORDER", 40_000, ["DONE"]), "a", "clerk", 40_010)
    asked = Traffic("third-time")
    for attempt, answer in enumerate((EXCEPTION, EXCEPTION, "PRICED"), 1):
        at = 40_000 + 100 * attempt
        price = asked.ask("a", "PRICE", at, ["PRICED"], key=attempt, attempt=attempt)
        asked.rows[-1]["cause"] = clerk.seq
        job = asked.deliver(price, "a", "pricer", at + 10)
        asked.home(asked.result(job, answer, at + 30), "a", at + 40)
    order.home(order.result(clerk, "DONE", 40_400), "a", 40_410)
    return [*order.rows, *asked.rows]


Found = tuple[dict[str, Row], dict[str, Row]]


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> Found:
    parts = (
        an_order_with_questions(),
        sent_in_unusual_ways(),
        in_a_circle(),
        an_order_that_waited_in_vain(),
        an_order_that_asked_again(),
    )
    messages = table(spark, [row for part in parts for row in part]).cache()
    flows, journeys = flows_and_journeys(messages, table(spark, [], SKEW))
    assert journeys.schema.simpleString() == JOURNEYS.simpleString()
    return {row["flow_id"]: row for row in rows_of(flows)}, {row["journey_id"]: row for row in rows_of(journeys)}


@pytest.fixture(scope="module")
def found(both: Found) -> dict[str, Row]:
    return both[0]


def test_a_journey_is_one_row_with_all_that_came_of_a_flow(both: Found) -> None:
    _, journeys = both
    assert journeys.keys() == {"order", "note", "patient", "stubborn"}
    counts = ("flows", "depth", "messages", "hops", "nodes", "duration_us", "outcome", "outcome_flow_id")
    order, patient, stubborn = ([journeys[one][name] for name in counts] for one in ("order", "patient", "stubborn"))
    assert order == [4, 3, 8, 0, 1, 520, "complete", "third"]
    assert patient == [2, 2, 3, 1, 2, 340, "expired", "silent"]
    assert stubborn == [2, 2, 8, 0, 1, 410, "complete", "third-time"]


def test_a_handler_that_asked_again_waited_until_the_last_attempt_was_answered(both: Found) -> None:
    flows, journeys = both
    asked, stubborn = flows["third-time"], flows["stubborn"]
    assert [(stage["stage"], stage["us"]) for stage in stubborn["critical_path"]] == [
        ("wait", 10), ("run", 90), ("ask", 240), ("run", 60), ("wait", 10)
    ]  # fmt: skip
    assert (asked["outcome"], asked["duration_us"]) == ("complete", 240)
    assert [(stage["stage"], stage["us"]) for stage in journeys["stubborn"]["critical_path"]] == [
        *(("wait", 10), ("run", 90)),
        *(("retry", 200), ("wait", 10), ("run", 20), ("wait", 10)),
        *(("run", 60), ("wait", 10)),
    ]


def test_the_critical_path_of_a_journey_goes_on_inside_the_flows_that_were_waited_for(both: Found) -> None:
    def shown(journey: str) -> list[tuple[str, str | None, int]]:
        return [(one["stage"], one["flow_id"], one["us"]) for one in both[1][journey]["critical_path"]]

    assert shown("order") == [
        ("wait", "order", 10),
        ("run", "order", 90),
        ("wait", "first", 10),
        ("run", "first", 85),
        ("wait", "first", 5),
        ("run", "order", 50),
        ("wait", "second", 10),
        ("run", "second", 40),
        ("wait", "third", 10),
        ("run", "third", 85),
        ("wait", "third", 5),
        ("run", "second", 45),
        ("wait", "second", 5),
        ("run", "order", 50),
        ("wait", "order", 20),
    ]
    assert shown("patient") == [
        ("wait", "patient", 10),
        ("run", "patient", 10),
        ("send", "silent", 10),
        ("transit", "silent", 20),
        ("wait", "silent", 10),
        ("run", "silent", 10),
        ("unanswered", "silent", 250),
        ("run", "patient", 10),
        ("wait", "patient", 10),
    ]


@pytest.mark.parametrize("partitions", [1, 7, 64])
def test_a_second_implementation_agrees_on_random_captures(spark: SparkSession, partitions: int) -> None:
    rows = captures(seed=11, flows=120)
    missing = {row["flow_id"] for row in reference.transits(rows) if row["lost"]}
    expected = reference.journeys(rows, reference.flows(rows, reference.callbacks(rows), missing))
    assert {row["depth"] for row in expected} >= {2, 3}
    _, journeys = flows_and_journeys(scattered(spark, rows, partitions), table(spark, [], SKEW))
    same(journeys, expected)


@pytest.mark.parametrize(
    ("flow", "parent", "journey"),
    [
        ("order", None, "order"),
        ("first", "order", "order"),
        ("second", "order", "order"),
        ("third", "second", "order"),
        ("by-clerk", "note", "note"),
        ("by-None", "note", "note"),
        ("told", "note", "note"),
        ("lost-cause", None, "lost-cause"),
        ("egg", "hen", "egg"),
        ("hen", "egg", "hen"),
        ("chick", "egg", "chick"),
    ],
)
def test_a_flow_that_a_handler_began_has_a_parent_and_is_part_of_its_journey(
    found: dict[str, Row], flow: str, parent: str | None, journey: str
) -> None:
    assert (found[flow]["parent_flow_id"], found[flow]["journey_id"]) == (parent, journey)


@pytest.mark.parametrize("flow", ["by-clerk", "by-None"])
def test_a_submission_with_a_cause_in_another_flow_is_a_root_whoever_its_receiver_is(
    found: dict[str, Row], flow: str
) -> None:
    assert (found[flow]["origin"], found[flow]["identity"]) == ("b", "PRICE")
    assert found[flow]["outcome"] != "orphan"


def test_a_submission_whose_cause_was_lost_is_no_root(found: dict[str, Row]) -> None:
    assert (found["lost-cause"]["origin"], found["lost-cause"]["outcome"]) == (None, "orphan")


def test_what_a_handler_waited_for_is_part_of_the_critical_path(found: dict[str, Row]) -> None:
    def shown(flow: str) -> list[tuple[str, str | None, int]]:
        return [(one["stage"], one["flow_id"], one["us"]) for one in found[flow]["critical_path"]]

    assert shown("order") == [
        ("wait", None, 10),
        ("run", None, 90),
        ("ask", "first", 100),
        ("run", None, 50),
        ("ask", "second", 200),
        ("run", None, 50),
        ("wait", None, 20),
    ]
    assert shown("second") == [
        ("wait", None, 10),
        ("run", None, 40),
        ("ask", "third", 100),
        ("run", None, 45),
        ("wait", None, 5),
    ]


def test_stages_name_the_handler_that_a_message_waited_for_and_that_ran(found: dict[str, Row]) -> None:
    names = [(one["stage"], one["handler"]) for one in found["order"]["critical_path"]]
    assert names[:3] == [("wait", "Clerk.order"), ("run", "Clerk.order"), ("ask", "Clerk.order")]
    assert names[-1] == ("wait", None)


def test_the_parts_of_every_path_sum_to_the_duration(found: dict[str, Row]) -> None:
    for row in found.values():
        assert sum(stage["us"] for stage in row["critical_path"]) == row["duration_us"]


def test_random_captures_have_all_of_it() -> None:
    rows = captures(seed=7, flows=300)
    found = reference.flows(rows, reference.callbacks(rows), set())
    stages = [stage for row in found for stage in row["critical_path"]]
    assert sum(stage["stage"] == "ask" for stage in stages) > 10
    assert sum(row["parent_flow_id"] is not None for row in found) > 50
    assert sum(row["journey_id"] not in (row["flow_id"], row["parent_flow_id"]) for row in found) > 3
