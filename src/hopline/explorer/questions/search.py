"""Search: flows and journeys by what is known of them.

A flow is found by columns of its own row where that is possible. What only its records know (a node on the way, an
actor, a text in a body) selects flows by their records: these are read last, and only those of the time in question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hopline.explorer.parameters import EVER, Conditions, Span
from hopline.explorer.questions.asking import Row, ask, ask_if_there, has
from hopline.query.tables import Tables

FLOWS = "flows"
JOURNEYS = "journeys"
INCOMPLETE = "incomplete"
SORTS = {
    "newest": "start_ts desc nulls last",
    "oldest": "start_ts asc nulls last",
    "slowest": "corrected_us desc nulls last",
    "fastest": "corrected_us asc nulls last",
    "largest": "messages desc nulls last",
}
_CORRECTED = "duration_us - coalesce(skew_us, 0)"
_LAST_CHARACTER = "\U0010ffff"  # sorts behind whatever may follow a beginning
_KINDS = ("\0", "\1")  # the first byte of the identity of a hub or an actor


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is searched for; empty parts are not looked at."""

    kind: str = FLOWS
    id: str = ""  # or its beginning
    identity: str = ""
    node: str = ""  # or its beginning
    actor: str = ""  # identity, class or handler
    outcome: str = ""
    least_us: int | None = None
    most_us: int | None = None
    body: str = ""
    span: Span = EVER


@dataclass(frozen=True, slots=True)
class Found:
    """Some of the flows or journeys that were searched for."""

    rows: list[Row]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Choices:
    """What the form offers: outcomes and kinds of first messages that there are, and whether there are bodies."""

    outcomes: list[str]
    identities: list[str]
    has_bodies: bool


def search(tables: Tables, wanted: Wanted, sort: str, limit: int, offset: int) -> Found:
    """Return flows or journeys, sorted."""
    is_journey = wanted.kind == JOURNEYS
    key = "journey_id" if is_journey else "flow_id"
    conditions = _conditions(tables, wanted, key)
    count = "flows" if is_journey else "1 as flows"
    others = "journey_id as flow_id, " if is_journey else "flow_id, "
    rows = ask(
        tables,
        wanted.kind,
        f"""select {others}journey_id, start_ts, identity, origin, outcome, messages, hops, nodes, {count}, duration_us,
        skew_us, skew_bound_us, {_CORRECTED} as corrected_us from {wanted.kind}
        where {conditions.sql} order by {SORTS[sort]}, {key} limit {limit + 1} offset {offset}""",  # noqa: S608
        conditions.values,
    )
    has_more = len(rows) > limit
    return Found(rows[:limit], has_more)


def choices(tables: Tables) -> Choices:
    """Return what the form offers."""
    outcomes = ask(
        tables,
        FLOWS,
        "select distinct outcome from flows where outcome is not null order by outcome limit 20",
    )
    identities = ask(
        tables,
        FLOWS,
        """select identity from flows where identity is not null and length(identity) <= 200
        group by identity order by count(*) desc limit 100""",
    )
    return Choices(
        [row["outcome"] for row in outcomes],
        sorted(row["identity"] for row in identities),
        _has_bodies(tables),
    )


def ids_beginning(tables: Tables, beginning: str, limit: int) -> list[str]:
    """Return the flows whose ids begin with some characters."""
    conditions = is_id("flow_id", beginning)
    query = f"select distinct flow_id from flows where {conditions.sql} order by 1 limit {limit}"  # noqa: S608
    rows = ask(tables, FLOWS, query, conditions.values)
    return [row["flow_id"] for row in rows]


def is_id(column: str, text: str) -> Conditions:
    """Return the condition that an id begins with a text.

    If the text has an ellipsis, as on pages, the id begins with what is before it and ends with what is after it.
    """
    beginning, ellipsis, end = text.partition("…")
    conditions = begins_with(column, beginning)
    if ellipsis:
        conditions.add(f"ends_with({column}, ?)", end)
    return conditions


