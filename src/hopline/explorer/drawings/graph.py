"""The graph of nodes or actors: positions by networkx, the same for the same edges; curves and colours here.

The force-directed layout pulls together what exchanges most messages. Edges are curved, so that those of both
directions between two vertices can be told apart. Width shows the rate, colour the p95 or the share of errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import networkx as nx

Row = Mapping[str, Any]
Point = tuple[float, float]

WIDTH = 1_190
HEIGHT = 640
MARGIN_X = 110
MARGIN_Y = 50
RADIUS = 9
MOST_VERTICES = 120
_THINNEST = 1.0
_THICKEST = 7.0
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
    is_by_time = colour == "p95"
    counts = _messages_by_vertex(edges)
    busiest = sorted(counts, key=lambda name: (-counts[name], name))
    names = sorted(busiest[:MOST_VERTICES])
    shown = _edges_among(set(names), edges)
    positions = _layout(names, shown)
    return Graph(
        vertices=[Vertex(name, *positions[name], counts[name]) for name in names],
        edges=_drawn(shown, positions, _slowness if is_by_time else _failure),
        hidden=len(counts) - len(names),
        levels=_SLOWNESS_LEGEND if is_by_time else _FAILURE_LEGEND,
    )


def _drawn(edges: Sequence[Row], positions: Mapping[str, Point], level: Callable[[Row], int]) -> list[Edge]:
    highest_count = max(map(_count, edges), default=0) or 1
    drawn = []
    for edge in reversed(edges):  # the busiest last, on top of the others
        width = _width(_count(edge) / highest_count)
        source = positions[_source(edge)]
        target = positions[_target(edge)]
        if _is_loop(edge):
            curve = _loop(source)
            head = ""
        else:
            curve, head = _arrow(source, target, width)
        drawn.append(
            Edge(
                row=edge,
                curve=curve,
                head=head,
                width=round(width, 1),
                level=level(edge),
            )
        )
    return drawn


# -- reading the rows --------------------------------------------------------------------------------------------------


def _source(edge: Row) -> str:
    return edge["source"] or ""


def _target(edge: Row) -> str:
    return edge["target"] or ""


def _count(edge: Row) -> int:
    return edge["count"] or 0


def _is_loop(edge: Row) -> bool:
    return bool(edge["source"] == edge["target"])


def _edges_among(names: Set[str], edges: Sequence[Row]) -> list[Row]:
    """Return the edges of which both ends have one of these names."""
    from_these = [edge for edge in edges if _source(edge) in names]
    return [edge for edge in from_these if _target(edge) in names]


def _messages_by_vertex(edges: Sequence[Row]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for edge in edges:
        count = _count(edge)
        for name in (_source(edge), _target(edge)):
            counts[name] = counts.get(name, 0) + count
    return counts


def _slowness(edge: Row) -> int:
    p95_us = edge["p95_us"] or 0
    return sum(p95_us >= limit for limit in _SLOW_US)


def _failure(edge: Row) -> int:
    errors = edge["errors"] or 0
    lost = edge["lost"] or 0
    messages = max(_count(edge), 1)
    share = (errors + lost) / messages
    return sum(share > limit for limit in _FAILING)


# -- where vertices are ------------------------------------------------------------------------------------------------


def _layout(names: Sequence[str], edges: Sequence[Row]) -> dict[str, Point]:
    """Return the position of each vertex, within the margins."""
    if len(names) <= 2:
        return _fit({name: (position, 0.5) for position, name in enumerate(names)})
    network: nx.Graph[str] = nx.Graph()
    network.add_nodes_from(names)
    for edge in edges:
        if not _is_loop(edge):
            weight = max(math.log1p(_count(edge)), _LEAST_WEIGHT)
            network.add_edge(_source(edge), _target(edge), weight=weight)
    layout = nx.spring_layout(
        network,
        pos=nx.circular_layout(network),
        k=_SPACING / math.sqrt(len(names)),
        iterations=_ITERATIONS,
        seed=1,
    )
    return _fit(layout)


def _fit(layout: Mapping[str, Sequence[float]]) -> dict[str, Point]:
    """Return positions that fill the area within the margins."""
    columns: dict[str, float] = {}
    lines: dict[str, float] = {}
    for name, (x, y) in layout.items():
        columns[name] = float(x)
        lines[name] = float(y)
    across = _even_out(columns)
    down = _even_out(lines)
    inner_width = WIDTH - 2 * MARGIN_X
    inner_height = HEIGHT - 2 * MARGIN_Y
    positions = {}
    for name in layout:
        x = MARGIN_X + across[name] * inner_width
        y = MARGIN_Y + down[name] * inner_height
        positions[name] = (round(x, 1), round(y, 1))
    return positions


def _even_out(values: Mapping[str, float]) -> dict[str, float]:
    """Return values between 0 and 1 in the same order, so that an outlier leaves the others room.

    Each is the mean of its share of the range and of its rank.
    """
    low = min(values.values(), default=0.0)
    high = max(values.values(), default=0.0)
    length = high - low
    if not length:
        return dict.fromkeys(values, 0.5)
    in_order = sorted(values, key=lambda name: (values[name], name))
    last_rank = max(len(values) - 1, 1)
    evened = {}
    for rank, name in enumerate(in_order):
        share = (values[name] - low) / length
        share_of_rank = rank / last_rank
        evened[name] = (share_of_rank + share) / 2
    return evened


# -- curves ------------------------------------------------------------------------------------------------------------
#
# Points and directions are complex numbers here: a product with 1j is a quarter turn.


def _width(share: float) -> float:
    """Return the width of an edge that has a share of the messages of the busiest one."""
    return _THINNEST + (_THICKEST - _THINNEST) * math.sqrt(share)


def _loop(at: Point) -> str:
    """Return the path of an edge that leads back to its vertex."""
    x, y = at
    top = complex(x, y - RADIUS)
    start = _xy(top - 5)
    left_control = _xy(top - 26 - 34j)
    right_control = _xy(top + 26 - 34j)
    end = _xy(top + 5)
    return f"M{start}C{left_control} {right_control} {end}"


def _arrow(source: Point, target: Point, width: float) -> tuple[str, str]:
    """Return the paths of a curve between two vertices and of its arrow head, which touches the target's rim."""
    start = complex(*source)
    end = complex(*target)
    # The control point lies beside the middle, so that edges in both directions do not cover each other.
    middle = (start + end) / 2
    bend = middle + 1j * (end - start) * _BEND
    reach = abs(end - bend) or 1.0
    direction = (end - bend) / reach
    tip = end - direction * (RADIUS + 1)
    head_length = _HEAD_LENGTH + width
    base = tip - direction * head_length
    half_width = head_length * _HEAD_HALF_WIDTH
    wing = 1j * direction * half_width
    curve = f"M{_xy(start)}Q{_xy(bend)} {_xy(base)}"
    head = f"M{_xy(tip)}L{_xy(base + wing)}L{_xy(base - wing)}z"
    return curve, head


def _xy(point: complex) -> str:
    return f"{point.real:.1f} {point.imag:.1f}"
