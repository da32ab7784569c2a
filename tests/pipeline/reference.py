"""Callbacks and flows once more, in plain Python and one record at a time, as docs/reference/pipeline.md words them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

from hopline.capture.records import ENDINGS
from tests.pipeline.rows import START, Row
from tests.pipeline.traffic import EXCEPTION, RECEIPT

OFFENCES = ("bad_signature", "wrong_domain", "unknown_domain", "replayed")
COMES_HOME = ("received", "delivered", "resolved")


def us(row: Row) -> int:
    since: timedelta = row["ts"] - START
    return since // timedelta(microseconds=1)


def trail(row: Row) -> int:
    return max(int(row["hops"]), len(row["routing"]))


def order(row: Row) -> tuple[int, int, str, int]:
    return trail(row), us(row), row["node"], row["seq"]


def kind(row: Row) -> Row:
    return {name: row[name] for name in ("identity", "version", "partition")}


def is_reply(row: Row) -> bool:
    return (
        kind(row) in row["callbacks"]
        and row["receiver"] == row["callback_receiver"] != ""
        and row["receiver_node"] == row["callback_receiver_node"]
    )


def may_begin(row: Row) -> bool:
    return row["identity"] not in (EXCEPTION, RECEIPT) and (row["event"] == "submitted" or not is_reply(row))


def is_from_waiting(row: Row) -> bool:
    return bool(row["callbacks"]) and row["local_receiver"] == row["callback_receiver"]


def waits(row: Row) -> bool:
    return bool(row["callbacks"] and row["callback_receiver"])


def waits_for_receipt(row: Row) -> bool:
    wanted = {point["identity"] for point in row["callbacks"]}
    return RECEIPT in wanted and wanted <= {RECEIPT, EXCEPTION}


def by_flow(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Give the records of each flow, without what others forged or replayed."""
    flows: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["flow_id"] is not None:
            flows[row["flow_id"]].append(row)
    for flow, records in flows.items():
        refused = {(row["node"], row["fingerprint"]) for row in records if row["verdict"] in OFFENCES}
        flows[flow] = [
            row
            for row in sorted(records, key=order)
            if row["verdict"] not in OFFENCES
            and not (row["event"] == "rejected" and (row["node"], row["fingerprint"]) in refused)
        ]
    return {flow: records for flow, records in flows.items() if records}


# -- callbacks ---------------------------------------------------------------------------------------------------------


def is_home(row: Row) -> bool:
    return row["callback_receiver_node"] in ("", row["node"])


def rank(row: Row) -> int | None:
    """Say which record of its request it may be: as it was submitted, as it left, or as it arrived."""
    if not waits(row) or not may_begin(row):
        return None
    if row["event"] == "submitted" and is_home(row) and (row["cause"] is None or is_from_waiting(row)):
        return 0
    if trail(row) <= 1 and row["event"] == "sent" and is_home(row):
        return 1
    return 2 if trail(row) <= 1 and row["event"] == "received" else None


def callbacks(rows: list[Row]) -> list[Row]:
    ends: dict[str, int] = {}
    for row in rows:
        ends[row["node"]] = max(ends.get(row["node"], 0), us(row))
    found = []
    for flow, records in by_flow(rows).items():
        keys: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
        for row in records:
            if row["callbacks"] and row["callback_receiver"]:
                keys[row["callback_receiver_node"], row["callback_receiver"], row["callback_key"]].append(row)
        for (home, receiver, key), group in keys.items():
            one = callback(group, home, ends)
            if one:
                found.append(one | {"flow_id": flow, "asked_receiver": receiver, "callback_key": key})
    for one in found:
        one["asked_again"] = any(
            other["callback_key"] > one["callback_key"] and other["attempt"] > one["attempt"]
            for other in found
            if is_same_request(one, other)
        )
    return found


