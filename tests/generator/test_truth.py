"""The truth is what reading the captures in the obvious way finds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from hopline.config import read_configuration
from hopline.generator import DEFAULT_RATES
from hopline.generator.catalogue import ALL_FORMATS
from hopline.message import WireFormat
from hopline.security import SecurityError
from hopline.wire import encode
from tests.generator.reading import Reading, Row, micros, truth

COUNTS = ("messages", "records", "hops", "nodes", "answers")
FIGURES = (*COUNTS, "outcome", "identity", "origin", "duration_us", "parent_flow_id")
SEVERITIES = ("complete", "orphan", "truncated", "unanswered", "expired", "failed")


def test_every_frame_list_is_what_the_wire_format_writes(reading: Reading) -> None:
    formats = Counter[WireFormat]()
    for record in reading.records:
        wire_format = record.msg.wire_format
        assert wire_format is not None
        formats[wire_format] += 1
        assert encode(record.msg, wire_format)[1:] == record.row["frames"]
    assert set(formats) == set(ALL_FORMATS)


def test_rejects_are_those_of_the_decoder(captured: Path, reading: Reading) -> None:
    planted = {(row["node"], row["seq"], row["code"]) for row in truth(captured, "rejects")}
    assert {(record.node, record.seq, record.code) for record in reading.all if record.message is None} == planted
    assert len({code for _, _, code in planted}) >= 8


def test_flows_are_as_planted(captured: Path, reading: Reading) -> None:
    planted = {row["flow_id"]: row for row in truth(captured, "flows")}
    assert set(reading.flow_records) == set(planted)
    for flow_id, records in reading.flow_records.items():
        found, row = reading.flow(records), planted[flow_id]
        for name in FIGURES:
            assert found[name] == row[name], (row, name, found)
        assert (found["start"], found["end"]) == (micros(row["start_ts"]), micros(row["end_ts"])), row


def test_journeys_are_as_planted(captured: Path, reading: Reading) -> None:
    planted = {row["flow_id"]: row for row in truth(captured, "flows")}
    levels = {}
    for flow_id, row in planted.items():
        levels[flow_id], now = 1, row
        while now["parent_flow_id"] is not None:
            levels[flow_id], now = levels[flow_id] + 1, planted[now["parent_flow_id"]]
        assert row["journey_id"] == now["flow_id"]
    members = Counter(row["journey_id"] for row in planted.values())
    found = {journey: count for journey, count in members.items() if count > 1}
    journeys = {row["journey_id"]: row for row in truth(captured, "journeys")}
    assert {journey: row["flows"] for journey, row in journeys.items()} == found
    for journey, row in journeys.items():
        inside = [flow for flow, record in planted.items() if record["journey_id"] == journey]
        assert row["depth"] == max(levels[flow] for flow in inside)
        assert row["outcome"] == max((planted[flow]["outcome"] for flow in inside), key=SEVERITIES.index)
    if any(record.event == "submitted" for record in reading.all):
        assert {row["depth"] for row in journeys.values()} == {2, 3}
        assert {row["outcome"] for row in journeys.values()} == {"complete", "expired", "failed"}
    else:
        assert not journeys


def test_callbacks_are_as_planted(captured: Path, reading: Reading) -> None:
    planted = {row["flow_id"]: row for row in truth(captured, "callbacks")}
    found = {flow_id: reading.callback(records) for flow_id, records in reading.flow_records.items()}
    assert {flow_id for flow_id, callback in found.items() if callback} == set(planted)
    for flow_id, row in planted.items():
        callback = found[flow_id]
        assert callback is not None
        answer = callback["answer"] and callback["answer"].msg.identity.decode()
        for name in ("outcome", "callback_key", "asked_node", "latency_us"):
            assert callback[name] == row[name], (row, name)
        assert answer == row["answer_identity"]


def test_hops_are_as_planted(captured: Path, reading: Reading) -> None:
    names = ("sent", "received", "lost", "duplicates", "unwatched", "unsent")
    planted = {
        (row["from_node"], row["to_node"]): tuple(row[name] for name in names) for row in truth(captured, "hops")
    }
    assert {pair: tuple(counted[name] for name in names) for pair, counted in reading.hops.items()} == planted
    faults = truth(captured, "faults")
    assert reading.lost == places(faults, "lost")
    assert reading.unknown_as_they_are  # and are planted, all the same
    assert reading.duplicates == places(faults, "duplicated") | {
        (row["node"], row["seq"]) for row in faults if row["kind"] == "own_name"
    }


def places(faults: list[Row], fault: str) -> set[tuple[str, int]]:
    return {(row["node"], row["seq"]) for row in faults if row["class"] == fault}


def test_verdicts_and_incidents_are_as_planted(captured: Path, reading: Reading) -> None:
    incidents = {(row["node"], row["seq"], row["offence"]) for row in truth(captured, "incidents")}
    assert reading.incidents() == incidents
    found = Counter(
        (record.node, record.row["peer"], record.msg.domain, record.verdict)
        for record in reading.records
        if record.verdict
    )
    names = ("node", "peer", "domain", "verdict")
    assert found == {tuple(row[name] for name in names): row["count"] for row in truth(captured, "security")}


def test_the_audit_is_as_planted_and_balances(captured: Path, reading: Reading) -> None:
    for row in truth(captured, "audit"):
        mine = [record for record in reading.all if record.node == row["node"] and micros(row["hour"]) <= record.ts]
        mine = [record for record in mine if record.ts < micros(row["hour"]) + 3_600_000_000]
        events = Counter(record.event for record in mine)
        assert row["records"] == len(mine)
        assert row["rejects"] == sum(record.message is None for record in mine)
        assert all(row[event] == count for event, count in events.items())
        if events["submitted"]:
            endings = sum(
                row[name] for name in ("expired", "unroutable", "rejected", "overflow", "hop_limit", "failed")
            )
            came_in = row["submitted"] + row["received"] + row["copies"]
            assert came_in == row["delivered"] + row["sent"] + endings


def test_sequence_numbers_have_gaps_only_where_records_were_dropped(captured: Path, reading: Reading) -> None:
    expected: dict[str, int] = {}
    dropped = set()
    for record in reading.all:
        assert record.seq == expected.get(record.node, 1) + record.row["dropped"]
        expected[record.node] = record.seq + 1
        if record.row["dropped"]:
            dropped.add((record.node, record.seq))
    assert dropped == places(truth(captured, "faults"), "dropped")
    assert dropped


def test_the_log_of_each_node_is_in_the_order_of_its_own_clock(reading: Reading) -> None:
    last: dict[str, int] = {}
    for record in reading.all:
        assert record.ts >= last.get(record.node, 0)
        last[record.node] = record.ts


def test_clocks_are_wrong_by_as_much_as_planted(captured: Path, reading: Reading) -> None:
    _ = reading.hops
    offsets = {row["node"]: row["offset_us"] for row in truth(captured, "skew")}
    assert any(offsets.values())
    for (a, b), there in reading.transits.items():
        back = reading.transits.get((b, a))
        if there and back:
            estimate, bound = (min(there) - min(back)) / 2, (min(there) + min(back)) / 2
            assert abs(estimate - (offsets[b] - offsets[a])) <= bound < 5_000


def test_causes_are_the_deliveries_that_led_to_a_message(reading: Reading) -> None:
    by_seq = {(record.node, record.seq): record for record in reading.all}
    for record in reading.all:
        if record.row["cause"] is not None:
            cause = by_seq[record.node, record.row["cause"]]
            assert cause.event == "delivered"
            assert record.event == "submitted" or cause.flow_id == record.flow_id
            assert cause.seq < record.seq


def test_every_fault_occurs(captured: Path) -> None:
    assert {row["class"] for row in truth(captured, "faults")} == set(DEFAULT_RATES)


def test_a_node_with_the_generated_configuration_gives_the_same_verdicts(captured: Path, reading: Reading) -> None:
    security = read_configuration(captured / "keys" / "hopline.toml", {}).security()
    reasons = {"bad_signature": "wrong_signature", "wrong_domain": "wrong_domain", "unknown_domain": "unknown_domain"}
    judged = Counter[str]()
    for record in reading.records:
        if record.verdict == "verified":
            security.verify(record.msg)
        elif record.verdict in reasons:
            with pytest.raises(SecurityError) as caught:
                security.verify(record.msg)
            assert caught.value.reason == reasons[record.verdict]
        judged[record.verdict] += 1
    assert all(judged[verdict] for verdict in ("verified", *reasons))


def test_results_carry_the_callback_point_of_what_they_answer(reading: Reading) -> None:
    for records in reading.flow_records.values():
        first = min(records, key=lambda record: record.row["cause"] is not None and reading.parent(record) is None)
        for record in records:
            if record.event == "submitted" and record.row["cause"] is not None and reading.parent(record) is None:
                assert record.msg.callback_point == first.msg.callback_point
                assert record.msg.callback_key == first.msg.callback_key
                assert (record.msg.ttl_ticks, record.msg.hops) == (0, 0)
                matches = record.msg.identifier in first.msg.callback_point
                assert bool(record.msg.receiver_identity) == matches
