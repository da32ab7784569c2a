"""One run of the pipeline, one export: every line by the published schemas, every span against the tables.

The captures are generated, with faults, skewed clocks and journeys; a hostile one lies beside them. What the spans
should be is told by the tables, row by row.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from hopline.capture.events import ENDINGS
from hopline.export.spans import FAILED_CALLBACKS, FAILED_FLOWS
from hopline.message.printable import printable_name
from tests.export.exported import BUSY, Exported, Row, lines_in, micros, of_flows
from tests.export.hostile import BROKEN, EVENT, FLOW, IDENTITY, NODE, REASON
from tests.export.otlp_lines import read_request, spans_of
from tests.export.zipkin_rules import check_spans

pytestmark = pytest.mark.timeout(600)


def test_every_flow_is_in_the_trace_of_its_journey(exported: Exported) -> None:
    traces: dict[str, set[str]] = {}
    for span in exported.spans:
        traces.setdefault(span.flow, set()).add(span.trace)
    expected = {row["flow_id"]: row["journey_id"] for row in exported.rows["flows"]}
    assert traces.keys() == {printable_name(flow) for flow in expected}
    assert all(len(found) == 1 for found in traces.values())
    for flow, journey in expected.items():
        assert traces[printable_name(flow)] == traces[printable_name(journey)]
        if len(journey) == 36:
            assert traces[printable_name(flow)] == {journey.replace("-", "")}
    assert len({trace for found in traces.values() for trace in found}) == len(set(expected.values()))
    assert exported.report.otlp is not None
    assert exported.report.otlp.traces == len(set(expected.values()))


def test_every_line_is_one_trace_and_printable(exported: Exported) -> None:
    lines = lines_in(exported.folder / "otlp")
    assert exported.report.otlp is not None
    assert (exported.report.otlp.lines, exported.report.otlp.spans) == (len(lines), len(exported.spans))
    for line in lines:
        assert len({span.trace for span in spans_of(read_request(line))}) == 1
        assert line.isprintable()
    assert len(exported.by_id) == len(exported.spans), "no id is there twice"


def test_every_submission_and_every_delivery_is_a_span(exported: Exported) -> None:
    records = of_flows(exported)
    submitted = {(row["node"], row["seq"]) for row in records if row["event"] == "submitted" and row["reason"] is None}
    delivered = {(row["node"], row["seq"]) for row in records if row["event"] == "delivered"}
    assert len(submitted) > 300
    assert len(delivered) > 300
    producers, consumers = exported.of_kind("PRODUCER"), exported.of_kind("CONSUMER")
    assert len(producers) + len(consumers) == len(exported.spans)
    names = {printable_name(row["node"]): row["node"] for row in records}
    began = {(names[span.node], span.attributes["hopline.seq"]) for span in producers}
    assert submitted <= began
    made = {row["message_id"] for row in records if (row["node"], row["seq"]) in submitted}
    others = {row["message_id"] for row in records} - made
    assert len(began - submitted) == len(others), "one for each message that was seen on its way only"
    assert {(names[span.node], span.attributes["hopline.seq"]) for span in consumers} >= delivered


def test_every_parent_is_in_the_same_trace_and_nothing_is_its_own_ancestor(exported: Exported) -> None:
    by_id = exported.by_id
    for span in exported.spans:
        seen = {span.id}
        while span.parent:
            span = by_id[span.trace, span.parent]
            assert span.id not in seen
            seen.add(span.id)
    for span in exported.of_kind("CONSUMER"):
        producer = by_id[span.trace, span.parent]
        assert producer.kind == "PRODUCER"
        assert producer.attributes["messaging.message.id"] == span.attributes["messaging.message.id"]
        assert span.links == {"message": span.parent}


def test_what_a_handler_sent_lies_below_the_handler(exported: Exported) -> None:
    deliveries = {
        (row["node"], row["seq"]): row["flow_id"] for row in of_flows(exported) if row["event"] == "delivered"
    }
    journeys = {row["flow_id"]: row["journey_id"] for row in exported.rows["flows"]}
    spans = {span.record: span for span in exported.spans if span.kind == "PRODUCER"}
    inside = across = 0
    for row in of_flows(exported):
        cause = (row["node"], row["cause"])
        if row["event"] != "submitted" or row["reason"] is not None or cause not in deliveries:
            continue
        if journeys[deliveries[cause]] != journeys[row["flow_id"]]:
            continue
        span = spans[printable_name(row["node"]), row["seq"]]
        parent = exported.by_id[span.trace, span.parent]
        assert (parent.kind, *parent.record) == ("CONSUMER", *cause)
        inside += deliveries[cause] == row["flow_id"]
        across += deliveries[cause] != row["flow_id"]
    assert inside > 100
    assert across > 5, "flows that handlers of other flows began"


def test_times_are_those_of_the_node_that_recorded_them(exported: Exported) -> None:
    times = {(row["node"], row["seq"], printable_name(row["event"])): micros(row["ts"]) for row in of_flows(exported)}
    names = {printable_name(node): node for node, _, _ in times}
    runs = 0
    for span in exported.spans:
        assert span.start_us <= span.end_us
        node, seq = names[span.node], span.attributes["hopline.seq"]
        if span.kind == "CONSUMER" and (node, seq, "delivered") in times:
            assert span.start_us == times[node, seq, "delivered"]
            if (run_us := span.attributes.get("hopline.run_us")) is not None:
                assert span.end_us - span.start_us == run_us
                runs += 1
        elif span.kind == "PRODUCER":
            assert span.start_us == times[node, seq, span.attributes["hopline.first_event"]]
            for event in span.events:
                is_by_this_clock = event.attributes["hopline.node"] == span.node
                if event.name == "hop" and is_by_this_clock and "hopline.only_received" not in event.attributes:
                    assert span.start_us <= event.time_us <= span.end_us
    assert runs > 200


def test_hops_are_events_with_transit_and_skew_and_no_clock_is_adjusted(exported: Exported) -> None:
    def key(row: Row) -> tuple[Any, ...]:
        at = row["sent_ts"] or row["received_ts"]
        names = (printable_name(row["from_node"]), printable_name(row["to_node"]))
        return (row["flow_id"], *names, micros(at), row["transit_us"], row["skew_us"], bool(row["lost"]))

    known = {row["message_id"] for row in of_flows(exported)}
    flows = {row["flow_id"] for row in exported.rows["flows"]}
    expected = Counter(
        key(row) for row in exported.rows["hops"] if row["flow_id"] in flows and row["message_id"] in known
    )
    names = ("hopline.node", "hopline.peer")
    found = Counter(
        (
            span.flow,
            *(event.attributes[name] for name in names),
            event.time_us,
            *(event.attributes.get(f"hopline.{name}") for name in ("transit_us", "skew_us")),
            event.attributes.get("hopline.lost", False),
        )
        for span in exported.of_kind("PRODUCER")
        for event in span.events
        if event.name == "hop"
    )
    dropped = sum(span.proto.dropped_events_count for span in exported.spans)
    assert not found - expected
    assert (expected - found).total() == dropped
    assert any(abs(row["skew_us"] or 0) > 100_000 for row in exported.rows["hops"])
    assert any(
        exported.by_id[span.trace, span.parent].start_us > span.start_us for span in exported.of_kind("CONSUMER")
    ), "by a clock that is wrong, some were handled before they were sent"


def test_outcomes_are_the_status_of_the_span_that_a_flow_begins_with(exported: Exported) -> None:
    starts = {span.flow: span for span in exported.spans if "hopline.flow.outcome" in span.attributes}
    assert starts.keys() == {printable_name(row["flow_id"]) for row in exported.rows["flows"]}
    seen = Counter[str]()
    for row in exported.rows["flows"]:
        start = starts[printable_name(row["flow_id"])]
        outcome = row["outcome"]
        seen[outcome] += 1
        assert start.attributes["hopline.flow.outcome"] == outcome
        if outcome in ("failed", "expired", "unanswered"):
            assert start.status == "ERROR"
            assert start.status_text.startswith(f"flow {outcome}")
        elif outcome == "complete":
            assert start.status in ("OK", "ERROR")
        if outcome != "orphan" and outcome != "truncated":
            assert (start.node, start.start_us) == (printable_name(row["origin"]), micros(row["start_ts"]))
        if row["parent_flow_id"] is None:
            assert start.attributes["hopline.journey.id"] == printable_name(row["journey_id"])
        else:
            assert exported.by_id[start.trace, start.parent].flow == printable_name(row["parent_flow_id"])
    assert {"complete", "failed"} <= seen.keys()
    journeys = {row["journey_id"]: row["outcome"] for row in exported.rows["journeys"]}
    assert journeys
    for journey, outcome in journeys.items():
        assert starts[journey].attributes["hopline.journey.outcome"] == outcome


def test_a_handler_that_failed_is_an_error_with_its_reason(exported: Exported) -> None:
    failed = [row for row in of_flows(exported) if row["event"] == "handled" and row["reason"] is not None]
    errors = [span for span in exported.of_kind("CONSUMER") if span.status == "ERROR"]
    assert len(errors) == len(failed) > 0
    assert Counter(span.status_text.split(":")[0] for span in errors) == Counter(
        row["reason"].split(":")[0] for row in failed
    )
    assert all(span.attributes["error.type"] == span.status_text.split(":")[0] for span in errors)


def test_answers_link_back_to_their_requests_and_requests_tell_how_they_ended(exported: Exported) -> None:
    outcomes = Counter(
        span.attributes["hopline.callback.outcome"]
        for span in exported.spans
        if "hopline.callback.outcome" in span.attributes
    )
    assert outcomes == Counter(row["outcome"] for row in exported.rows["callbacks"])
    answers = [span for span in exported.spans if "request" in span.links]
    assert len(answers) > 100
    for answer in answers:
        request = exported.by_id[answer.trace, answer.links["request"]]
        assert request.flow == answer.flow
        assert request.attributes["messaging.destination.name"] != answer.attributes["messaging.destination.name"]


def test_endings_are_events_and_errors(exported: Exported) -> None:
    expected = Counter(
        row["event"] for row in of_flows(exported) if row["event"] in ("expired", "unroutable", "overflow", "failed")
    )
    found = Counter(event.name for span in exported.spans for event in span.events if event.name in expected)
    assert found == expected != Counter()
    for span in exported.spans:
        ended_by = [event.name for event in span.events if event.name in expected]
        if ended_by:
            assert span.status == "ERROR"
            assert span.attributes["error.type"] in (*ended_by, "lost")


def test_every_error_has_a_type_and_nothing_else_has(exported: Exported) -> None:
    for span in exported.spans:
        assert ("error.type" in span.attributes) == (span.status == "ERROR")
    types = {span.attributes["error.type"] for span in exported.of_kind("PRODUCER") if span.status == "ERROR"}
    assert {"lost", "unroutable"} <= types
    assert types <= {"lost", *ENDINGS, *FAILED_FLOWS, *FAILED_CALLBACKS}


def test_hostile_names_stay_text(exported: Exported) -> None:
    hostile = [span for span in exported.spans if span.node == printable_name(NODE)]
    assert len(hostile) == 5
    producer = next(span for span in hostile if span.kind == "PRODUCER" and "script" in span.name)
    assert producer.name == f"send {printable_name(IDENTITY)}"
    assert producer.flow == printable_name(FLOW)
    consumer = next(span for span in hostile if span.parent == producer.id)
    assert consumer.status_text == printable_name(REASON)
    assert consumer.attributes["code.function.name"] == r"<b>Actor.\x1b[2J"
    strange = next(span for span in hostile if span.flow == "strange")
    assert strange.attributes["hopline.first_event"] == printable_name(EVENT)
    broken = next(span for span in hostile if span.flow == "broken")
    assert broken.attributes["messaging.destination.name"] == f"0x{BROKEN.hex().upper()}"


def test_zipkin_gets_the_same_spans_by_its_own_rules(exported: Exported) -> None:
    lines = lines_in(exported.folder / "zipkin")
    assert all(line.isprintable() for line in lines)
    spans = [span for line in lines for span in check_spans(json.loads(line))]
    assert len(spans) == len(exported.spans)
    assert exported.report.zipkin is not None
    assert exported.report.zipkin.spans == len(spans)
    for span in spans:
        twin = exported.by_id[span["traceId"], span["id"]]
        assert (span.get("parentId", ""), span["kind"], span["name"]) == (twin.parent, twin.kind, twin.name.lower())
        assert (span["timestamp"], span["duration"]) == (twin.start_us, max(twin.end_us - twin.start_us, 1))
        assert span["localEndpoint"] == {"serviceName": twin.node.lower()}
        assert len(span["annotations"]) == len(twin.events)
        assert ("error" in span["tags"]) == (twin.status == "ERROR")
        for key, value in twin.attributes.items():
            assert span["tags"][key] == (str(value).lower() if isinstance(value, bool) else str(value))


def test_a_receiver_that_fails_now_and_then_gets_everything(exported: Exported) -> None:
    sent, received = exported.report.sent, exported.received
    assert sent is not None
    assert received.problems == []
    assert received.refused == len(BUSY)
    assert (sent.spans, sent.failed, sent.rejected) == (len(exported.spans), 0, 0)
    assert sent.retries == len(BUSY)
    assert sent.batches == received.requests - len(BUSY) > 3
    assert Counter((span.trace, span.id) for span in received.spans) == Counter(exported.by_id.keys())