def is_same_request(one: Row, other: Row) -> bool:
    return all(one[name] == other[name] for name in ("flow_id", "asked_node", "asked_receiver", "identity"))


def callback(group: list[Row], home: str, ends: dict[str, int]) -> Row | None:
    ranked = [(rank(row), order(row), number) for number, row in enumerate(group)]
    requests = [(first, by, number) for first, by, number in ranked if first is not None]
    if not requests:
        return None
    request = group[min(requests)[2]]
    asked_node = home or (request["peer"] if request["event"] == "received" else request["node"])
    answers = [
        row
        for row in group
        if is_reply(row)
        and row["node"] == asked_node
        and row["event"] in COMES_HOME
        and (row["identity"] != RECEIPT or waits_for_receipt(request))
    ]
    answer = min(answers, key=lambda row: (us(row), row["seq"])) if answers else None
    is_from_home = request["node"] == asked_node
    ttl = request["ttl_us"]
    latency = us(answer) - us(request) if answer and is_from_home else None
    is_taken = any(row["event"] == "resolved" for row in answers)
    if latency is not None and 0 < ttl < latency and not is_taken:
        outcome = "late"
    elif answer:
        outcome = "exception" if answer["identity"] == EXCEPTION else "answered"
    elif any(row["event"] == "expired" for row in group):
        outcome = "expired"
    else:
        is_over = is_from_home and 0 < ttl < ends[asked_node] - us(request)
        outcome = "expired" if is_over else "unanswered"
    return {
        "asked_node": asked_node,
        "identity": request["identity"],
        "asked_ts": request["ts"] if is_from_home else None,
        "ttl_us": ttl,
        "attempt": request["attempt"],
        "answer_identity": answer and answer["identity"],
        "answered_ts": answer and answer["ts"],
        "latency_us": latency,
        "outcome": outcome,
    }


# -- flows -------------------------------------------------------------------------------------------------------------

Deliveries = dict[tuple[str, int], list[tuple[int, str]]]
"""By node and number: when, and in which flow."""


def flows(rows: list[Row], asked: list[Row], lost: set[str]) -> list[Row]:
    outcomes: dict[str, set[str]] = defaultdict(set)
    given_up: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for one in asked:
        if one["asked_again"]:
            given_up[one["flow_id"]].add((one["asked_receiver"], one["callback_key"]))
        else:
            outcomes[one["flow_id"]].add(one["outcome"])
    grouped = by_flow(rows)
    deliveries: Deliveries = defaultdict(list)
    for flow, records in grouped.items():
        for row in records:
            if row["event"] == "delivered" and row["node"] is not None and row["seq"] is not None:
                deliveries[row["node"], row["seq"]].append((us(row), flow))
    roots = {flow: root_of(records, deliveries) for flow, records in grouped.items()}
    parent_flows = {
        flow: parent_flow(grouped[flow][root], deliveries) for flow, root in roots.items() if root is not None
    }
    found = {
        flow: flow_row(records, roots[flow], outcomes[flow], given_up[flow], is_lost=flow in lost)
        | {"flow_id": flow, "parent_flow_id": parent_flows.get(flow), "journey_id": journey(flow, parent_flows)[-1]}
        for flow, records in grouped.items()
    }
    asks: dict[str, list[Row]] = defaultdict(list)
    for flow, of in parent_flows.items():
        root = grouped[flow][roots[flow] or 0]
        for one in asked:
            if of and one["flow_id"] == flow and (one["asked_node"], one["asked_ts"]) == (root["node"], root["ts"]):
                attempts = [other for other in asked if is_same_request(one, other) and other["attempt"] > 1]
                asks[of] += wait(root, max([one, *attempts], key=lambda row: (row["attempt"], row["callback_key"])))
    for flow, row in found.items():
        row["critical_path"] = [part for stage in row["critical_path"] for part in parts(stage, asks[flow])]
    return list(found.values())


