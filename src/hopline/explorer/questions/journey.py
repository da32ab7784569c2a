"""One journey: its flows, its records, its hops, and where the time went."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from hopline.explorer.parameters import Conditions
from hopline.explorer.questions.asking import Row, ask, ask_if_there
from hopline.explorer.questions.clocks import Offset, offsets_from, pairs_of_day
from hopline.explorer.questions.search import ids_beginning
from hopline.query.tables import Tables

MOST_FLOWS = 200
MOST_RECORDS = 2_000
LISTED = 5
# Records of a flow lie between its start and its end, each by a clock of its own, and answers may come later.
SLACK = timedelta(hours=1)


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
    ids = ids_beginning(tables, beginning, LISTED + 1)
    if beginning not in ids and len(ids) != 1:
        return Several(beginning, ids)
    flow_id = beginning if beginning in ids else ids[0]
    (asked_for, *_) = ask(
        tables, "flows", "select flow_id, journey_id, date, start_ts from flows where flow_id = ?", [flow_id]
    )
    journey_id = asked_for["journey_id"] or flow_id
    flows = _flows(tables, journey_id, asked_for["date"]) or _flows(tables, flow_id, None)
    whole = _whole(tables, journey_id) or next(
        (flow for flow in flows if flow["flow_id"] == journey_id), flows[0] if flows else asked_for
    )
    shown = flows[:MOST_FLOWS]
    flow_ids = [flow["flow_id"] for flow in shown]
    times = [time for flow in shown for time in (flow["start_ts"], flow["end_ts"]) if time is not None]
    first, last = (min(times), max(times)) if times else (None, None)
    records = _records(tables, flow_ids, first, last)
    nodes = whole["origin"] or (records[0]["node"] if records else "")
    return Journey(
        id=journey_id,
        asked_for=flow_id,
        whole=whole,
        flows=shown,
        has_more_flows=len(flows) > MOST_FLOWS,
        records=records[:MOST_RECORDS],
        has_more_records=len(records) > MOST_RECORDS,
        hops=_hops(tables, flow_ids, first, last),
        callbacks=_callbacks(tables, flow_ids, first, last),
        incidents=_incidents(tables, flow_ids, first, last),
        clocks={one.node: one for one in offsets_from(pairs_of_day(tables, asked_for["date"]), nodes)},
    )


def _flows(tables: Tables, journey_id: str, day: date | None) -> list[Row]:
    """Return the flows of a journey: those that began within a day of the one that was asked for."""
    conditions = Conditions().add("journey_id = ? or flow_id = ?", journey_id, journey_id)
    if day is not None:
        conditions.add("date between ? and ?", day - timedelta(days=1), day + timedelta(days=1))
    return ask(
        tables,
        "flows",
        f"""select flow_id, parent_flow_id, journey_id, start_ts, end_ts, duration_us, origin, identity, messages,
        records, hops, nodes, bytes, depth, outcome, skew_us, skew_bound_us, critical_path, 1 as flows, date from flows
        where {conditions.sql} order by start_ts, flow_id limit {MOST_FLOWS + 1}""",  # noqa: S608
        conditions.values,
    )


def _whole(tables: Tables, journey_id: str) -> Row | None:
    rows = ask_if_there(
        tables,
        "journeys",
        """select journey_id, start_ts, end_ts, duration_us, origin, identity, flows, depth, messages, hops, nodes,
        bytes, outcome, outcome_flow_id, skew_us, skew_bound_us, critical_path, date from journeys
        where journey_id = ?""",
        [journey_id],
    )
    return rows[0] if rows else None


def _of_flows(flow_ids: list[str], first: datetime | None, last: datetime | None) -> Conditions:
    """Return the condition for rows of some flows. A list of values that is known beforehand skips parts of files."""
    places = ", ".join("?" for _ in flow_ids)
    conditions = Conditions().add(f"flow_id in ({places})", *flow_ids) if flow_ids else Conditions().add("false")
    if first is not None and last is not None:
        conditions.add("date between ? and ?", (first - SLACK).date(), (last + SLACK).date())
    return conditions


def _records(tables: Tables, flow_ids: list[str], first: datetime | None, last: datetime | None) -> list[Row]:
    conditions = _of_flows(flow_ids, first, last)
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
        f"""select flow_id, asked_node, asked_receiver, identity, asked_ts, ttl_us, answer_identity, answered_by,
        answered_ts, latency_us, outcome from callbacks where {conditions.sql} order by asked_ts limit {MOST_FLOWS}""",  # noqa: S608
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
