"""The timeline of a journey: waiting, running and transit, flow below flow, with the critical path marked.

Every flow has a line of its own, from its request to its answer, and below it one line for each thing that took time:
*wait* in a mailbox (from a `delivered` record), *run* in a handler (from a `handled` one), *transit* between two nodes
(from a hop). The stages of the critical path are differences of recorded times, so each ends at the very time of a
record: a span is critical where a stage of its kind ends in it, on the same node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hopline.explorer.drawings.clock_alignment import Alignment, recorded
from hopline.explorer.questions.journey import Journey
from hopline.pipeline.tables.findings import duration, short

Row = Mapping[str, Any]

WIDTH = 1_190
LABELS = 330
LINE = 20
TOP = 44
MOST_LINES = 160
_LEAST_WIDTH = 1.5
_TICKS = 8


@dataclass(slots=True)
class Span:
    """Something that took time, in microseconds of the reference clock."""

    kind: str  # flow, wait, run, transit
    flow_id: str
    label: str
    node: str | None
    peer: str | None
    identity: str | None
    start: int
    end: int
    recorded_end: int  # by the clock of its node
    recorded_start: int
    level: int = 0
    problem: str = ""
    is_critical: bool = False
    outcome: str = ""

    @property
    def took(self) -> str:
        """Return how long it took."""
        return duration(self.end - self.start)


@dataclass(frozen=True, slots=True)
class Bar:
    """A span as it is drawn."""

    span: Span
    x: float
    width: float
    y: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the critical path as it is drawn."""

    kind: str
    title: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """A timeline as it is drawn."""

    bars: list[Bar]
    stages: list[Stage]
    ticks: list[Tick]
    height: int
    hidden: int  # spans that are not drawn
    width: int = WIDTH
    labels: int = LABELS


def timeline(journey: Journey, alignment: Alignment) -> Timeline:
    """Return the timeline of a journey on one clock."""
    levels = flow_levels(journey.flows)
    spans = list(_spans(journey, alignment, levels))
    stages = list(_stages(journey.whole, alignment))
    _mark_critical(spans, stages)
    times = [time for span in spans for time in (span.start, span.end)]
    times += [time for *_, start, end in stages for time in (start, end)]
    first, last = (min(times), max(times)) if times else (0, 1)
    scale = (WIDTH - LABELS - 70) / max(last - first, 1)

    def x(time: int) -> float:
        return round(LABELS + (time - first) * scale, 1)

    shown = spans[:MOST_LINES]
    bars = [
        Bar(span, x(span.start), max((span.end - span.start) * scale, _LEAST_WIDTH), TOP + line * LINE)
        for line, span in enumerate(shown)
    ]
    drawn = [
        Stage(
            stage["stage"] or "",
            _stage_title(stage, end - start),
            x(min(start, end)),
            max(abs(end - start) * scale, _LEAST_WIDTH),
        )
        for stage, _, start, end in stages
    ]
    step = _round_step((last - first) / _TICKS)
    ticks = [Tick(x(first + time), duration(time)) for time in range(0, last - first + 1, step)]
    return Timeline(bars, drawn, ticks, TOP + len(bars) * LINE + 8, len(spans) - len(shown))