def wait(root: Row, asked: Row) -> list[Row]:
    """Say how long a handler waited for the flow that it began: for the answer, or as long as it wanted to wait.

    Args:
        root: The request as it was sent first.
        asked: How it ended, of its last attempt.
    """
    if asked["outcome"] in ("answered", "exception"):
        until = us_of(asked["answered_ts"])
    elif asked["outcome"] in ("late", "expired") and asked["ttl_us"] and asked["asked_ts"]:
        until = us_of(asked["asked_ts"]) + asked["ttl_us"]
    else:
        return []
    return [{"node": root["node"], "cause": root["cause"], "us": us(root), "until": until, "flow_id": root["flow_id"]}]


def parts(stage: Row, asks: list[Row]) -> list[Row]:
    """Divide a run into what the handler did, and what it waited for: of several at once, for the last answer."""
    seq, start = stage.pop("began")
    now = start + stage["us"]
    found: list[Row] = []
    for ask in sorted(asks, key=lambda ask: (ask["until"], ask["us"], ask["flow_id"]), reverse=True):
        is_inside = (ask["node"], ask["cause"]) == (stage["node"], seq) and ask["us"] >= start and ask["until"] <= now
        if stage["stage"] == "run" and is_inside:
            waiting = stage | {"stage": "ask", "us": ask["until"] - ask["us"], "flow_id": ask["flow_id"]}
            found = [waiting, stage | {"us": now - ask["until"]}, *found]
            now = ask["us"]
    return [stage | {"us": now - start}, *found]


def root_of(records: list[Row], deliveries: Deliveries) -> int | None:
    """Find the record that a flow begins with: for certain, or because it has a cause in another flow."""
    certain = next((number for number, row in enumerate(records) if begins(records, row)), None)
    if certain is not None:
        return certain
    submissions = (
        number
        for number, row in enumerate(records)
        if row["event"] == "submitted" and may_begin(row) and row["cause"] is not None
        if parent(records, row)[0] is None
    )
    first = next(submissions, None)
    return first if first is not None and parent_flow(records[first], deliveries) else None


def parent_flow(root: Row, deliveries: Deliveries) -> str | None:
    """Find the flow whose handling submitted the first message of another."""
    if root["event"] != "submitted" or root["cause"] is None:
        return None
    causes = [(at, flow) for at, flow in deliveries.get((root["node"], root["cause"]), ()) if flow != root["flow_id"]]
    return min(causes)[1] if causes else None


def journey(flow: str, parent_flows: dict[str, str | None]) -> list[str]:
    """List a flow and those that it comes from, up to the first; where they go round in a circle, only itself."""
    way = [flow]
    while (before := parent_flows.get(way[-1])) is not None:
        if before in way:
            return [flow]
        way.append(before)
    return way


def flow_row(
    records: list[Row], root: int | None, outcomes: set[str], given_up: set[tuple[str, int]], *, is_lost: bool
) -> Row:
    parents = [parent(records, row) for row in records]
    start = 0 if root is None else root
    last = last_event(records, parents, root)
    path: list[Row] = []
    now = last
    while now != start:
        before, stage = parents[now]
        if before is None:
            before, stage = start, "retry" if is_asked_again(records[now], records[start]) else "unseen"
        row, moved = records[now], records[before if stage == "run" else now]
        names = [moved[name] for name in ("receiver_name", "handler") if moved[name] and moved["event"] == "delivered"]
        part = {"stage": stage, "node": row["node"], "identity": moved["identity"], "us": us(row) - us(records[before])}
        part |= {"handler": ".".join(names) or None, "flow_id": None}
        path.insert(0, part | {"began": (records[before]["seq"], us(records[before]))})
        now = before
    return {
        "start_ts": records[start]["ts"],
        "end_ts": records[last]["ts"],
        "duration_us": us(records[last]) - us(records[start]),
        "origin": None if root is None else records[root]["node"],
        "identity": records[start]["identity"],
        **totals(records),
        "depth": max(depth(records, parents, number) for number in range(len(records))),
        "outcome": outcome_of(records, outcomes, given_up, is_lost=is_lost, is_orphan=root is None),
        "critical_path": path,
    }


