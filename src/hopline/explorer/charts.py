"""Charts of the tables, for the explorer's pages, the report and notebooks: rows in, Altair charts out.

>>> from hopline.explorer.charts import flows_over_time, svg
>>> chart = flows_over_time([{"start": start, "end": end, "outcome": "failed", "count": 3}])  # doctest: +SKIP
>>> picture = svg(chart)  # doctest: +SKIP

A chart in a notebook shows itself. `svg` draws it without a browser, by vl-convert. Colours in such a picture are
variables of CSS with a default (``var(--failed, #d1495b)``): on a page that has these variables, one picture serves the
dark and the light theme. The first picture takes a second or two (`warm_up`), others some hundredths of one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import altair as alt
import vl_convert

from hopline.message import printable

Rows = Iterable[Mapping[str, Any]]
Chart = alt.Chart

COLOURS = {
    "ink": "#1f2933",
    "muted": "#616e7c",
    "line": "#dde2e8",
    "complete": "#3f88a5",
    "failed": "#d1495b",
    "expired": "#e09f3e",
    "unanswered": "#8f6bb0",
    "truncated": "#8d99a7",
    "orphan": "#5f9e7f",
    "first": "#9cc5d6",
    "second": "#3f88a6",
    "third": "#1d4e63",
    "run": "#3f88a4",
    "wait": "#d9a441",
    "transit": "#a8b4c0",
}
"""The colours of charts, by the names of their CSS variables. All are different, so that each can be found again."""

STAGES = {
    "run": COLOURS["run"],
    "wait": COLOURS["wait"],
    "transit": COLOURS["transit"],
    "send": COLOURS["truncated"],
    "ask": COLOURS["unanswered"],
}
OUTCOMES = ("complete", "orphan", "truncated", "unanswered", "expired", "failed")
WIDTH = 560
HEIGHT = 150
_LONGEST_NAME = 60
_BARS_A_DECADE = 10
_LEAST_MS = 0.001
_MINUTES, _DAY, _DAYS = 300, 86_400, 7 * 86_400  # seconds
# The place that vl-convert takes relative addresses to be relative to.
_BASE = re.compile(r'xlink:href="https://vega\.github\.io/vega-datasets/')
_CONFIG = {
    "background": "transparent",
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "domainColor": COLOURS["line"],
        "gridColor": COLOURS["line"],
        "tickColor": COLOURS["line"],
        "labelColor": COLOURS["muted"],
        "titleColor": COLOURS["muted"],
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
    },
    "legend": {
        "labelColor": COLOURS["muted"],
        "title": None,
        "orient": "top",
        "labelFontSize": 11,
        "symbolType": "square",
        "symbolOpacity": 1,
        "offset": 4,
    },
}


def flows_over_time(rows: Rows, width: int = WIDTH, height: int = HEIGHT) -> alt.Chart:
    """Return bars of flows over time, stacked by outcome.

    Args:
        rows: `start` and `end` of a bar, `outcome`, `count`; perhaps `href`, the address behind a bar.
        width: Width of the plot.
        height: Height of the plot.
    """
    shown = _plain(rows)
    outcomes = {str(row["outcome"]) for row in shown}
    usual = [outcome for outcome in OUTCOMES if outcome in outcomes]
    others = sorted(outcomes.difference(OUTCOMES))
    domain = usual + others
    colours = [COLOURS.get(outcome, COLOURS["truncated"]) for outcome in domain]
    height_so_far: dict[str, int] = {}
    for row in sorted(shown, key=lambda row: domain.index(str(row["outcome"]))):
        start = row["start"]
        count = row["count"]
        low = height_so_far.get(start, 0)
        high = low + count
        height_so_far[start] = high
        row["low"] = low
        row["high"] = high
        row["label"] = f"{count:,} {row['outcome']}, {start}"
    # Not bars that Vega stacks: these would have one width, whatever their time.
    return _chart(
        alt.Chart(_data(shown))
        .mark_rect()
        .encode(
            x=_time_axis(shown),
            x2=alt.X2("end:T"),
            y=alt.Y("low:Q", title="flows", axis=alt.Axis(tickCount=4, format="~s")),
            y2=alt.Y2("high:Q"),
            color=alt.Color("outcome:N", scale=alt.Scale(domain=domain, range=colours)),
            **_links(shown),
        ),
        width,
        height,
        "Flows over time by outcome",
    )


def latency_over_time(rows: Rows, width: int = WIDTH, height: int = HEIGHT) -> alt.Chart:
    """Return lines of the percentiles of durations over time, on a logarithmic axis of milliseconds.

    Args:
        rows: `start`, `percentile` (p50, p95, p99), `us`; perhaps `href`.
        width: Width of the plot.
        height: Height of the plot.
    """
    shown = [row for row in _plain(rows) if row["us"] is not None]
    for row in shown:
        ms = max(row["us"], 1) / 1_000
        row["ms"] = ms
        row["label"] = f"{row['percentile']} {ms:,.3g} ms, {row['start']}"
    colours = [COLOURS[name] for name in ("first", "second", "third")]
    base = alt.Chart(_data(shown)).encode(
        x=_time_axis(shown),
        y=alt.Y(
            "ms:Q",
            title="ms",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(tickCount=4, format=",~r"),
        ),
        color=alt.Color(
            "percentile:N",
            scale=alt.Scale(domain=["p50", "p95", "p99"], range=colours),
        ),
    )
    lines = base.mark_line(strokeWidth=1.5, interpolate="monotone")
    points = base.mark_point(size=14, filled=True).encode(**_links(shown))
    return _chart(alt.layer(lines, points), width, height, "Latency percentiles over time")


def balance(row: Mapping[str, Any], width: int = WIDTH) -> alt.Chart:
    """Return what came into the nodes and what became of it, as two bars that must be of equal length.

    Args:
        row: Numbers of messages: `submitted`, `received`, `copies`; `delivered`, `sent` and the endings.
        width: Width of the plot.
    """
    came_in = [("in", name) for name in ("submitted", "received", "copies")]
    endings = ("expired", "unroutable", "rejected", "overflow", "hop_limit", "failed")
    went_out = [("out", name) for name in ("delivered", "sent", *endings)]
    colours = {
        "submitted": COLOURS["second"],
        "received": COLOURS["first"],
        "copies": COLOURS["third"],
        "delivered": COLOURS["complete"],
        "sent": COLOURS["orphan"],
        **dict.fromkeys(endings, COLOURS["failed"]),
    }
    shown: list[dict[str, Any]] = []
    for side, name in came_in + went_out:
        count = int(row.get(name) or 0)
        part = {
            "side": side,
            "what": name,
            "count": count,
            "order": len(shown),
            "label": f"{count:,} {name}",
        }
        shown.append(part)
    return _chart(
        alt.Chart(_data(shown))
        .mark_bar()
        .encode(
            y=alt.Y("side:N", title=None, sort=["in", "out"], axis=alt.Axis(ticks=False, domain=False)),
            x=alt.X("count:Q", title="messages", axis=alt.Axis(tickCount=5, format="~s")),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=list(colours), range=list(colours.values())),
                legend=None,
            ),
            order=alt.Order("order:O"),
            description=alt.Description("label:N"),
        ),
        width,
        56,
        "What came into the nodes, and what became of it",
    )


def time_by_stage(rows: Rows, width: int = WIDTH) -> alt.Chart:
    """Return where the time of critical paths goes: a bar for each kind of message, divided by stage.

    Args:
        rows: `identity`, `stage`, `seconds`.
        width: Width of the plot.
    """
    shown = _plain(rows)
    other_stages = {str(row["stage"]) for row in shown} - STAGES.keys()
    stages = [*STAGES, *sorted(other_stages)]
    colours = [STAGES.get(stage, COLOURS["orphan"]) for stage in stages]
    kinds = {row["identity"] for row in shown}
    return _chart(
        alt.Chart(_data(shown))
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", title="seconds", axis=alt.Axis(tickCount=6)),
            y=alt.Y("identity:N", title=None, sort="-x", axis=alt.Axis(ticks=False, domain=False)),
            color=alt.Color("stage:N", scale=alt.Scale(domain=stages, range=colours)),
        ),
        width,
        max(20 * len(kinds), 20),
        "Time on critical paths by kind of message and stage",
    )


def durations(rows: Rows, width: int = WIDTH, height: int = HEIGHT) -> alt.Chart:
    """Return how often which duration occurs, both on logarithmic axes.

    Args:
        rows: `ms`, one a request, in milliseconds.
        width: Width of the plot.
        height: Height of the plot.
    """
    counts: dict[int, int] = {}
    for row in _plain(rows):
        ms = max(float(row["ms"]), _LEAST_MS)
        bucket = math.floor(math.log10(ms) * _BARS_A_DECADE)
        counts[bucket] = counts.get(bucket, 0) + 1
    shown = [
        {
            "low": 10 ** (bucket / _BARS_A_DECADE),
            "high": 10 ** ((bucket + 1) / _BARS_A_DECADE),
            "count": count,
            "bottom": 0.5,  # a logarithmic axis has no zero
        }
        for bucket, count in sorted(counts.items())
    ]
    return _chart(
        alt.Chart(_data(shown))
        .mark_rect(color=COLOURS["second"])
        .encode(
            x=alt.X(
                "low:Q",
                title="ms",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(grid=False, format=",~r"),
            ),
            x2=alt.X2("high:Q"),
            y=alt.Y(
                "bottom:Q",
                title="requests",
                scale=alt.Scale(type="log", domainMin=0.5),
                axis=alt.Axis(tickCount=4, grid=False, format=",~r"),
            ),
            y2=alt.Y2("count:Q"),
        ),
        width,
        height,
        "How often which duration occurs",
    )


def clock_offsets(rows: Rows, width: int = WIDTH) -> alt.Chart:
    """Return by how much the clock of each node differs from a reference, with the bound of the estimate.

    Args:
        rows: `node`, `offset_us`, `bound_us`.
        width: Width of the plot.
    """
    shown = []
    for row in _plain(rows):
        offset = row["offset_us"] / 1_000
        bound = abs(row["bound_us"] or 0) / 1_000
        row["ms"] = offset
        row["low"] = offset - bound
        row["high"] = offset + bound
        row["label"] = f"{row['node']}: {offset:,.3f} ms, ± {bound:,.3f} ms"
        shown.append(row)
    base = alt.Chart(_data(shown)).encode(
        y=alt.Y("node:N", title=None, sort=None, axis=alt.Axis(ticks=False, domain=False))
    )
    bounds = base.mark_rule(color=COLOURS["first"], strokeWidth=5).encode(
        x=alt.X("low:Q", title="ms ahead of the reference", axis=alt.Axis(tickCount=8)),
        x2=alt.X2("high:Q"),
    )
    points = base.mark_point(filled=True, size=50, color=COLOURS["third"]).encode(
        x=alt.X("ms:Q"),
        description=alt.Description("label:N"),
    )
    height = 22 * max(len(shown), 1)
    return _chart(alt.layer(bounds, points), width, height, "Offsets of the clocks")


def svg(chart: alt.Chart) -> str:
    """Return a chart as SVG: without scripts, styles or addresses of others, its colours variables of CSS."""
    return svg_of_json(as_json(chart))


def as_json(chart: alt.Chart) -> str:
    """Return a chart as JSON. It is not checked again: its parts were when they were made."""
    return chart.to_json(validate=False, indent=None)


def svg_of_json(document: str) -> str:
    """Return a chart that was written as JSON as SVG."""
    return themed(vl_convert.vegalite_to_svg(document))


def themed(picture: str) -> str:
    """Return a picture with its colours as variables of CSS, and its addresses as they were given."""
    for name, colour in COLOURS.items():
        picture = picture.replace(f'"{colour}"', f'"var(--{name}, {colour})"')
    return _BASE.sub('href="', picture)


def warm_up() -> None:
    """Draw something: the first picture takes longer than others."""
    svg(flows_over_time([{"start": datetime(2026, 1, 1), "end": datetime(2026, 1, 2), "outcome": "-", "count": 1}]))


def _plain(rows: Rows) -> list[dict[str, Any]]:
    """Return rows with times as text that Vega takes for UTC, and names that are harmless."""
    if hasattr(rows, "to_dict"):  # a DataFrame of pandas
        rows = rows.to_dict("records")
    return [{name: _plain_value(name, value) for name, value in row.items()} for row in rows]


def _plain_value(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and name != "href":  # names are untrusted
        return printable(value, _LONGEST_NAME)
    return value


def _data(rows: list[dict[str, Any]]) -> alt.Data:
    """Return rows as Altair takes them; they become part of the chart.

    They are text that Vega reads: Altair takes longer to check every value than it takes to draw the chart.
    """
    return alt.Data(values=json.dumps(rows), format=alt.JsonDataFormat(type="json"))  # type: ignore[no-untyped-call]


def _links(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what makes each mark a link, where rows have addresses; its accessible name always.

    Channels are written out, here and above: to make one of a short text, Altair walks through its whole schema.
    """
    channels: dict[str, Any] = {"description": alt.Description("label:N")}
    if any("href" in row for row in rows):
        channels["href"] = alt.Href("href:N")
    return channels


def _time_axis(rows: list[dict[str, Any]]) -> alt.X:
    """Return an axis of time in UTC, with the day where there are several, and seconds where it is short."""
    times = [datetime.fromisoformat(row["start"]) for row in rows]
    seconds = (max(times) - min(times)).total_seconds() if times else 0
    form = (
        "%b %d"
        if seconds > _DAYS
        else "%b %d %H:%M"
        if seconds > _DAY
        else "%H:%M"
        if seconds > _MINUTES
        else "%H:%M:%S"
    )
    axis = alt.Axis(grid=False, tickCount=8, labelOverlap=True, format=form)
    return alt.X("start:T", title=None, scale=alt.Scale(type="utc"), axis=axis)


def _chart(chart: Any, width: int, height: int, title: str) -> alt.Chart:
    made: alt.Chart = chart.properties(width=width, height=height, description=title).configure(**_CONFIG)
    return made
