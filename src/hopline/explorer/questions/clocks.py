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
    """Return how the clocks differed on the last day of a span, from a node that is named, or from the usual time.

    Without a reference it is the node that agrees with most of the others.
    """
    within = Conditions()
    if span.start is not None:
        within.add("date >= ?", span.start.date())
    if span.end is not None:
        within.add("date <= ?", span.end.date())
    query = f"select distinct date from skew where {within.sql} order by date"  # noqa: S608 - bound values
    days = [row["date"] for row in ask(tables, "skew", query, within.values)]
    if not days:
        return Clocks([], None, "", [], [])
    pairs = pairs_of_day(tables, days[-1])
    reference = reference or _usual(pairs)
    return Clocks(days, days[-1], reference, offsets_from(pairs, reference), pairs)


def pairs_of_day(tables: Tables, day: date | None) -> list[Row]:
    """Return the differences between pairs of nodes on a day, the largest first; none where there is no such table."""
    return ask_if_there(
        tables,
        "skew",
        """select node_a, node_b, offset_us, bound_us, min_transit_ab_us, min_transit_ba_us, transits_ab, transits_ba
        from skew where date = ? order by abs(offset_us) desc nulls last, node_a, node_b""",
        [day],
    )


def offsets_from(pairs: Sequence[Row], reference: str) -> list[Offset]:
    """Return the clocks of all nodes that pairs lead to from a reference, along those with the smallest bounds."""
    neighbours: dict[str, list[tuple[str, int, int]]] = {}
    for pair in pairs:
        if pair["offset_us"] is None or pair["bound_us"] is None or pair["bound_us"] < 0:
            continue
        a, b, offset, bound = pair["node_a"], pair["node_b"], pair["offset_us"], pair["bound_us"]
        neighbours.setdefault(a, []).append((b, offset, bound))
        neighbours.setdefault(b, []).append((a, -offset, bound))
    found: dict[str, Offset] = {}
    waiting = [(0, reference, 0)]
    while waiting:
        bound, node, offset = heapq.heappop(waiting)
        if node in found:
            continue
        found[node] = Offset(node, offset, bound)
        for other, step, step_bound in neighbours.get(node, ()):
            if other not in found:
                heapq.heappush(waiting, (bound + step_bound, other, offset + step))
    return sorted(
        found.values(), key=lambda one: (-abs(one.offset_us) if abs(one.offset_us) > one.bound_us else 0, one.node)
    )


def _usual(pairs: Sequence[Row]) -> str:
    """Return the node that agrees with most others within the bounds, the first by name of several."""
    agreeing: dict[str, int] = {}
    for pair in pairs:
        is_close = pair["offset_us"] is not None and abs(pair["offset_us"]) <= (pair["bound_us"] or 0)
        for node in (pair["node_a"], pair["node_b"]):
            agreeing[node] = agreeing.get(node, 0) + is_close
    return min(agreeing, key=lambda node: (-agreeing[node], node), default="")
