"""The topology: nodes or actors, and the messages between them in a span of time."""

from __future__ import annotations

from dataclasses import dataclass

from hopline.explorer.parameters import Conditions, Span
from hopline.explorer.questions.asking import Row, ask
from hopline.explorer.questions.clocks import offsets
from hopline.explorer.questions.search import begins_with
from hopline.query.tables import Tables

PHYSICAL, LOGICAL = "physical", "logical"
CLASSES, INSTANCES = "classes", "instances"
MOST_EDGES = 300

# What a vertex is, in SQL, for either end of an edge.
_VERTICES = {
    (PHYSICAL, CLASSES): "{end}",
    (PHYSICAL, INSTANCES): "{end}",
    (LOGICAL, CLASSES): "coalesce({end}_name, case when {end} is null or {end} = '' then 'unknown' else 'hub' end)",
    (LOGICAL, INSTANCES): "coalesce({end}_name, case when {end} is null or {end} = '' then 'unknown' else 'hub' end)"
    " || '@' || coalesce({end}_node, '')",
}


@dataclass(frozen=True, slots=True)
class Topology:
    """A graph: its edges, the largest first."""

    kind: str
    edges: list[Row]  # source, target, count, bytes, errors, lost, p50_us, p95_us, per_second, provisional
    has_more: bool
    first: object
    last: object


def topology(tables: Tables, kind: str, by: str, node: str, span: Span) -> Topology:
    """Return the edges between nodes, or between actors, in a span of time.

    Args:
        tables: The tables.
        kind: `physical`, from node to node, or `logical`, from actor to actor.
        by: Actors by their class, over all nodes, or each instance of its own.
        node: Only what goes from or to this node; empty for all.
        span: The time.

    Times are corrected for the clocks as far as these are known. The p95 of an edge is the median of those of its
    windows: percentiles cannot be added up.

    """
    conditions = Conditions().within(span, "window_start").add("kind = ?", kind)
    if node:
        ways = [begins_with(column, node) for column in ("source_node", "target_node")]
        conditions.add(" or ".join(way.sql for way in ways), *(value for way in ways for value in way.values))
    source, target = (_VERTICES[kind, by].format(end=end) for end in ("source", "target"))
    (times,) = ask(
        tables,
        "edges",
        f"""select min(window_start) as first, max(window_start + to_seconds(window_s)) as last
        from edges where {conditions.sql}""",  # noqa: S608
        conditions.values,
    )
    first, last = times["first"], times["last"]
    seconds = span.seconds or ((last - first).total_seconds() if first and last else 0) or 1
    rows = ask(
        tables,
        "edges",
        f"""with {offsets(tables)} select {source} as source, {target} as target,
        sum(count)::bigint as count, sum(bytes)::bigint as bytes, sum(errors)::bigint as errors,
        sum(lost)::bigint as lost, sum(count) / {seconds:f} as per_second,
        quantile_disc(transit_p50_us - coalesce(offset_us, 0), 0.5) as p50_us,
        quantile_disc(transit_p95_us - coalesce(offset_us, 0), 0.5) as p95_us,
        list_sort(list_distinct(list(identity)))[:12] as identities,
        coalesce(bool_or(provisional), false) as provisional
        from edges left join offsets using (date, source_node, target_node)
        where {conditions.sql} group by 1, 2 order by sum(count) desc, 1, 2 limit {MOST_EDGES + 1}""",  # noqa: S608
        conditions.values,
    )
    return Topology(kind, rows[:MOST_EDGES], len(rows) > MOST_EDGES, first, last)
