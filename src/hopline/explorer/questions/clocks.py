"""Clocks: by how much they differ, between pairs of nodes and from a reference."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from hopline.explorer.parameters import Conditions, Span
from hopline.explorer.questions.asking import Row, ask, ask_if_there, has
from hopline.query.tables import Tables


@dataclass(frozen=True, slots=True)
class Offset:
    """By how much the clock of a node is ahead of a reference, and the largest possible error of that."""

    node: str
    offset_us: int
    bound_us: int


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of one day."""

    days: list[date]
    day: date | None
    reference: str
    nodes: list[Offset]  # from the reference, as far as pairs lead
    pairs: list[Row]


def offsets(tables: Tables) -> str:
    """Return a part of SQL that defines ``offsets``: `offset_us`, by how much the target's clock is ahead that day."""
    if not has(tables, "skew"):
        return (
            "offsets as (select null::date as date, null::varchar as source_node, null::varchar as target_node, "
            "null::bigint as offset_us where false)"
        )
    return (
        "offsets as (select date, node_a as source_node, node_b as target_node, offset_us from skew "
        "union all select date, node_b, node_a, -offset_us from skew)"
    )


def clocks(tables: Tables, span: Span, reference: str) -> Clocks:
    """Return how the clocks differed on the last day of a span, from the clock of a node.

    Args:
        tables: The tables.
        span: The time.
        reference: The node; if it is empty, the one that agrees with most others.
    """
    within = Conditions()
    if span.start is not None:
        within.add("date >= ?", span.start.date())
    if span.end is not None:
        within.add("date <= ?", span.end.date())
    query = f"select distinct date from skew where {within.sql} order by date"  # noqa: S608 - bound values
    rows = ask(tables, "skew", query, within.values)
    days = [row["date"] for row in rows]
    if not days:
        return Clocks([], None, "", [], [])
    last_day = days[-1]
    pairs = pairs_of_day(tables, last_day)
    reference = reference or _usual(pairs)
    return Clocks(
        days=days,
        day=last_day,
        reference=reference,
        nodes=offsets_from(pairs, reference),
        pairs=pairs,
    )


def pairs_of_day(tables: Tables, day: date | None) -> list[Row]:
    """Return the differences between pairs of nodes on a day, the largest first; none where there is no such table."""
    return ask_if_there(
        tables,
        "skew",
        """select node_a, node_b, offset_us, bound_us, min_transit_ab_us, min_transit_ba_us, transits_ab, transits_ba,
        provisional from skew where date = ? order by abs(offset_us) desc nulls last, node_a, node_b""",
        [day],
    )


def offsets_from(pairs: Sequence[Row], reference: str) -> list[Offset]:
    """Return the clocks of all nodes that pairs lead to from a reference, along those with the smallest bounds."""
    neighbours = _neighbours(pairs)
    offset_of: dict[str, Offset] = {}
    waiting = [(0, reference, 0)]
    while waiting:
        bound, node, offset = heapq.heappop(waiting)
        if node in offset_of:
            continue
        offset_of[node] = Offset(node, offset, bound)
        for neighbour in neighbours.get(node, ()):
            if neighbour.node not in offset_of:
                next_bound = bound + neighbour.bound_us
                next_offset = offset + neighbour.offset_us
                heapq.heappush(waiting, (next_bound, neighbour.node, next_offset))
    return sorted(offset_of.values(), key=_by_difference)


def _neighbours(pairs: Sequence[Row]) -> dict[str, list[Offset]]:
    """Return by how much the clocks of each node's neighbours are ahead of its own."""
    neighbours: dict[str, list[Offset]] = {}
    for pair in pairs:
        offset = pair["offset_us"]
        bound = pair["bound_us"]
        if offset is None or bound is None or bound < 0:
            continue
        node = pair["node_a"]
        other = pair["node_b"]
        neighbours.setdefault(node, []).append(Offset(other, offset, bound))
        neighbours.setdefault(other, []).append(Offset(node, -offset, bound))
    return neighbours


def _by_difference(clock: Offset) -> tuple[int, str]:
    """Sort key: the largest difference first, those within the bound last, by name."""
    difference = abs(clock.offset_us)
    is_certain = difference > clock.bound_us
    return -difference if is_certain else 0, clock.node


def _usual(pairs: Sequence[Row]) -> str:
    """Return the node that agrees with most others within the bounds, the first by name of several."""
    agreeing: dict[str, int] = {}
    for pair in pairs:
        offset = pair["offset_us"]
        bound = pair["bound_us"] or 0
        is_close = offset is not None and abs(offset) <= bound
        for node in (pair["node_a"], pair["node_b"]):
            agreeing[node] = agreeing.get(node, 0) + is_close
    return min(agreeing, key=lambda node: (-agreeing[node], node), default="")
