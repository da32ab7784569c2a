"""The graph of nodes or actors: positions by networkx, the same for the same edges; curves and colours here.

The force-directed layout pulls together what exchanges most messages. Edges are curved, so that those of both
directions between two vertices can be told apart. Width shows the rate, colour the p95 or the share of errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx

Row = Mapping[str, Any]
Point = tuple[float, float]

WIDTH, HEIGHT = 1_190, 640
MARGIN_X, MARGIN_Y = 110, 50
RADIUS = 9
MOST_VERTICES = 120
_THINNEST, _THICKEST = 1.0, 7.0
_BEND = 0.13  # how far a curve leaves the straight line, as a share of its length
_HEAD_LENGTH = 5
_HEAD_HALF_WIDTH = 0.45  # of its length
_SPACING = 1.8
_ITERATIONS = 120
_LEAST_WEIGHT = 0.1
_SLOW_US = (1_000, 10_000, 100_000)  # p95 at which an edge gets the next colour
_FAILING = (0.0, 0.01, 0.1)  # and share of messages with errors or lost
_SLOWNESS_LEGEND = ("below 1 ms", "below 10 ms", "below 100 ms", "100 ms and more")
_FAILURE_LEGEND = ("no errors", "up to 1% errors or lost", "up to 10%", "more")


@dataclass(frozen=True, slots=True)
class Vertex:
    """A node or an actor as it is drawn."""

    name: str
    x: float
    y: float
    count: int  # messages from and to it


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge as it is drawn: a curve, and the head of its arrow."""

    row: Row
    curve: str
    head: str
    width: float
    level: int  # 0 to 3: how bad its colour is


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph as it is drawn."""

    vertices: list[Vertex]
    edges: list[Edge]
    hidden: int  # vertices that are not drawn
    levels: tuple[str, ...]
    width: int = WIDTH
    height: int = HEIGHT


def graph(edges: Sequence[Row], colour: str) -> Graph:
    """Return the graph of some edges, coloured by `p95` or `errors`."""
    counts = _messages_by_vertex(edges)
    busiest = sorted(counts, key=lambda name: (-counts[name], name))
    names = sorted(busiest[:MOST_VERTICES])
    kept = set(names)
    shown = [edge for edge in edges if _source(edge) in kept and _target(edge) in kept]
    positions = _layout(names, shown)
    highest_count = max((_count(edge) for edge in shown), default=0) or 1
    level: Callable[[Row], int] = _slowness if colour == "p95" else _failure
    drawn = []
    for edge in reversed(shown):  # the busiest last, on top of the others
        width = _width(_count(edge) / highest_count)
        source = positions[_source(edge)]
        target = positions[_target(edge)]
        is_loop = edge["source"] == edge["target"]
        curve, head = _loop(source) if is_loop else _arrow(source, target, width)
        drawn.append(Edge(edge, curve, head, round(width, 1), level(edge)))
    vertices = [Vertex(name, *positions[name], counts[name]) for name in names]
    legend = _SLOWNESS_LEGEND if colour == "p95" else _FAILURE_LEGEND
    return Graph(vertices, drawn, hidden=len(counts) - len(kept), levels=legend)


# -- reading the rows --------------------------------------------------------------------------------------------------


def _source(edge: Row) -> str:
    return edge["source"] or ""


def _target(edge: Row) -> str:
    return edge["target"] or ""


def _count(edge: Row) -> int:
    return edge["count"] or 0


def _messages_by_vertex(edges: Sequence[Row]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for edge in edges:
        for name in (_source(edge), _target(edge)):
            counts[name] = counts.get(name, 0) + _count(edge)
    return counts


def _slowness(edge: Row) -> int:
    p95_us = edge["p95_us"] or 0
    return sum(p95_us >= limit for limit in _SLOW_US)


def _failure(edge: Row) -> int:
    failures = (edge["errors"] or 0) + (edge["lost"] or 0)
    share = failures / max(_count(edge), 1)
    return sum(share > limit for limit in _FAILING)


# -- where vertices are ------------------------------------------------------------------------------------------------


def _layout(names: Sequence[str], edges: Sequence[Row]) -> dict[str, Point]:
    """Return the position of each vertex, within the margins."""
    if len(names) <= 2:
        return _fit({name: (float(nth), 0.5) for nth, name in enumerate(names)})
    network: nx.Graph[str] = nx.Graph()
    network.add_nodes_from(names)
    for edge in edges:
        if edge["source"] != edge["target"]:
            weight = max(math.log1p(_count(edge)), _LEAST_WEIGHT)
            network.add_edge(_source(edge), _target(edge), weight=weight)
    start = nx.circular_layout(network)
    spacing = _SPACING / math.sqrt(len(names))
    layout = nx.spring_layout(network, pos=start, k=spacing, iterations=_ITERATIONS, seed=1)
    return _fit({name: (float(x), float(y)) for name, (x, y) in layout.items()})


def _fit(layout: Mapping[str, Point]) -> dict[str, Point]:
    """Return positions that fill the area within the margins."""
    across = _even_out({name: x for name, (x, _) in layout.items()})
    down = _even_out({name: y for name, (_, y) in layout.items()})
    positions = {}
    for name in layout:
        x = MARGIN_X + across[name] * (WIDTH - 2 * MARGIN_X)
        y = MARGIN_Y + down[name] * (HEIGHT - 2 * MARGIN_Y)
        positions[name] = (round(x, 1), round(y, 1))
    return positions


def _even_out(values: Mapping[str, float]) -> dict[str, float]:
    """Return values between 0 and 1 in the same order, so that an outlier leaves the others room.

    Each is the mean of its share of the range and of its rank.
    """
    low = min(values.values(), default=0.0)
    length = max(values.values(), default=0.0) - low
    if not length:
        return dict.fromkeys(values, 0.5)
    in_order = sorted(values, key=lambda name: (values[name], name))
    last_rank = max(len(values) - 1, 1)
    evened = {}
    for rank, name in enumerate(in_order):
        share = (values[name] - low) / length
        evened[name] = (rank / last_rank + share) / 2
    return evened


# -- curves ------------------------------------------------------------------------------------------------------------


def _width(share: float) -> float:
    """Return the width of an edge that has a share of the messages of the busiest one."""
    return _THINNEST + (_THICKEST - _THINNEST) * math.sqrt(share)


def _loop(at: Point) -> tuple[str, str]:
    """Return the path of an edge that leads back to its vertex, and no arrow head."""
    x, y = at
    top = y - RADIUS
    start = f"M{x - 5:.1f} {top:.1f}"
    controls = f"C{x - 26:.1f} {top - 34:.1f} {x + 26:.1f} {top - 34:.1f}"
    end = f"{x + 5:.1f} {top:.1f}"
    return f"{start}{controls} {end}", ""


def _arrow(source: Point, target: Point, width: float) -> tuple[str, str]:
    """Return the paths of a curve between two vertices and of its arrow head, which touches the target's rim."""
    (x1, y1), (x2, y2) = source, target
    # The control point lies beside the middle, so that edges in both directions do not cover each other.
    bend_x = (x1 + x2) / 2 - (y2 - y1) * _BEND
    bend_y = (y1 + y2) / 2 + (x2 - x1) * _BEND
    reach = math.hypot(x2 - bend_x, y2 - bend_y) or 1.0
    in_x = (x2 - bend_x) / reach
    in_y = (y2 - bend_y) / reach
    tip_x = x2 - in_x * (RADIUS + 1)
    tip_y = y2 - in_y * (RADIUS + 1)
    head_length = _HEAD_LENGTH + width
    base_x = tip_x - in_x * head_length
    base_y = tip_y - in_y * head_length
    wing_x = in_y * head_length * _HEAD_HALF_WIDTH
    wing_y = in_x * head_length * _HEAD_HALF_WIDTH
    tip = f"M{tip_x:.1f} {tip_y:.1f}"
    one_wing = f"L{base_x - wing_x:.1f} {base_y + wing_y:.1f}"
    other_wing = f"L{base_x + wing_x:.1f} {base_y - wing_y:.1f}"
    curve = f"M{x1:.1f} {y1:.1f}Q{bend_x:.1f} {bend_y:.1f} {base_x:.1f} {base_y:.1f}"
    return curve, f"{tip}{one_wing}{other_wing}z"