def before(records: list[Row], row: Row, *events: str, **same: object) -> int | None:
    """Find the last record on the same node before this one that is such an event, and has the same of the named."""
    found = [
        (one["seq"], number)
        for number, one in enumerate(records)
        if one["node"] == row["node"]
        and one["seq"] < row["seq"]
        and one["event"] in events
        and all(one[name] == row[name] for name in same)
    ]
    return max(found)[1] if found else None


def parent(records: list[Row], row: Row) -> tuple[int | None, str]:
    arrival = before(records, row, "submitted", "received", message_id=True)
    taken = before(records, row, "delivered", message_id=True)
    came = before(records, row, "received", "delivered")
    match row["event"]:
        case "submitted" if row["cause"] is None:
            is_routers = row["identity"] in (EXCEPTION, RECEIPT)
            return (before(records, row, "submitted", "received", "delivered", *ENDINGS) if is_routers else None), "run"
        case "submitted":
            causes = [n for n, one in enumerate(records) if (one["node"], one["seq"]) == (row["node"], row["cause"])]
            return (causes[0] if causes else None), "run"
        case "sent":
            if arrival is None and came is not None:
                return came, "retry" if row["attempt"] > 1 and rank(row) is not None else "run"
            return (before(records, row, "sent", message_id=True) if arrival is None else arrival), "send"
        case "received":
            return sending(records, row), "transit"
        case "delivered":
            return arrival, "wait"
        case "handled":
            by_it = before(records, row, "delivered", message_id=True, local_receiver=True)
            return (by_it if by_it is not None else arrival), "run"
    return (taken if taken is not None else arrival), "wait"


def sending(records: list[Row], row: Row) -> int | None:
    def ends(event: str, node: str, peer: str) -> list[tuple[int, int, int]]:
        return sorted(
            (us(one), one["seq"], number)
            for number, one in enumerate(records)
            if (one["event"], one["node"], one["peer"]) == (event, node, peer)
            and (one["message_id"], one["fingerprint"]) == (row["message_id"], row["fingerprint"])
        )

    sent = ends("sent", row["peer"], row["node"])
    nth = [records[number] is row for *_, number in ends("received", row["node"], row["peer"])].index(True)
    return sent[min(nth, len(sent) - 1)][2] if sent else None


def begins(records: list[Row], row: Row) -> bool:
    if not may_begin(row):
        return False
    if row["event"] == "submitted":
        is_from_hub = is_from_waiting(row) or (not waits(row) and trail(row) == 0)
        return row["cause"] is None or (is_from_hub and parent(records, row)[0] is None)
    return row["event"] == "sent" and trail(row) <= 1 and parent(records, row)[0] is None


def is_asked_again(row: Row, root: Row) -> bool:
    """Say whether it is a further attempt of the request that a flow began with, where it began."""
    names = ("node", "callback_receiver_node", "callback_receiver", "identity", "version", "partition")
    is_request = rank(root) is not None and rank(row) is not None
    return is_request and row["attempt"] > 1 and all(row[name] == root[name] for name in names)


def last_event(records: list[Row], parents: list[tuple[int | None, str]], root: int | None) -> int:
    if root is not None and records[root]["callbacks"]:
        attempts = [row for row in records if is_asked_again(row, records[root])]
        asked = max(attempts, key=lambda row: (row["attempt"], row["seq"]), default=records[root])
        names = ("callback_receiver_node", "callback_receiver", "callback_key")
        answers = [
            (us(row), row["seq"], number)
            for number, row in enumerate(records)
            if is_reply(row)
            and row["event"] in COMES_HOME
            and row["node"] == asked["node"]
            and row["callback_receiver_node"] in ("", row["node"])
            and all(row[name] == asked[name] for name in names)
            and (row["identity"] != RECEIPT or waits_for_receipt(asked))
        ]
        if answers:
            return min(answers)[2]
    followed = {number for number, _ in parents}
    return max((us(row), number) for number, row in enumerate(records) if number not in followed)[1]


