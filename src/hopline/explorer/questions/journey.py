"""One journey: its flows, its records, its hops, and where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from hopline.explorer.parameters import EVER, Conditions, Span
from hopline.explorer.questions.asking import Row, ask, ask_if_there, has
from hopline.explorer.questions.clocks import Offset, offsets_from, pairs_of_day
from hopline.explorer.questions.search import ids_beginning
from hopline.query.tables import Tables

MOST_FLOWS = 200
MOST_RECORDS = 2_000
LISTED = 5
# Records of a flow lie between its start and its end, each by a clock of its own; answers may come later.
SLACK = timedelta(minutes=10)
_DAY_US = 86_400_000_000
_FLOW_COLUMNS = """flow_id, parent_flow_id, journey_id, start_ts, end_ts, duration_us, origin, identity, messages,
    records, hops, nodes, bytes, depth, outcome, skew_us, skew_bound_us, provisional, 1 as flows, date"""


@dataclass(frozen=True, slots=True)
class Journey:
    """All that is known of a journey. A flow that no handler sent anything further in is a journey of one flow."""

    id: str
    asked_for: str  # the flow that the address names
    whole: Row  # its row of journeys, or of flows
    flows: list[Row]
    has_more_flows: bool
    records: list[Row]
    has_more_records: bool
    hops: list[Row]
    callbacks: list[Row]
    incidents: list[Row]
    clocks: dict[str, Offset]  # by node, from the clock of the first node


@dataclass(frozen=True, slots=True)
class Several:
    """The flows whose ids begin as the address says: none, or more than one."""

    beginning: str
    ids: list[str]


def journey(tables: Tables, beginning: str) -> Journey | Several:
    """Return the journey of the flow whose id is, or begins with, some characters."""
    asked_for = _flow(tables, beginning)
    if asked_for is None:
        ids = ids_beginning(tables, beginning, LISTED + 1)
        if len(ids) != 1:
            return Several(beginning, ids)
        asked_for = _flow(tables, ids[0])
    if asked_for is None:
        return Several(beginning, [])
    journey_id = asked_for["journey_id"] or asked_for["flow_id"]
    whole = _whole(tables, journey_id)
    flows = [asked_for]
    if whole is not None or journey_id != asked_for["flow_id"] or not has(tables, "journeys"):
        flows = _flows_of_journey(tables, journey_id, asked_for["date"]) or flows
    if whole is None:
        whole = next((flow for flow in flows if flow["flow_id"] == journey_id), asked_for)
    return _with_records(tables, journey_id, asked_for, whole, flows)


def _with_records(tables: Tables, journey_id: str, asked_for: Row, whole: Row, flows: list[Row]) -> Journey:
    shown = flows[:MOST_FLOWS]
    flow_ids = [flow["flow_id"] for flow in shown]
    times = [time for flow in shown for time in (flow["start_ts"], flow["end_ts"]) if time is not None]
    first, last = (min(times), max(times)) if times else (None, None)
    pairs = pairs_of_day(tables, asked_for["date"])
    records = _records(tables, flow_ids, _span_of_records(first, last, pairs))
    reference = whole["origin"] or (records[0]["node"] if records else "")
    return Journey(
        id=journey_id,
        asked_for=asked_for["flow_id"],
        whole=whole,
        flows=shown,
        has_more_flows=len(flows) > MOST_FLOWS,
        records=records[:MOST_RECORDS],
        has_more_records=len(records) > MOST_RECORDS,
        hops=_hops(tables, flow_ids, first, last),
        callbacks=_callbacks(tables, flow_ids, first, last),
        incidents=_incidents(tables, flow_ids, first, last),
        clocks={one.node: one for one in offsets_from(pairs, reference)},
    )


def _span_of_records(first: datetime | None, last: datetime | None, pairs: Sequence[Row]) -> Span:
    """Return the time in which records of flows are looked for, by any clock: it tells which parts of files to skip."""
    if first is None or last is None:
        return EVER
    apart_us = max((abs(pair["offset_us"]) for pair in pairs if pair["offset_us"] is not None), default=0)
    slack = SLACK + timedelta(microseconds=min(apart_us, _DAY_US))
    return Span(first - slack, last + slack)


def _flow(tables: Tables, flow_id: str) -> Row | None:
    query = f"select {_FLOW_COLUMNS}, critical_path from flows where flow_id = ? limit 1"  # noqa: S608 - our columns
    rows = ask(tables, "flows", query, [flow_id])
    return rows[0] if rows else None


def _flows_of_journey(tables: Tables, journey_id: str, day: date | None) -> list[Row]:
    """Return the flows of a journey: those that began within a day of the one that was asked for.

    Their critical paths are left out: to find a few rows by another column than the id, DuckDB unpacks that one whole.
    """
    conditions = Conditions().add("journey_id = ?", journey_id)
    if day is not None:
        conditions.add("date between ? and ?", day - timedelta(days=1), day + timedelta(days=1))
    return ask(
        tables,
        "flows",
        f"""select {_FLOW_COLUMNS} from flows where {conditions.sql}
        order by start_ts, flow_id limit {MOST_FLOWS + 1}""",  # noqa: S608
        conditions.values,
    )


def _whole(tables: Tables, journey_id: str) -> Row | None:
    rows = ask_if_there(
        tables,
        "journeys",
        """select journey_id, start_ts, end_ts, duration_us, origin, identity, flows, depth, messages, hops, nodes,
        bytes, outcome, outcome_flow_id, skew_us, skew_bound_us, provisional, critical_path, date from journeys
        where journey_id = ? limit 1""",
        [journey_id],
    )
    return rows[0] if rows else None


def _of_flows(flow_ids: list[str], first: datetime | None, last: datetime | None) -> Conditions:
    """Return the condition for rows of some flows. A list of values that is known beforehand skips parts of files."""
    if len(flow_ids) == 1:
        conditions = Conditions().add("flow_id = ?", *flow_ids)
    else:
        places = ", ".join("?" for _ in flow_ids)
        conditions = Conditions().add(f"flow_id in ({places})", *flow_ids)
    if first is not None and last is not None:
        conditions.add("date between ? and ?", (first - SLACK).date(), (last + SLACK).date())
    return conditions


def _records(tables: Tables, flow_ids: list[str], span: Span) -> list[Row]:
    conditions = _of_flows(flow_ids, None, None).within(span, "ts")
    return ask_if_there(
        tables,
        "messages",
        f"""select date, ts, seq, node, event, peer, local_receiver, receiver_name, handler, cause, duration_us, reason,
        flow_id, identity, version, partition, hops, wire_format, bytes, message_id, callback_key, verdict, segment
        from messages where {conditions.sql} order by ts, node, seq limit {MOST_RECORDS + 1}""",  # noqa: S608
        conditions.values,
    )


def _hops(tables: Tables, flow_ids: list[str], first: datetime | None, last: datetime | None) -> list[Row]:
    conditions = _of_flows(flow_ids, first, last)
    return ask_if_there(
        tables,
        "hops",
        f"""select flow_id, from_node, to_node, identity, hops, bytes, sent_ts, received_ts, sent_seq, received_seq,
        transit_us, skew_us, skew_bound_us, lost, duplicate, rejected, message_id from hops
        where {conditions.sql} order by coalesce(sent_ts, received_ts), hops limit {MOST_RECORDS}""",  # noqa: S608
        conditions.values,
    )


def _callbacks(tables: Tables, flow_ids: list[str], first: datetime | None, last: datetime | None) -> list[Row]:
    conditions = _of_flows(flow_ids, first, last)
    return ask_if_there(
        tables,
        "callbacks",
        f"""select flow_id, asked_node, asked_receiver, identity, asked_ts, ttl_us, attempt, answer_identity,
        answered_by, answered_ts, latency_us, outcome from callbacks
        where {conditions.sql} order by asked_ts limit {MOST_FLOWS}""",  # noqa: S608
        conditions.values,
    )


def _incidents(tables: Tables, flow_ids: list[str], first: datetime | None, last: datetime | None) -> list[Row]:
    conditions = _of_flows(flow_ids, first, last)
    return ask_if_there(
        tables,
        "incidents",
        f"""select date, ts, node, seq, peer, offence, domain, flow_id, identity from incidents
        where {conditions.sql} order by ts limit {MOST_FLOWS}""",  # noqa: S608
        conditions.values,
    )
