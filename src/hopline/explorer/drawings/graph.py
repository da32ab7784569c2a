"""A graph of nodes or actors: places by networkx, which is the same for the same edges; curves and colours here.

The force-directed layout draws what talks most together. Edges in both directions are curved, so that each has its own
line. Width tells the rate, colour the p95 or the share of errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx

Row = Mapping[str, Any]

WIDTH, HEIGHT = 1_190, 640
MARGIN_X, MARGIN_Y = 110, 50
RADIUS = 9
MOST_VERTICES = 120
_THINNEST, _THICKEST = 1.0, 7.0
_BEND = 0.13
_SLOW_US = (1_000, 10_000, 100_000)  # p95 at which an edge gets the next colour
_FAILING = (0.0, 0.01, 0.1)  # and share of messages with errors or lost


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
    counts: dict[str, int] = {}
    for edge in edges:
        for end in ("source", "target"):
            counts[edge[end] or ""] = counts.get(edge[end] or "", 0) + (edge["count"] or 0)
    kept = set(sorted(counts, key=lambda name: (-counts[name], name))[:MOST_VERTICES])
    shown = [edge for edge in edges if (edge["source"] or "") in kept and (edge["target"] or "") in kept]
    places = _places(sorted(kept), shown)
    most = max((edge["count"] or 0 for edge in shown), default=1) or 1
    level: Callable[[Row], int] = _slowness if colour == "p95" else _failure
    drawn = [_edge(edge, places, most, level(edge)) for edge in reversed(shown)]
    vertices = [Vertex(name, *places[name], counts[name]) for name in sorted(kept)]
    levels = ("below 1 ms", "below 10 ms", "below 100 ms", "100 ms and more")
    if colour != "p95":
        levels = ("no errors", "up to 1% errors or lost", "up to 10%", "more")
    return Graph(vertices, drawn, len(counts) - len(kept), levels)


def _places(names: Sequence[str], edges: Sequence[Row]) -> dict[str, tuple[float, float]]:
    """Return where each vertex goes, within the margins."""
    network: nx.Graph[str] = nx.Graph()
    network.add_nodes_from(names)
    for edge in edges:
        if edge["source"] != edge["target"]:
            weight = math.log1p(edge["count"] or 0)
            network.add_edge(edge["source"] or "", edge["target"] or "", weight=max(weight, 0.1))
    if len(names) <= 2:
        layout = {name: (float(nth), 0.5) for nth, name in enumerate(names)}
    else:
        start = nx.circular_layout(network)
        layout = nx.spring_layout(network, pos=start, k=1.8 / math.sqrt(len(names)), iterations=120, seed=1)
    return _fitted({name: (float(x), float(y)) for name, (x, y) in layout.items()})


def _fitted(layout: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return places within the margins, half by coordinate and half by rank: so one far off leaves the others room."""
    across, down = (_spread({name: place[axis] for name, place in layout.items()}) for axis in (0, 1))
    return {
        name: (
            round(MARGIN_X + across[name] * (WIDTH - 2 * MARGIN_X), 1),
            round(MARGIN_Y + down[name] * (HEIGHT - 2 * MARGIN_Y), 1),
        )
        for name in layout
    }


def _spread(values: Mapping[str, float]) -> dict[str, float]:
    """Return values between 0 and 1 in the same order."""
    low, high = min(values.values(), default=0.0), max(values.values(), default=0.0)
    length, last = high - low, max(len(values) - 1, 1)
    ranked = {name: rank / last for rank, name in enumerate(sorted(values, key=lambda name: (values[name], name)))}
    return {name: (ranked[name] + (value - low) / length) / 2 if length else 0.5 for name, value in values.items()}


def _edge(edge: Row, places: Mapping[str, tuple[float, float]], most: int, level: int) -> Edge:
    width = _THINNEST + (_THICKEST - _THINNEST) * math.sqrt((edge["count"] or 0) / most)
    (x1, y1), (x2, y2) = places[edge["source"] or ""], places[edge["target"] or ""]
    if edge["source"] == edge["target"]:
        top = y1 - RADIUS
        curve = (
            f"M{x1 - 5:.1f} {top:.1f}C{x1 - 26:.1f} {top - 34:.1f} {x1 + 26:.1f} {top - 34:.1f} {x1 + 5:.1f} {top:.1f}"
        )
        return Edge(edge, curve, "", round(width, 1), level)
    distance = math.hypot(x2 - x1, y2 - y1) or 1.0
    along_x, along_y = (x2 - x1) / distance, (y2 - y1) / distance
    bend_x = (x1 + x2) / 2 - along_y * distance * _BEND
    bend_y = (y1 + y2) / 2 + along_x * distance * _BEND
    # The arrow ends at the rim, coming from the bend.
    reach = math.hypot(x2 - bend_x, y2 - bend_y) or 1.0
    in_x, in_y = (x2 - bend_x) / reach, (y2 - bend_y) / reach
    size = 5 + width
    tip_x, tip_y = x2 - in_x * (RADIUS + 1), y2 - in_y * (RADIUS + 1)
    base_x, base_y = tip_x - in_x * size, tip_y - in_y * size
    half = size * 0.45
    head = (
        f"M{tip_x:.1f} {tip_y:.1f}L{base_x - in_y * half:.1f} {base_y + in_x * half:.1f}"
        f"L{base_x + in_y * half:.1f} {base_y - in_x * half:.1f}z"
    )
    curve = f"M{x1:.1f} {y1:.1f}Q{bend_x:.1f} {bend_y:.1f} {base_x:.1f} {base_y:.1f}"
    return Edge(edge, curve, head, round(width, 1), level)


def _slowness(edge: Row) -> int:
    return sum((edge["p95_us"] or 0) >= limit for limit in _SLOW_US)


def _failure(edge: Row) -> int:
    share = ((edge["errors"] or 0) + (edge["lost"] or 0)) / max(edge["count"] or 0, 1)
    return sum(share > limit for limit in _FAILING)