def depth(records: list[Row], parents: list[tuple[int | None, str]], number: int) -> int:
    count, now = 1, number
    while (before := parents[now][0]) is not None:
        count += records[before]["message_id"] != records[now]["message_id"]
        now = before
    return count


def totals(records: list[Row]) -> Row:
    by_message: dict[int, list[Row]] = defaultdict(list)
    for row in records:
        by_message[row["message_id"]].append(row)
    count = size = hops = 0
    for rows in by_message.values():
        sent = Counter((row["node"], row["peer"], row["hops"]) for row in rows if row["event"] == "sent")
        received = Counter((row["peer"], row["node"], row["hops"]) for row in rows if row["event"] == "received")
        submitted = sum(row["event"] == "submitted" for row in rows)
        copies = submitted or max(sent.values(), default=1)
        count += copies
        size += copies * min((trail(row), row["bytes"]) for row in rows)[1]
        hops += sum(sent.values()) + sum(number for link, number in received.items() if link not in sent)
    return {
        "messages": count,
        "records": len(records),
        "hops": hops,
        "nodes": len({row["node"] for row in records}),
        "bytes": size,
    }


def outcome_of(
    records: list[Row], outcomes: set[str], given_up: set[tuple[str, int]], *, is_lost: bool, is_orphan: bool
) -> str:
    events = {row["event"] for row in records}
    counting = {row["event"] for row in records if (row["callback_receiver"], row["callback_key"]) not in given_up}
    failures = counting & (set(ENDINGS) - {"expired"})
    if is_orphan:
        return "orphan"
    if "exception" in outcomes or (failures and not outcomes & {"answered", "exception", "late"}):
        return "failed"
    if not outcomes and is_lost:
        return "failed"
    if outcomes & {"expired", "late"} or (not outcomes and "expired" in events):
        return "expired"
    return "unanswered" if "unanswered" in outcomes else "complete"


# -- journeys ----------------------------------------------------------------------------------------------------------

OUTCOMES = ("complete", "orphan", "truncated", "unanswered", "expired", "failed")


def journeys(rows: list[Row], all_flows: list[Row]) -> list[Row]:
    by_id = {row["flow_id"]: row for row in all_flows}
    parent_flows = {row["flow_id"]: row["parent_flow_id"] for row in all_flows}
    nodes: dict[str, set[str]] = defaultdict(set)
    for flow, records in by_flow(rows).items():
        nodes[flow] = {row["node"] for row in records if row["event"] != "rejected" and row["node"] is not None}
    members: dict[str, list[Row]] = defaultdict(list)
    for row in all_flows:
        members[row["journey_id"]].append(row)
    found = []
    for first, flows_of_it in members.items():
        levels = {row["flow_id"]: len(journey(row["flow_id"], parent_flows)) - 1 for row in flows_of_it}
        if len(flows_of_it) == 1:
            continue
        worst = max(
            (OUTCOMES.index(row["outcome"]), levels[row["flow_id"]], -us_of(row["start_ts"]), row["flow_id"])
            for row in flows_of_it
        )
        row = by_id[first]
        found.append(
            {name: row[name] for name in ("start_ts", "end_ts", "duration_us", "origin", "identity")}
            | {name: sum(row[name] for row in flows_of_it) for name in ("messages", "hops", "bytes")}
            | {"journey_id": first, "flows": len(flows_of_it), "depth": max(levels.values()) + 1}
            | {"nodes": len(set().union(*(nodes[row["flow_id"]] for row in flows_of_it)))}
            | {"outcome": OUTCOMES[worst[0]], "outcome_flow_id": worst[-1]}
            | {"critical_path": whole_path(row, by_id)}
        )
    return found


