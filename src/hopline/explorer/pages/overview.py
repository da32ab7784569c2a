"""The overview."""

from __future__ import annotations

from typing import Any

from hopline.explorer import charts
from hopline.explorer.pages.context import Context, drawing
from hopline.explorer.parameters import time_text
from hopline.explorer.questions.asking import Row
from hopline.explorer.questions.overview import CAME_IN, ENDINGS, WENT_OUT, overview

CHART_WIDTH = 530


def page(context: Context) -> str:
    """Return the overview of a span of time."""
    seen = context.answer(overview, context.span)
    count = sum(row["count"] for row in seen.outcomes)

    def within(row: Row, **parameters: Any) -> str:
        times = {"from": time_text(row["start"]), "to": time_text(row["end"])}
        return context.link("/search", **{**times, **parameters})

    by_time = [row | {"href": within(row, outcome=row["outcome"])} for row in seen.by_time]
    latency = [row | {"href": within(row, sort="slowest")} for row in seen.latency]
    return context.render(
        "overview.html",
        seen=seen,
        count=count,
        lost=seen.lost[0]["total"] if seen.lost else 0,
        incidents=sum(row["count"] for row in seen.incidents),
        rejects=sum(row["count"] for row in seen.rejects),
        unanswered=sum(row["count"] for row in seen.callbacks if row["outcome"] not in ("answered", "exception")),
        came_in=CAME_IN,
        went_out=WENT_OUT,
        endings=ENDINGS,
        flows_chart=drawing(charts.flows_over_time(by_time, CHART_WIDTH)) if by_time else "",
        latency_chart=drawing(charts.latency_over_time(latency, CHART_WIDTH)) if latency else "",
        balance_chart=drawing(charts.balance(seen.balance, CHART_WIDTH)) if seen.balance else "",
    )
