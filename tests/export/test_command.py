"""The command: what it chooses, what it says, and how it is run by spark-submit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hopline.cli.commands.export import HEADERS_VARIABLE, headers_of
from hopline.cli.errors import UsageError
from hopline.export.selection import select
from hopline.message.printable import printable_name
from hopline.pipeline.days import Days
from hopline.pipeline.java import find_java
from tests.export.exported import Exported, hopline, lines_in, of_flows, otlp_spans
from tests.pipeline.elsewhere import DEADLINE_S, SPARK
from tests.spark_settings import FEW_ROWS

pytestmark = pytest.mark.timeout(1200)

LIMIT = 12


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
        (("--otlp", "{new}", "--trace-limit", "0"), 2, "trace limit: expected at least 1"),
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


def test_headers_are_those_of_the_environment_and_of_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HEADERS_VARIABLE, "authorization=Bearer%20a%3D1, x-tenant=b,")
    assert headers_of(["x-tenant=c%20", "x-empty="]) == {
        "authorization": "Bearer a=1",
        "x-tenant": "c%20",
        "x-empty": "",
    }


@pytest.mark.parametrize(
    "text", ["secret", "Authorization: secret", "a b=secret", "a=secret\r\nb", "é=secret", "=secret"]
)
def test_a_wrong_header_is_refused_without_showing_its_value(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HEADERS_VARIABLE, raising=False)
    with pytest.raises(UsageError, match="--header: expected NAME=VALUE") as refused:
        headers_of([text])
    assert "secret" not in str(refused.value)


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


def test_a_journey_with_more_records_than_the_limit_is_cut_and_says_by_how_much(
    exported: Exported, tmp_path: Path
) -> None:
    result = hopline("export", exported.tables, "--otlp", tmp_path / "cut", "--trace-limit", str(LIMIT))
    assert result.exit_code == 0, result.output
    journeys = {row["flow_id"]: row["journey_id"] for row in exported.rows["flows"]}
    records = Counter(journeys[row["flow_id"]] for row in of_flows(exported))
    expected = {printable_name(journey): count - LIMIT for journey, count in records.items() if count > LIMIT}
    assert 10 < len(expected) < len(records) - 10
    assert f"Left out {sum(expected.values()):,} records of {len(expected)} journeys with more than 12" in result.output
    spans = otlp_spans(lines_in(tmp_path / "cut"))
    name = "hopline.journey.dropped_records"
    starts = [span for span in spans if name in span.attributes]
    assert {span.attributes["hopline.journey.id"]: span.attributes[name] for span in starts} == expected
    whole = {span.trace for span in spans} - {span.trace for span in starts}
    sizes = Counter(span.trace for span in spans)
    assert max(sizes.values()) <= LIMIT
    assert all(sizes[trace] == sum(span.trace == trace for span in exported.spans) for trace in whole)
    ids = {(span.trace, span.id) for span in spans}
    known = exported.by_id.keys()
    assert all((span.trace, span.parent) in ids for span in spans if span.parent)
    # By a clock that is wrong, a message may be delivered before it is submitted, and only that be within the limit.
    is_stand_in = [
        span.attributes.get("hopline.first_event") != "submitted"
        for span in spans
        if (span.trace, span.id) not in known
    ]
    assert len(is_stand_in) < len(spans) / 10
    assert all(is_stand_in)


def test_spark_submit_runs_the_export(exported: Exported, tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "hopline", "pipeline", "submit-path"]
    path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", "local[1]", "--driver-memory", "512m"]
    for name, value in (FEW_ROWS | {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}).items():
        submit += ["--conf", f"{name}={value}"]
    environment = os.environ | find_java().environment() | {"SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": sys.executable, "COLUMNS": "300"}
    journey = max(exported.spans, key=lambda span: len(span.attributes)).attributes["hopline.journey.id"]
    arguments = ["export", str(exported.tables), "--otlp", str(tmp_path / "out"), "--journey", journey]
    told = subprocess.run(
        [*submit, path, *arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-4000:]
    assert "on local[1]" in told.stdout
    trace = journey.replace("-", "")
    expected = [line for line in lines_in(exported.folder / "otlp") if trace in line]
    assert sorted(lines_in(tmp_path / "out")) == sorted(expected)