def whole_path(flow: Row, by_id: dict[str, Row]) -> list[Row]:
    """Put the paths of the flows that were waited for into that of a flow, each stage with its flow."""
    path: list[Row] = []
    for stage in flow["critical_path"]:
        asked = by_id[stage["flow_id"]] if stage["stage"] == "ask" else None
        if asked is None or not asked["critical_path"] or asked["duration_us"] > stage["us"]:
            path.append(stage | {"flow_id": stage["flow_id"] or flow["flow_id"]})
            continue
        path += whole_path(asked, by_id)
        if rest := stage["us"] - asked["duration_us"]:
            path.append(stage | {"stage": "unanswered", "us": rest})
    return path


def us_of(moment: datetime) -> int:
    return (moment - START) // timedelta(microseconds=1)


Ends = dict[tuple[Any, ...], tuple[list[Row], list[Row]]]


def _offsets(ends: Ends) -> dict[tuple[date, str, str], timedelta]:
    """Estimate what the clock at the end of a way is ahead of that at its beginning, by day."""
    shortest: dict[tuple[date, str, str], int] = {}
    for (from_node, to_node, _), sides in ends.items():
        leaving, arriving = (sorted(side, key=lambda row: (row["ts"], row["seq"])) for side in sides)
        for left, came in zip(leaving, arriving, strict=False):
            way = left["ts"].date(), from_node, to_node
            shortest[way] = min(us(came) - us(left), shortest.get(way, us(came) - us(left)))
    offsets = {}
    for (on, one, other), there in shortest.items():
        back = shortest.get((on, other, one))
        if back is not None and one < other and (there + back + 1) // 2 >= 0:
            offset = timedelta(microseconds=(there - back + 1) // 2)
            offsets[on, one, other], offsets[on, other, one] = offset, -offset
    return offsets


def transits(rows: list[Row]) -> list[Row]:
    """Match the records the plain way."""
    ends: Ends = defaultdict(lambda: ([], []))
    last: dict[str, Any] = {}
    for row in rows:
        if row["node"] is not None:
            last[row["node"]] = max(row["ts"], last.get(row["node"], row["ts"]))
        if row["event"] in ("sent", "received") and row["node"] is not None and row["peer"] is not None:
            pair = (row["node"], row["peer"]) if row["event"] == "sent" else (row["peer"], row["node"])
            ends[(*pair, row["fingerprint"])][row["event"] == "received"].append(row)
    result = []
    offsets = _offsets(ends)
    for (from_node, to_node, _), sides in ends.items():
        leaving, arriving = (sorted(side, key=lambda row: (row["ts"], row["seq"])) for side in sides)
        for n in range(max(len(leaving), len(arriving))):
            left = leaving[n] if n < len(leaving) else None
            came = arriving[n] if n < len(arriving) else None
            first = left or came
            assert first is not None
            lost: bool | None = False
            if came is None:
                offset = offsets.get((first["ts"].date(), from_node, to_node), timedelta())
                lost = True if to_node in last and last[to_node] >= first["ts"] + offset else None
            us = round((came["ts"] - left["ts"]).total_seconds() * 1_000_000) if left and came else None
            result.append(
                {
                    "date": first["ts"].date(),
                    "flow_id": first["flow_id"],
                    "from_node": from_node,
                    "to_node": to_node,
                    "bytes": first["bytes"],
                }
                | {"message_id": first["message_id"], "fingerprint": first["fingerprint"]}
                | {"sent_ts": left and left["ts"], "sent_seq": left and left["seq"]}
                | {"received_ts": came and came["ts"], "received_seq": came and came["seq"], "transit_us": us}
                | {"lost": lost, "duplicate": left is None and bool(leaving)}
            )
    return result
