"""One run of the pipeline, one export: every line by the published schemas, every span against the tables.

The captures are generated, with faults, skewed clocks and journeys; a hostile one lies beside them. What the spans
should be is told by the tables, row by row.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from hopline.cli import app
from hopline.export import ExportOptions, ExportReport, export
from hopline.export.post import Endpoint
from hopline.export.selection import select
from hopline.generator import DEFAULT_RATES, Options, generate
from hopline.message.printable import printable_name
from hopline.pipeline import PipelineOptions, run
from hopline.pipeline.days import Days
from hopline.query.tables import open_tables
from tests.export.collector import Answer, Collector, collector
from tests.export.hostile import BROKEN, FLOW, IDENTITY, NODE, REASON, write_hostile
from tests.export.otlp_lines import Traced, read_request, spans_of
from tests.export.zipkin_rules import check_spans

pytestmark = pytest.mark.timeout(600)

NEEDED = ("messages", "skew", "hops", "callbacks", "flows", "journeys")
BUSY = [Answer(503, {"Retry-After": "0"}), Answer(0), Answer(429), Answer(502)]
FORGED = ("bad_signature", "wrong_domain", "unknown_domain")

Row = dict[str, Any]


@dataclass
class Exported:
    tables: Path
    folder: Path
    report: ExportReport
    received: Collector
    rows: dict[str, list[Row]]
    spans: list[Traced]

    @property
    def by_id(self) -> dict[tuple[str, str], Traced]:
        return {(span.trace, span.id): span for span in self.spans}

    def of_kind(self, kind: str) -> list[Traced]:
        return [span for span in self.spans if span.kind == kind]


def lines_in(folder: Path) -> list[str]:
    return [line for part in folder.glob("part-*") for line in part.read_text("utf-8").split("\n") if line]


def otlp_spans(lines: list[str]) -> list[Traced]:
    return [span for line in lines for span in spans_of(read_request(line))]


@pytest.fixture(scope="module")
def exported(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    home = tmp_path_factory.mktemp("export")
    rates = {fault: 0.0 if fault == "huge" else 0.02 for fault in DEFAULT_RATES}
    generate(home, Options(messages=2_500, seed=7, rates=rates))
    write_hostile(home / "captures")
    tables, folder = home / "tables", home / "traces"
    keys = home / "keys" / "hopline.toml"
    run(PipelineOptions(captures=(str(home / "captures"),), out=tables, keys=keys, tables=NEEDED), spark)
    with collector(lambda nth: BUSY[nth] if nth < len(BUSY) else None) as receiving:
        report = export(
            ExportOptions(
                tables=str(tables),
                otlp=str(folder / "otlp"),
                zipkin=str(folder / "zipkin"),
                endpoint=Endpoint(receiving.url, first_delay_s=0.01, longest_delay_s=0.1, batch_spans=200),
            ),
            spark,
        )
    with open_tables(tables) as opened:
        rows = {name: list(opened.ask(f"from {name}").records()) for name in NEEDED}
    return Exported(tables, folder, report, receiving, rows, otlp_spans(lines_in(folder / "otlp")))


def of_flows(exported: Exported) -> list[Row]:
    """Return the records that spans are made of."""
    flows = {row["flow_id"] for row in exported.rows["flows"]}
    return [
        row
        for row in exported.rows["messages"]
        if row["flow_id"] in flows and row["verdict"] not in FORGED and row["node"] is not None
    ]


def micros(moment: datetime) -> int:
    return round((moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


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
    times = {(row["node"], row["seq"], row["event"]): micros(row["ts"]) for row in of_flows(exported)}
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
        if any(event.name in expected for event in span.events):
            assert span.status == "ERROR"


def test_hostile_names_stay_text(exported: Exported) -> None:
    hostile = [span for span in exported.spans if span.node == printable_name(NODE)]
    assert len(hostile) == 4
    producer = next(span for span in hostile if span.kind == "PRODUCER" and "script" in span.name)
    assert producer.name == f"send {printable_name(IDENTITY)}"
    assert producer.flow == printable_name(FLOW)
    consumer = next(span for span in hostile if span.parent == producer.id)
    assert consumer.status_text == printable_name(REASON)
    assert consumer.attributes["code.function.name"] == r"<b>Actor.\x1b[2J"
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


def hopline(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "300"})


def test_one_journey_is_found_by_how_the_id_of_one_of_its_flows_begins_and_is_the_same_again(
    exported: Exported, tmp_path: Path
) -> None:
    nested = next(row for row in exported.rows["flows"] if row["parent_flow_id"] is not None)
    result = hopline("export", exported.tables, "--otlp", tmp_path / "one", "--journey", nested["flow_id"][:12])
    assert result.exit_code == 0, result.output
    lines = lines_in(tmp_path / "one")
    trace = nested["journey_id"].replace("-", "")
    assert sorted(lines) == sorted(line for line in lines_in(exported.folder / "otlp") if trace in line)
    spans = len(otlp_spans(lines))
    closing = f"Wrote {spans} spans of 1 trace to {tmp_path / 'one'}: 1 line of OTLP/JSON"
    assert result.output.splitlines()[-1] == closing
    again = hopline("export", exported.tables, "--otlp", tmp_path / "one", "--journey", nested["flow_id"])
    assert again.exit_code == 2
    assert "a folder that is not there yet" in again.output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "at least one of --otlp DIR, --zipkin DIR and --endpoint URL"),
        (("--otlp", "{tables}/traces"), 2, "not in the tables"),
        (("--otlp", "{new}", "--zipkin", "{new}"), 2, "another folder"),
        (("--otlp", "{new}", "--journey", "no such id"), 1, "no journey, and no flow of one, begins with 'no such id'"),
        (("--otlp", "{new}", "--journey", "0"), 1, "several journeys begin with '0'"),
        (("--otlp", "{new}", "--from", "2020-01-02", "--to", "2020-01-01"), 2, "the first not after the last"),
        (("--otlp", "{new}", "--header", "a=b"), 2, "--header is for --endpoint"),
        (("--endpoint", "localhost:4318"), 2, "an address such as http://127.0.0.1:4318"),
        (
            ("--endpoint", "http://127.0.0.1:1"),
            1,
            "no receiver of OTLP/HTTP at http://127.0.0.1:1/v1/traces: no answer",
        ),
        (("--endpoint", "http://127.0.0.1:1", "--header", "a"), 2, "--header: expected NAME=VALUE"),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_code(
    exported: Exported, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    given = [argument.format(tables=exported.tables, new=tmp_path / "new") for argument in arguments]
    result = hopline("export", exported.tables, *given)
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert "Traceback" not in result.output


def test_tables_that_are_not_there_are_named(tmp_path: Path, spark: SparkSession) -> None:
    result = hopline("export", tmp_path / "nowhere", "--otlp", tmp_path / "out")
    assert result.exit_code == 1
    assert f"no table flows in {tmp_path / 'nowhere'}: make it with hopline pipeline run" in result.output


@pytest.mark.parametrize(
    ("first", "last", "share"), [(None, 2, 1), (2, None, 1), (2, 2, 1), (None, 1, 0), (3, None, 0)]
)
def test_journeys_are_chosen_by_the_day_on_which_they_began(
    exported: Exported, spark: SparkSession, first: int | None, last: int | None, share: int
) -> None:
    days = Days(
        None if first is None else date(2026, 3, first),
        None if last is None else date(2026, 3, last),
    )
    flows = spark.read.parquet(str(exported.tables / "flows"))
    chosen = select(flows, days, None)
    assert chosen.flows.count() == share * len(exported.rows["flows"])
    assert chosen.of(flows).count() == len(exported.rows["flows"]), "of a day before and after, too"
