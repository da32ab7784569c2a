"""Callbacks that were not answered, incidents, rejects and the audit: counts, and rows."""

from __future__ import annotations

from dataclasses import dataclass

from hopline.explorer.parameters import Conditions, Span
from hopline.explorer.questions.asking import Row, ask
from hopline.query.tables import Tables


@dataclass(frozen=True, slots=True)
class Listed:
    """Some rows of a table, and how many there are by what matters most in it."""

    counts: list[Row]  # name, count
    rows: list[Row]
    has_more: bool


def callbacks(tables: Tables, outcome: str, span: Span, limit: int, offset: int) -> Listed:
    """Return the last attempts of requests that were not answered in time, or with one outcome, the newest first."""
    within = Conditions().within(span, "coalesce(asked_ts, date::timestamptz)").add("asked_again is not true")
    return _listed(
        tables,
        "callbacks",
        """flow_id, asked_node, asked_receiver, identity, asked_ts, ttl_us, attempt, answer_identity,
        answered_by, latency_us, outcome""",
        within,
        ("outcome", outcome, "outcome not in ('answered', 'exception')"),
        "asked_ts desc nulls last, flow_id",
        limit,
        offset,
    )


def incidents(tables: Tables, offence: str, span: Span, limit: int, offset: int) -> Listed:
    """Return messages that were forged, mislabelled, replayed or not signed, the newest first."""
    columns = "date, ts, node, seq, peer, offence, domain, flow_id, identity, version, partition, message_id"
    within = Conditions().within(span, "ts")
    return _listed(tables, "incidents", columns, within, ("offence", offence, "true"), "ts desc", limit, offset)


def rejects(tables: Tables, code: str, span: Span, limit: int, offset: int) -> Listed:
    """Return records that could not be decoded, the newest first."""
    columns = "date, ts, node, seq, peer, event, code, frame_index, detail, len(frames) as frames, segment"
    within = Conditions().within(span, "ts")
    return _listed(tables, "rejects", columns, within, ("code", code, "true"), "ts desc", limit, offset)


def audit(tables: Tables, node: str, span: Span, limit: int, offset: int) -> Listed:
    """Return hours of nodes: those that are not balanced, or lack records, first."""
    columns = """node, hour, records, dropped, missing, rejects, submitted, received, sent, delivered, handled,
        resolved, expired, unroutable, rejected, overflow, hop_limit, failed, copies, balance, balanced, provisional"""
    within = Conditions().within(span, "hour")
    order = "balanced is not false, dropped + missing = 0, hour desc, node"
    return _listed(tables, "audit", columns, within, ("node", node, "true"), order, limit, offset)


def _listed(
    tables: Tables,
    table: str,
    columns: str,
    within: Conditions,
    choice: tuple[str, str, str],
    order: str,
    limit: int,
    offset: int,
) -> Listed:
    column, value, otherwise = choice
    counts = ask(
        tables,
        table,
        f"""select {column} as name, count(*) as count from {table} where {within.sql}
        group by all order by count desc, name limit 100""",  # noqa: S608
        within.values,
    )
    chosen = Conditions([*within.parts], [*within.values])
    if value:
        chosen.add(f"{column} = ?", value)
    else:
        chosen.add(otherwise)
    rows = ask(
        tables,
        table,
        f"select {columns} from {table} where {chosen.sql} order by {order} limit {limit + 1} offset {offset}",  # noqa: S608
        chosen.values,
    )
    return Listed(counts, rows[:limit], len(rows) > limit)
