"""What is shown at the end of a run."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from hopline.cli.commands.pipeline.run import show_report
from hopline.pipeline import PipelineOptions, RunReport
from hopline.pipeline.captures import Captures
from tests.query.written import write_tables


def shown(**options: Any) -> str:
    captures = SimpleNamespace(segments=("a",), bytes=1_000, bad=(), rejects_of_days=2)
    report = RunReport(
        options=PipelineOptions(captures=("captures",), **options),
        captures=cast(Captures, captures),
        records=7,
        rows={},
        began=datetime(2026, 1, 31, tzinfo=UTC),
        seconds=1.0,
        seconds_of={},
        spark_version="4.3.0",
    )
    console = Console(file=io.StringIO(), width=200)
    show_report(console, report)
    text = cast(io.StringIO, console.file).getvalue()
    assert "7 records = 5 messages + 2 rejects" in text
    return text


def test_findings_are_shown_of_tables_on_this_machine(tmp_path: Path) -> None:
    out = write_tables(tmp_path / "tables")
    text = shown(out=out)
    assert "Flows by outcome" in text
    assert f"hopline tables {out}" in text


@pytest.mark.parametrize("out", ["s3a://lake/tables", "/only/on/the/server"])
def test_of_tables_elsewhere_the_command_is_shown_that_summarizes_them(out: str) -> None:
    text = shown(out=out, remote="sc://host:15002")
    assert "Flows by outcome" not in text
    assert f"hopline pipeline summary {out}" in text


@pytest.mark.parametrize("options", [{"table_prefix": "lake.hopline"}, {"out": "lake", "format": "delta"}])
def test_of_tables_that_only_spark_reads_there_is_no_command(options: dict[str, str]) -> None:
    assert "hopline" not in shown(**options).partition("rejects")[2]
