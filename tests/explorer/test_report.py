"""The report: one file that shows what the pages show, and asks nobody for anything."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from hopline.explorer.parameters import ParameterError
from hopline.explorer.report import PAGES, UnknownJourneyError, make_report
from tests.cli.commands import run
from tests.explorer.planted import LOST_FLOW, ORDER_FLOW, PRICE_FLOW, write_planted
from tests.explorer.test_safety import HOSTILE, _hostile_tables


@pytest.fixture(scope="module")
def report(planted_tables: Path) -> str:
    return make_report(planted_tables)


def test_it_has_every_page_and_the_journeys_of_the_worst_flows(report: str) -> None:
    parts = re.findall(r'<article id="([^"]*)" aria-label="([^"]*)"', report)
    assert [part for part, _ in parts] == [*(page.id for page in PAGES), "journey-1", "journey-2"]
    assert all(title for _, title in parts)
    assert report.index(LOST_FLOW) < report.index(ORDER_FLOW), "what did not complete comes first"
    for shown in (
        "Are all messages accounted for?",
        "Timeline",
        "Messages between actors",
        "unknown version",
        "Stock.reserve",
    ):
        assert shown in unescape(report), shown


def test_its_links_lead_to_its_own_parts_and_nowhere_else(report: str) -> None:
    targets = {unescape(target) for target in re.findall(r'href="([^"]*)"', report)}
    parts = {f"#{part}" for part in re.findall(r'<article id="([^"]*)"', report)}
    assert targets
    assert targets <= parts
    assert not re.search(r"<(script|form|link|img|iframe|object|input)\b|\son\w+=|url\(|@import", report)
    assert "default-src 'none'" in unescape(report)


def test_a_flow_leads_to_its_journey_where_the_report_has_it(report: str) -> None:
    for flow in (ORDER_FLOW, PRICE_FLOW):
        assert re.search(rf'href="#journey-2" title="flow {flow}"', report)
    assert re.search(rf'href="#journey-1" title="flow {LOST_FLOW}"', report)


def test_one_journey_is_a_report_too(planted_tables: Path) -> None:
    report = make_report(planted_tables, journeys=[PRICE_FLOW[:6], ORDER_FLOW])
    assert re.findall(r'<article id="([^"]*)"', report) == ["journey-1"]
    assert PRICE_FLOW in report
    assert LOST_FLOW not in report


@pytest.mark.parametrize(("beginning", "found"), [("ffff", "none"), ("", ORDER_FLOW)])
def test_a_journey_that_is_none_or_several_is_refused(planted_tables: Path, beginning: str, found: str) -> None:
    with pytest.raises(UnknownJourneyError, match=rf"expected one flow whose id begins so, found .*{found}"):
        make_report(planted_tables, journeys=[beginning])


def test_only_a_span_of_time_is_reported(planted_tables: Path) -> None:
    late = make_report(planted_tables, given={"from": "2026-01-31 12:00:30"})
    assert LOST_FLOW in late
    assert PRICE_FLOW not in late
    assert "2026-01-31 12:00:30 to the end" in late
    with pytest.raises(ParameterError, match="is no time"):
        make_report(planted_tables, given={"from": "yesterday"})


def test_tables_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    tables = write_planted(tmp_path / "tables")
    for name in ("incidents", "skew"):
        for file in (tables / name).rglob("*.parquet"):
            file.unlink()
    report = make_report(tables)
    parts = re.findall(r'<article id="([^"]*)"', report)
    assert "overview" in parts
    assert not {"incidents", "clocks"} & set(parts)
    assert "#incidents" not in report


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12].encode("unicode_escape").decode() or "empty")
def test_hostile_names_are_text_in_the_report(tmp_path: Path, text: str) -> None:
    report = make_report(_hostile_tables(tmp_path / "tables", text))
    assert len(report) < 4_000_000, "what is long is cut"
    assert "<script" not in report
    assert "<img" not in report
    assert not re.search(r'href="\s*javascript', report, re.IGNORECASE)
    assert "\u202e" not in report
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", report)
    assert ">49<" not in report


def test_the_command_writes_it_or_leaves_the_old_one(tmp_path: Path, planted_tables: Path) -> None:
    out = tmp_path / "report.html"
    done = run(tmp_path, "report", str(planted_tables), "-o", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"report\.html: \d+ kB", done.stdout)
    written = out.read_text("utf-8")
    assert "Hopline report" in written
    failed = run(tmp_path, "report", str(planted_tables), "-o", str(out), "--journey", "nothing")
    assert failed.returncode == 1
    assert "expected one flow whose id begins so, found none" in failed.stderr
    assert out.read_text("utf-8") == written
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    refused = run(tmp_path, "report", str(planted_tables), "-o", str(tmp_path))
    assert refused.returncode == 2
    assert "is a folder" in refused.stderr
