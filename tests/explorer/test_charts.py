"""Charts as SVG: harmless, themed, with names for those who cannot see them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest

from hopline.explorer import charts
from tests.query.written import NOON

BARS = [
    {"start": NOON, "end": NOON + timedelta(minutes=1), "outcome": "complete", "count": 30, "href": "/search?a=b"},
    {"start": NOON, "end": NOON + timedelta(minutes=1), "outcome": "failed", "count": 10, "href": "/search?c=d"},
    {"start": NOON, "end": NOON + timedelta(minutes=1), "outcome": "<script>", "count": 1, "href": "/x"},
]
LINES = [
    {"start": NOON + timedelta(minutes=minute), "percentile": name, "us": us}
    for minute in range(3)
    for name, us in (("p50", 1_000), ("p95", 0), ("p99", None))
]
STAGES = [{"identity": "ORDER", "stage": stage, "seconds": 1.5} for stage in ("run", "wait", "unseen")]
CLOCKS = [{"node": "a", "offset_us": -1_500, "bound_us": 100}, {"node": "b", "offset_us": 0, "bound_us": None}]


@pytest.mark.parametrize(
    "chart",
    [
        charts.flows_over_time(BARS),
        charts.latency_over_time(LINES),
        charts.balance({"submitted": 5, "delivered": 4, "failed": 1}),
        charts.clock_offsets(CLOCKS),
        charts.time_by_stage(STAGES),
        charts.durations([{"ms": ms} for ms in (0, 0.5, 1, 1, 30)]),
    ],
    ids=["flows", "latency", "balance", "clocks", "stages", "durations"],
)
def test_a_picture_has_nothing_but_shapes_in_colours_of_the_theme(chart: charts.Chart) -> None:
    picture = charts.svg(chart)
    assert picture.startswith("<svg")
    assert not re.search(r"<script|<style|\sstyle=|<image|<foreignObject", picture)
    addresses = re.findall(r'href="([^"]*)"', picture)
    assert all(target.startswith("/") for target in addresses)
    colours = set(re.findall(r'(?:fill|stroke)="(#\w+|\w+)"', picture)) - {"none", "transparent"}
    assert not colours, "every colour is a variable"


def test_bars_stand_on_each_other_and_are_links_with_names() -> None:
    picture = charts.svg(charts.flows_over_time(BARS))
    assert "var(--failed, #d1495b)" in picture
    assert 'href="/search?c=d"' in picture
    assert "10 failed" in picture
    assert "<script>" not in picture


def test_a_data_frame_gives_the_same_chart_as_rows() -> None:
    assert charts.svg(charts.flows_over_time(pd.DataFrame(BARS))) == charts.svg(charts.flows_over_time(BARS))


def test_rows_stay_as_they_are() -> None:
    rows: list[dict[str, Any]] = [dict(row) for row in BARS]
    charts.flows_over_time(rows)
    assert rows == BARS


def test_without_rows_there_is_an_empty_chart() -> None:
    assert charts.svg(charts.flows_over_time([])).startswith("<svg")
    assert charts.svg(charts.latency_over_time([])).startswith("<svg")
    assert charts.svg(charts.clock_offsets([])).startswith("<svg")
