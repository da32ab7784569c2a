"""One run of the pipeline and one export of its tables, which the tests of this folder share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from hopline.cli import app
from hopline.export import ExportOptions, ExportReport, export
from hopline.export.post import Endpoint
from hopline.generator import DEFAULT_RATES, Options, generate
from hopline.pipeline import PipelineOptions, run
from hopline.query.tables import open_tables
from tests.export.collector import Answer, Collector, collector
from tests.export.hostile import write_hostile
from tests.export.otlp_lines import Traced, read_request, spans_of

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


def make_exported(home: Path, spark: SparkSession) -> Exported:
    """Generate captures with faults, and hostile ones beside them; make tables of them, and export those everywhere."""
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


def hopline(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "300"})
