"""The overview."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hopline.explorer import charts
from hopline.explorer.pages.context import Context, drawing
from hopline.explorer.parameters import time_text
from hopline.explorer.questions.asking import Row
from hopline.explorer.questions.overview import CAME_IN, ENDINGS, WENT_OUT, overview

CHART_WIDTH = 530
_ANSWERED = ("answered", "exception")  # outcomes of callbacks


def page(context: Context) -> str:
    """Return the overview of a span of time."""
    seen = context.answer(overview, context.span)
    unanswered = [row for row in seen.callbacks if row["outcome"] not in _ANSWERED]
    flows_chart = latency_chart = balance_chart = ""
    by_time = [_linked(row, context, outcome=row["outcome"]) for row in seen.by_time]
    if by_time:
        flows_chart = drawing(charts.flows_over_time(by_time, CHART_WIDTH))
    latency = [_linked(row, context, sort="slowest") for row in seen.latency]
    if latency:
        latency_chart = drawing(charts.latency_over_time(latency, CHART_WIDTH))
    if seen.balance:
        balance_chart = drawing(charts.balance(seen.balance, CHART_WIDTH))
    return context.render(
        "overview.html",
        seen=seen,
        count=_total(seen.outcomes),
        lost=seen.lost[0]["total"] if seen.lost else 0,
        incidents=_total(seen.incidents),
        rejects=_total(seen.rejects),
        unanswered=_total(unanswered),
        came_in=CAME_IN,
        went_out=WENT_OUT,
        endings=ENDINGS,
        flows_chart=flows_chart,
        latency_chart=latency_chart,
        balance_chart=balance_chart,
    )


def _linked(row: Row, context: Context, **parameters: Any) -> Row:
    """Return a row of a chart with the address of a search for the flows of its time."""
    times = {
        "from": time_text(row["start"]),
        "to": time_text(row["end"]),
    }
    href = context.link("/search", **times, **parameters)
    return row | {"href": href}


def _total(rows: Iterable[Row]) -> int:
    return sum(row["count"] for row in rows)