def _round_step(us: float) -> int:
    """Return the distance of two marks on the axis: 1, 2 or 5 of a power of ten, not less than is asked for."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= us:
                return factor * power
        power *= 10


def flow_levels(flows: Sequence[Row]) -> dict[str, int]:
    """Return how deep each flow lies below the first one, in the order in which they are drawn: children below."""
    ids = {flow["flow_id"] for flow in flows}
    children: dict[str | None, list[str]] = {}
    for flow in flows:
        parent = flow["parent_flow_id"]
        known = parent if parent in ids and parent != flow["flow_id"] else None
        children.setdefault(known, []).append(flow["flow_id"])
    levels: dict[str, int] = {}
    waiting = [(flow_id, 0) for flow_id in reversed(children.get(None, []))]
    while waiting:
        flow_id, level = waiting.pop()
        if flow_id in levels:
            continue
        levels[flow_id] = level
        waiting += [(child, level + 1) for child in reversed(children.get(flow_id, []))]
    for flow in flows:  # parents in a circle: inconsistent data must not hide a flow
        levels.setdefault(flow["flow_id"], 0)
    return levels


def _spans(journey: Journey, alignment: Alignment, levels: Mapping[str, int]) -> Iterator[Span]:
    flows = {flow["flow_id"]: flow for flow in journey.flows}
    inside: dict[str, list[Span]] = {}
    for span in (*_of_records(journey.records, alignment), *_of_hops(journey.hops, alignment)):
        inside.setdefault(span.flow_id, []).append(span)
    for flow_id, level in levels.items():
        own = sorted(inside.get(flow_id, []), key=lambda span: (span.start, span.end))
        yield _of_flow(flows[flow_id], own, alignment, level)
        for span in own:
            span.level = level + 1
            yield span


def _of_flow(flow: Row, inside: Sequence[Span], alignment: Alignment, level: int) -> Span:
    times = [time for span in inside for time in (span.start, span.end)]
    if flow["start_ts"] is not None:
        start = alignment.us(flow["start_ts"], flow["origin"])
        times.append(start)
        if flow["duration_us"] is not None:
            times.append(start + flow["duration_us"] - (flow["skew_us"] or 0))
    first, last = (min(times), max(times)) if times else (0, 0)
    return Span(
        kind="flow",
        flow_id=flow["flow_id"],
        label=flow["identity"] or "",
        node=flow["origin"],
        peer=None,
        identity=flow["identity"],
        start=first,
        end=last,
        recorded_start=first,
        recorded_end=last,
        level=level,
        outcome=flow["outcome"] or "",
    )


def _of_records(records: Iterable[Row], alignment: Alignment) -> Iterator[Span]:
    for record in records:
        kind = {"delivered": "wait", "handled": "run"}.get(record["event"])
        if kind is None or record["ts"] is None or record["duration_us"] is None:
            continue
        end = alignment.us(record["ts"], record["node"])
        raw = recorded(record["ts"])
        name = ".".join(part for part in (record["receiver_name"], record["handler"]) if part)
        yield Span(
            kind=kind,
            flow_id=record["flow_id"],
            label=name
            or ("hub" if (record["local_receiver"] or "").startswith("\0") else short(record["local_receiver"])),
            node=record["node"],
            peer=None,
            identity=record["identity"],
            start=end - record["duration_us"],
            end=end,
            recorded_start=raw - record["duration_us"],
            recorded_end=raw,
            problem=record["reason"] or "",
        )


def _of_hops(hops: Iterable[Row], alignment: Alignment) -> Iterator[Span]:
    for hop in hops:
        times = [
            alignment.us(moment, node)
            for moment, node in ((hop["sent_ts"], hop["from_node"]), (hop["received_ts"], hop["to_node"]))
            if moment is not None
        ]
        if not times:
            continue
        problems = [name for name in ("lost", "duplicate", "rejected") if hop[name]]
        arrival = hop["received_ts"] or hop["sent_ts"]
        yield Span(
            kind="transit",
            flow_id=hop["flow_id"],
            label=hop["identity"] or "",
            node=hop["to_node"],
            peer=hop["from_node"],
            identity=hop["identity"],
            start=min(times),
            end=max(times),
            recorded_start=recorded(arrival),
            recorded_end=recorded(arrival),
            problem=", ".join(problems),
        )


def _stages(whole: Row, alignment: Alignment) -> Iterator[tuple[Row, int, int, int]]:
    """Return the stages of the critical path, each with its end as recorded, and its start and end on one clock."""
    if whole.get("start_ts") is None:
        return
    end = recorded(whole["start_ts"])
    clock = alignment.clocks.get(whole["origin"] or "")
    aligned = end - (clock.offset_us if clock else 0)
    for stage in whole.get("critical_path") or ():
        if stage is None:
            continue
        end += stage["us"] or 0
        clock = alignment.clocks.get(stage["node"] or "")
        start, aligned = aligned, end - (clock.offset_us if clock else 0)
        yield stage, end, start, aligned


def _mark_critical(spans: Sequence[Span], stages: Sequence[tuple[Row, int, int, int]]) -> None:
    for stage, end, *_ in stages:
        for span in spans:
            if (
                span.kind == stage["stage"]
                and span.node == stage["node"]
                and span.identity == stage["identity"]
                and span.recorded_start <= end <= span.recorded_end
            ):
                span.is_critical = True
    critical_flows = {stage["flow_id"] for stage, *_ in stages if stage["flow_id"]}
    for span in spans:
        if span.kind == "flow" and span.flow_id in critical_flows:
            span.is_critical = True


def _stage_title(stage: Row, us: int) -> str:
    what = stage["handler"] or stage["identity"] or ""
    return f"{stage['stage']} {what} at {short(stage['node'])}, {duration(us)}"