def begins_with(column: str, beginning: str) -> Conditions:
    """Return the condition that a text begins with another one, as a range, by which DuckDB skips parts of files."""
    end = beginning + _LAST_CHARACTER
    return Conditions().add(f"{column} >= ? and {column} < ?", beginning, end)


def _conditions(tables: Tables, wanted: Wanted, key: str) -> Conditions:
    conditions = Conditions().within(wanted.span, "start_ts")
    if wanted.id:
        by_id = is_id(key, wanted.id)
        conditions.add(by_id.sql, *by_id.values)
    if wanted.identity:
        conditions.add("identity = ? or contains(lower(identity), lower(?))", wanted.identity, wanted.identity)
    if wanted.outcome == INCOMPLETE:
        conditions.add("outcome <> 'complete'")
    elif wanted.outcome:
        conditions.add("outcome = ?", wanted.outcome)
    if wanted.least_us is not None:
        conditions.add(f"{_CORRECTED} >= ?", wanted.least_us)
    if wanted.most_us is not None:
        conditions.add(f"{_CORRECTED} <= ?", wanted.most_us)
    for records in _by_records(tables, wanted):
        ask(tables, "messages", "select 1 from messages limit 0")  # whose columns are checked by that
        selected = f"select flow_id from messages where {records.sql}"  # noqa: S608
        if key == "journey_id":
            selected = f"select journey_id from flows where flow_id in ({selected})"  # noqa: S608
        conditions.add(f"{key} in ({selected})", *records.values)
    return conditions


def _by_records(tables: Tables, wanted: Wanted) -> Iterator[Conditions]:
    """Return conditions on records; a flow must have a record for each of them."""
    # A flow goes on after it began: no end, and the day is enough of a start.
    of_flows = Conditions().add("flow_id is not null")
    if wanted.span.start is not None:
        of_flows.add("date >= ?", wanted.span.start.date())
    if wanted.node:
        yield both(of_flows, begins_with("node", wanted.node))
    if wanted.actor:
        yield both(of_flows, _is_actor(tables, wanted.actor))
    if wanted.body:
        # As text both are escaped alike, whatever bytes are in them.
        has_text = "len(list_filter(bodies, lambda body: contains(body::varchar, ?::blob::varchar))) > 0"
        yield both(of_flows, Conditions().add(has_text, wanted.body.encode()))


def _is_actor(tables: Tables, actor: str) -> Conditions:
    """Return the condition that a record is of an actor: by its class, a handler, or the beginning of its identity.

    The small table of handlers shows which of these the text is, because a condition on one column is much faster than
    alternatives on several.
    """
    class_name, _, handler = actor.partition(".")
    by_name = (
        Conditions().add("receiver_name = ?", actor),
        Conditions().add("receiver_name = ? and handler = ?", class_name, handler),
        Conditions().add("handler = ?", actor),
    )
    for conditions in by_name:
        of_handlers = conditions.sql.replace("receiver_name", "actor_name")
        query = f"select 1 from handlers where {of_handlers} limit 1"  # noqa: S608 - bound values
        if ask_if_there(tables, "handlers", query, conditions.values):
            return conditions.add("event = 'delivered'")
    by_identity = [begins_with("local_receiver", kind + actor) for kind in ("", *_KINDS)]
    alternatives: list[str] = []
    values: list[Any] = []
    for conditions in (*by_name, *by_identity):
        alternatives.append(conditions.sql)
        values += conditions.values
    return Conditions().add(" or ".join(alternatives), *values)


def both(first: Conditions, second: Conditions) -> Conditions:
    """Return two conditions as one."""
    return Conditions(
        parts=first.parts + second.parts,
        values=first.values + second.values,
    )


def _has_bodies(tables: Tables) -> bool:
    """Return whether the tables have the bodies of messages, which a run leaves out by default."""
    if not has(tables, "messages"):
        return False
    return bool(ask(tables, "messages", "select 1 from messages where bodies is not null limit 1"))
