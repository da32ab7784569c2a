"""The timeline of a journey: waiting, running and transit, flow below flow, with the critical path marked.

Every flow has a line of its own, from its request to its answer, and below it one line for each thing that took time:
*wait* in a mailbox (from a `delivered` record), *run* in a handler (from a `handled` one), *transit* between two nodes
(from a hop). The stages of the critical path are differences of recorded times, so each ends at the very time of a
record: a span is critical where a stage of its kind ends in it, on the same node.
"""

from __future__ import annotations

import itertools
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
_RIGHT_MARGIN = 70
_LEAST_WIDTH = 1.5
_TICKS = 8
_KIND_OF_EVENT = {"delivered": "wait", "handled": "run"}


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
    axis = _Axis.over(spans, stages)
    bars = []
    for line, span in enumerate(spans[:MOST_LINES]):
        bar = Bar(
            span=span,
            x=axis.x(span.start),
            width=axis.width(span.end - span.start),
            y=TOP + line * LINE,
        )
        bars.append(bar)
    drawn = []
    for stage, _, start, end in stages:
        drawn_stage = Stage(
            kind=stage["stage"] or "",
            title=_stage_title(stage, end - start),
            x=axis.x(min(start, end)),
            width=axis.width(abs(end - start)),
        )
        drawn.append(drawn_stage)
    return Timeline(
        bars=bars,
        stages=drawn,
        ticks=axis.ticks(),
        height=TOP + len(bars) * LINE + 8,
        hidden=len(spans) - len(bars),
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """The axis of time, from the first time to the last one, in microseconds."""

    first: int
    last: int

    @classmethod
    def over(cls, spans: Sequence[Span], stages: Sequence[tuple[Row, int, int, int]]) -> _Axis:
        """Return the axis that has room for spans and stages."""
        times: list[int] = []
        for span in spans:
            times += (span.start, span.end)
        for _, _, start, end in stages:
            times += (start, end)
        if not times:
            return cls(0, 1)
        return cls(min(times), max(times))

    @property
    def length(self) -> int:
        return self.last - self.first

    @property
    def scale(self) -> float:
        return (WIDTH - LABELS - _RIGHT_MARGIN) / max(self.length, 1)

    def x(self, time: int) -> float:
        """Return where a time is drawn."""
        return round(LABELS + (time - self.first) * self.scale, 1)

    def width(self, us: int) -> float:
        """Return how wide a duration is drawn."""
        return max(us * self.scale, _LEAST_WIDTH)

    def ticks(self) -> list[Tick]:
        """Return the marks on the axis."""
        step = _round_step(self.length / _TICKS)
        times = range(0, self.length + 1, step)
        return [Tick(self.x(self.first + time), duration(time)) for time in times]


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
        flow_id = flow["flow_id"]
        parent = flow["parent_flow_id"]
        has_parent = parent in ids and parent != flow_id
        siblings = children.setdefault(parent if has_parent else None, [])
        siblings.append(flow_id)
    levels: dict[str, int] = {}
    waiting = [(flow_id, 0) for flow_id in reversed(children.get(None, []))]
    while waiting:
        flow_id, level = waiting.pop()
        if flow_id in levels:
            continue
        levels[flow_id] = level
        below = reversed(children.get(flow_id, []))
        waiting += [(child, level + 1) for child in below]
    for flow in flows:  # parents in a circle: inconsistent data must not hide a flow
        levels.setdefault(flow["flow_id"], 0)
    return levels


def _spans(journey: Journey, alignment: Alignment, levels: Mapping[str, int]) -> Iterator[Span]:
    flows = {flow["flow_id"]: flow for flow in journey.flows}
    inside: dict[str, list[Span]] = {}
    of_records = _of_records(journey.records, alignment)
    of_hops = _of_hops(journey.hops, alignment)
    for span in itertools.chain(of_records, of_hops):
        inside.setdefault(span.flow_id, []).append(span)
    for flow_id, level in levels.items():
        own = sorted(inside.get(flow_id, []), key=lambda span: (span.start, span.end))
        yield _of_flow(flows[flow_id], own, alignment, level)
        for span in own:
            span.level = level + 1
            yield span


def _of_flow(flow: Row, inside: Sequence[Span], alignment: Alignment, level: int) -> Span:
    times: list[int] = []
    for span in inside:
        times += (span.start, span.end)
    if flow["start_ts"] is not None:
        start = alignment.us(flow["start_ts"], flow["origin"])
        times.append(start)
        if flow["duration_us"] is not None:
            aligned_duration = flow["duration_us"] - (flow["skew_us"] or 0)
            times.append(start + aligned_duration)
    first = min(times, default=0)
    last = max(times, default=0)
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
        kind = _KIND_OF_EVENT.get(record["event"])
        duration_us = record["duration_us"]
        if kind is None or record["ts"] is None or duration_us is None:
            continue
        end = alignment.us(record["ts"], record["node"])
        recorded_end = recorded(record["ts"])
        yield Span(
            kind=kind,
            flow_id=record["flow_id"],
            label=_receiver_label(record),
            node=record["node"],
            peer=None,
            identity=record["identity"],
            start=end - duration_us,
            end=end,
            recorded_start=recorded_end - duration_us,
            recorded_end=recorded_end,
            problem=record["reason"] or "",
        )


def _receiver_label(record: Row) -> str:
    names = (record["receiver_name"], record["handler"])
    label = ".".join(name for name in names if name)
    if label:
        return label
    receiver = record["local_receiver"]
    is_hub = (receiver or "").startswith("\0")
    return "hub" if is_hub else short(receiver)


def _of_hops(hops: Iterable[Row], alignment: Alignment) -> Iterator[Span]:
    for hop in hops:
        times = []
        if hop["sent_ts"] is not None:
            times.append(alignment.us(hop["sent_ts"], hop["from_node"]))
        if hop["received_ts"] is not None:
            times.append(alignment.us(hop["received_ts"], hop["to_node"]))
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
    aligned_end = end - _clock_offset(alignment, whole["origin"])
    for stage in whole.get("critical_path") or ():
        if stage is None:
            continue
        end += stage["us"] or 0
        aligned_start = aligned_end
        aligned_end = end - _clock_offset(alignment, stage["node"])
        yield stage, end, aligned_start, aligned_end


def _clock_offset(alignment: Alignment, node: str | None) -> int:
    clock = alignment.clocks.get(node or "")
    return clock.offset_us if clock else 0


def _mark_critical(spans: Sequence[Span], stages: Sequence[tuple[Row, int, int, int]]) -> None:
    for stage, end, *_ in stages:
        subject = (stage["stage"], stage["node"], stage["identity"])
        for span in spans:
            is_same = (span.kind, span.node, span.identity) == subject
            if is_same and span.recorded_start <= end <= span.recorded_end:
                span.is_critical = True
    critical_flows = {stage["flow_id"] for stage, *_ in stages if stage["flow_id"]}
    for span in spans:
        if span.kind == "flow" and span.flow_id in critical_flows:
            span.is_critical = True


def _stage_title(stage: Row, us: int) -> str:
    subject = stage["handler"] or stage["identity"] or ""
    node = short(stage["node"])
    return f"{stage['stage']} {subject} at {node}, {duration(us)}"
