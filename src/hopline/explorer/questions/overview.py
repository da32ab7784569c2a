"""The overview: how much, how fast, what went wrong, and where to look first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hopline.explorer.parameters import Conditions, Span
from hopline.explorer.questions.asking import Row, ask, ask_if_there, has
from hopline.explorer.questions.clocks import offsets
from hopline.query.tables import Tables

SHOWN = 6
PERCENTILES = ("p50", "p95", "p99")
MOST_BUCKETS = 60
ENDINGS = ("expired", "unroutable", "rejected", "overflow", "hop_limit", "failed")
CAME_IN = ("submitted", "received", "copies")
WENT_OUT = ("delivered", "sent", *ENDINGS)
# Lengths of a bar in a chart over time, in seconds: what a clock shows.
_LENGTHS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200)
_LENGTHS_OF_DAYS = (10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000, 31_536_000)
_CORRECTED = "duration_us - coalesce(skew_us, 0)"


@dataclass(frozen=True, slots=True)
class Overview:
    """What the overview shows. Rows are as the queries below name their columns."""

    totals: Row
    outcomes: list[Row]
    bucket_us: int
    by_time: list[Row]  # bucket, outcome, count
    latency: list[Row]  # bucket, percentile, us
    balance: Row
    lost: list[Row]
    callbacks: list[Row]
    worst_flows: list[Row]
    worst_handlers: list[Row]
    worst_edges: list[Row]
    incidents: list[Row]
    rejects: list[Row]


def overview(tables: Tables, span: Span) -> Overview:
    """Return the overview of a span of time. Flows are many: of them no more columns are read than are shown."""
    flows = Conditions().within(span, "start_ts")
    (times,) = ask(
        tables,
        "flows",
        f"select min(start_ts) as first, max(start_ts) as last from flows where {flows.sql}",  # noqa: S608
        flows.values,
    )
    bucket_us = bucket_length_us(times["first"], times["last"])
    counts = _counts_by_time(tables, flows, bucket_us)
    return Overview(
        totals=times | _totals(tables, flows, counts),
        outcomes=_by_outcome(counts),
        bucket_us=bucket_us,
        by_time=[_with_time(row, bucket_us) for row in counts if row["bucket"] is not None],
        latency=_latency(tables, flows, bucket_us),
        balance=_balance(tables, span),
        lost=_lost(tables, span),
        callbacks=_callbacks(tables, span),
        worst_flows=_worst_flows(tables, flows),
        worst_handlers=worst_handlers(tables, span, SHOWN),
        worst_edges=_worst_edges(tables, span),
        incidents=_counts(tables, "incidents", "offence", span),
        rejects=_counts(tables, "rejects", "code", span),
    )


def _counts_by_time(tables: Tables, flows: Conditions, bucket_us: int) -> list[Row]:
    return ask(
        tables,
        "flows",
        f"""select epoch_us(start_ts) // {bucket_us} * {bucket_us} as bucket, outcome, count(*) as count,
        sum(messages) as messages, sum(records) as records, sum(hops) as hops, sum(bytes) as bytes
        from flows where {flows.sql} group by all order by bucket, outcome""",  # noqa: S608
        flows.values,
    )


def _by_outcome(counts: Sequence[Row]) -> list[Row]:
    by_outcome: dict[str | None, int] = {}
    for row in counts:
        by_outcome[row["outcome"]] = by_outcome.get(row["outcome"], 0) + row["count"]
    ordered = sorted(by_outcome.items(), key=lambda one: (-one[1], one[0] or ""))
    return [{"outcome": outcome, "count": count} for outcome, count in ordered]


def _latency(tables: Tables, flows: Conditions, bucket_us: int) -> list[Row]:
    rows = ask(
        tables,
        "flows",
        f"""select epoch_us(start_ts) // {bucket_us} * {bucket_us} as bucket,
        quantile_disc({_CORRECTED}, [0.5, 0.95, 0.99]) as percentiles
        from flows where {flows.sql} and start_ts is not null and duration_us is not null
        group by all order by bucket""",  # noqa: S608
        flows.values,
    )
    return [
        _with_time({"bucket": row["bucket"], "percentile": name, "us": us}, bucket_us)
        for row in rows
        for name, us in zip(PERCENTILES, row["percentiles"], strict=True)
    ]


def bucket_length_us(first: datetime | None, last: datetime | None) -> int:
    """Return the length of a bar in a chart from one time to another, such that there are not too many."""
    seconds = (last - first).total_seconds() if first and last else 0.0
    for length in (*_LENGTHS, *_LENGTHS_OF_DAYS):
        if seconds / length <= MOST_BUCKETS:
            return int(length * 1_000_000)
    return int(seconds / MOST_BUCKETS * 1_000_000)


def _with_time(row: Row, bucket_us: int) -> Row:
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["bucket"])
    return row | {"start": start, "end": start + timedelta(microseconds=bucket_us)}


def _totals(tables: Tables, flows: Conditions, counts: Sequence[Row]) -> Row:
    (row,) = ask(
        tables,
        "flows",
        f"select quantile_disc({_CORRECTED}, [0.5, 0.95, 0.99]) as percentiles from flows where {flows.sql}",  # noqa: S608
        flows.values,
    )
    totals = {name: sum(count[name] or 0 for count in counts) for name in ("messages", "records", "hops", "bytes")}
    totals["flows"] = sum(count["count"] for count in counts)
    totals["incomplete"] = sum(count["count"] for count in counts if count["outcome"] != "complete")
    return totals | dict(zip(PERCENTILES, row["percentiles"] or [None] * len(PERCENTILES), strict=True))


def _balance(tables: Tables, span: Span) -> Row:
    """Return how many messages came into the nodes and went out of them, over all nodes and hours."""
    hours = Conditions().within(_whole_hours(span), "hour")
    columns = ", ".join(
        f"coalesce(sum({name}), 0) as {name}"
        for name in (*CAME_IN, *WENT_OUT, "balance", "dropped", "missing", "records", "rejects")
    )
    rows = ask_if_there(
        tables,
        "audit",
        f"""select {columns}, count(*) as hours, count(*) filter (balanced is false) as unbalanced,
        count(*) filter (balanced is null) as unknown,
        coalesce(bool_or(provisional), false) as provisional from audit where {hours.sql}""",  # noqa: S608
        hours.values,
    )
    return rows[0] if rows else {}


def _whole_hours(span: Span) -> Span:
    """Return a span that begins with an hour: the audit counts by hours."""
    start = span.start.replace(minute=0, second=0, microsecond=0) if span.start else None
    return Span(start, span.end)


def _lost(tables: Tables, span: Span) -> list[Row]:
    windows = Conditions().within(span, "window_start").add("kind = 'physical' and lost > 0")
    return ask_if_there(
        tables,
        "edges",
        f"""select source as from_node, target as to_node, sum(lost) as lost, sum(count) as count,
        sum(sum(lost)) over () as total from edges
        where {windows.sql} group by all order by lost desc, from_node, to_node limit {SHOWN}""",  # noqa: S608
        windows.values,
    )


def _callbacks(tables: Tables, span: Span) -> list[Row]:
    # Without a time of asking (only other nodes saw the request) a row belongs to its day.
    asked = Conditions().within(span, "coalesce(asked_ts, date::timestamptz)")
    return ask_if_there(
        tables,
        "callbacks",
        f"""select outcome, count(*) as count from callbacks where {asked.sql} and asked_again is not true
        group by all order by count desc""",  # noqa: S608
        asked.values,
    )


def _worst_flows(tables: Tables, flows: Conditions) -> list[Row]:
    """Return those that did not complete, the slowest first, and then the slowest of the others."""
    worst: list[Row] = []
    for condition in ("outcome <> 'complete'", "outcome = 'complete'"):
        if len(worst) < SHOWN:
            worst += ask(
                tables,
                "flows",
                f"""select flow_id, outcome, identity, origin, messages, start_ts, duration_us, skew_us,
                {_CORRECTED} as corrected_us from flows where {flows.sql} and {condition}
                order by corrected_us desc nulls last limit {SHOWN - len(worst)}""",  # noqa: S608
                flows.values,
            )
    return worst


def worst_handlers(tables: Tables, span: Span, limit: int) -> list[Row]:
    """Return the slowest handlers, over all nodes: percentiles are those of the worst window."""
    windows = Conditions().within(span, "window_start")
    return ask_if_there(
        tables,
        "handlers",
        f"""select actor_name, handler, identity, sum(count)::bigint as count, sum(errors)::bigint as errors,
        count(distinct node) as nodes, max(run_p99_us) as run_p99_us, max(wait_p99_us) as wait_p99_us,
        coalesce(bool_or(provisional), false) as provisional
        from handlers where {windows.sql} group by all
        order by sum(errors) > 0 desc, max(run_p99_us) desc nulls last, identity limit {limit}""",  # noqa: S608
        windows.values,
    )


def _worst_edges(tables: Tables, span: Span) -> list[Row]:
    windows = Conditions().within(span, "window_start").add("kind = 'logical'")
    return ask_if_there(
        tables,
        "edges",
        f"""with {offsets(tables)} select source_name, target_name, identity, sum(count)::bigint as count,
        sum(errors)::bigint as errors, quantile_disc(transit_p95_us - coalesce(offset_us, 0), 0.5) as p95_us,
        coalesce(bool_or(provisional), false) as provisional
        from edges left join offsets using (date, source_node, target_node)
        where {windows.sql} group by all order by sum(errors) desc, p95_us desc nulls last limit {SHOWN}""",  # noqa: S608
        windows.values,
    )


def _counts(tables: Tables, name: str, column: str, span: Span) -> list[Row]:
    if not has(tables, name):
        return []
    rows = Conditions().within(span, "ts")
    return ask(
        tables,
        name,
        f"""select {column} as name, count(*) as count from {name} where {rows.sql}
        group by all order by count desc, name""",  # noqa: S608
        rows.values,
    )
