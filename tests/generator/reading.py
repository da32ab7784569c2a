"""Captures read the slow and obvious way: one record after the other, by the definitions in docs/pipeline.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hopline.capture.records import SCHEMA, shown
from hopline.message import EXCEPTION, NO_FLOW, RECEIPT, Message
from hopline.security import load_keys
from hopline.wire import RemoteError, decode, has_valid_signature
from tests.generator.domains import Domains

Row = dict[str, Any]
ENDINGS = {"unroutable", "rejected", "overflow", "hop_limit", "failed"}
OFFENCES = {"bad_signature", "wrong_domain", "unknown_domain", "replayed"}
REPORTS = {EXCEPTION.identity, RECEIPT.identity}
LIMIT = 1_000


def truth(out: Path, table: str) -> list[Row]:
    rows: list[Row] = pq.read_table(out / "truth" / f"{table}.parquet").to_pylist()
    return rows


def micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


@dataclass(eq=False)
class Record:
    row: Row
    message: Message | None
    code: str = ""
    verdict: str = ""

    @cached_property
    def ts(self) -> int:
        return micros(self.row["ts"])

    @property
    def node(self) -> str:
        return str(self.row["node"])

    @property
    def seq(self) -> int:
        return int(self.row["seq"])

    @property
    def event(self) -> str:
        return str(self.row["event"])

    @property
    def msg(self) -> Message:
        assert self.message is not None
        return self.message

    @cached_property
    def flow_id(self) -> str | None:
        raw = self.msg.correlation_id
        return None if raw in (b"", bytes(16), NO_FLOW) else shown(raw)

    @property
    def is_reply(self) -> bool:
        one = self.msg
        waiting = (one.callback_receiver_identity, one.callback_receiver_node_identity)
        return (
            one.identifier in one.callback_point
            and bool(one.receiver_identity)
            and (one.receiver_identity, one.receiver_node_identity) == waiting
        )

    @property
    def is_arrival(self) -> bool:
        return self.event in ("received", "delivered")

    @property
    def is_first_hop(self) -> bool:
        return self.rank <= 1

    @property
    def rank(self) -> int:
        return max(self.msg.hops, len(self.msg.routing))

    @cached_property
    def fingerprint(self) -> tuple[bytes, ...]:
        return tuple(self.row["frames"])

    @cached_property
    def message_id(self) -> tuple[object, ...]:
        one = self.msg
        callbacks = tuple(point for point in one.callback_point if point != RECEIPT)
        # A receipt that asks for nothing but itself has the same callbacks as one without.
        return (
            one.correlation_id,
            one.identifier,
            one.bodies,
            callbacks,
            one.callback_receiver_identity,
            one.callback_receiver_node_identity,
            one.callback_key,
        )


class Reading:
    """Everything that a capture says."""

    def __init__(self, out: Path) -> None:
        table = ds.dataset(out / "captures", format="parquet", partitioning=None).to_table()
        assert table.schema.remove_metadata().equals(SCHEMA)
        self.domains = Domains(out / "keys")
        self.keys = load_keys(out / "keys" / "keys.txt")
        self.all = [_read(row) for row in table.to_pylist()]
        self.all.sort(key=lambda one: (one.node, one.seq))
        self.records = [one for one in self.all if one.message is not None]
        self.nodes = {one.node for one in self.all}
        self.last_ts = {node: max(one.ts for one in self.all if one.node == node) for node in self.nodes}
        self._judge()
        offending = [one for one in self.records if one.verdict in OFFENCES]
        rejected = {(one.node, one.fingerprint) for one in offending}
        self.deliveries = {(one.node, one.seq): one.flow_id for one in self.records if one.event == "delivered"}
        self.flow_records: dict[str, list[Record]] = defaultdict(list)
        for one in self.records:
            is_offence = one.verdict in OFFENCES or (
                one.event == "rejected" and (one.node, one.fingerprint) in rejected
            )
            if one.flow_id is not None and not is_offence:
                self.flow_records[one.flow_id].append(one)

    # -- security ------------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        seen: set[tuple[str, tuple[bytes, ...]]] = set()
        for one in self.records:
            if one.event == "received":
                one.verdict = self._verdict(one, seen)

    def _verdict(self, one: Record, seen: set[tuple[str, tuple[bytes, ...]]]) -> str:
        message = one.msg
        if not message.signature:
            return "unsigned"
        if message.domain not in self.keys:
            return "unknown_domain"
        home = self.domains.home.get(message.identity)
        if home != message.domain and not message.identity.startswith(b"KINO."):
            return "wrong_domain"
        algorithm = self.domains.algorithms[message.domain]
        if not any(has_valid_signature(message, key.reveal(), algorithm) for key in self.keys[message.domain]):
            return "bad_signature"
        if (one.node, one.fingerprint) in seen:
            return "replayed"
        seen.add((one.node, one.fingerprint))
        return "verified"

    def incidents(self) -> set[tuple[str, int, str]]:
        return {
            (one.node, one.seq, one.verdict)
            for one in self.records
            if one.verdict in OFFENCES or (one.verdict == "unsigned" and one.msg.identity in self.domains.home)
        }

    # -- hops ----------------------------------------------------------------------------------------------------------

    @cached_property
    def hops(self) -> dict[tuple[str, str], Counter[str]]:
        sides: dict[tuple[str, str, Any], list[list[Record]]] = defaultdict(lambda: [[], []])
        for one in self.records:
            if one.event in ("sent", "received"):
                pair = (one.node, one.row["peer"])
                way = pair if one.event == "sent" else pair[::-1]
                sides[(*way, one.fingerprint)][one.event == "received"].append(one)
        found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.lost: set[tuple[str, int]] = set()
        missing: list[tuple[Record, str]] = []
        self.duplicates: set[tuple[str, int]] = set()
        self.transits: dict[tuple[str, str], list[int]] = defaultdict(list)
        for (source, target, _), (sent, received) in sides.items():
            sent.sort(key=lambda one: one.ts)
            received.sort(key=lambda one: one.ts)
            counted = found[source, target]
            counted["sent"] += len(sent)
            counted["received"] += len(received)
            self.transits[source, target] += [b.ts - a.ts for a, b in zip(sent, received, strict=False)]
            missing += [(one, target) for one in sent[len(received) :]]
            extra = received[len(sent) :]
            counted["duplicates" if sent else "unsent"] += len(extra)
            if sent:
                self.duplicates |= {(one.node, one.seq) for one in extra}
        self.unknown_as_they_are: set[tuple[str, int]] = set()  # lost, though the clocks as they are do not say so
        for one, target in missing:
            there, back = self.transits[one.node, target], self.transits[target, one.node]
            offset = (min(there) - min(back)) / 2 if there and back else 0
            watched = target in self.nodes and self.last_ts[target] >= one.ts + offset
            found[one.node, target]["lost" if watched else "unwatched"] += 1
            if watched:
                self.lost.add((one.node, one.seq))
                if self.last_ts[target] < one.ts:
                    self.unknown_as_they_are.add((one.node, one.seq))
        return found

    # -- flows ---------------------------------------------------------------------------------------------------------

    def callback(self, flow: list[Record]) -> Row | None:
        request, node = self._request(flow)
        if request is None:
            return None
        kinds = set(request.msg.callback_point)
        if kinds - {RECEIPT, EXCEPTION}:
            kinds.discard(RECEIPT)
        answers = [
            one
            for one in flow
            if one.event in ("resolved", "delivered", "received")
            and one.is_reply
            and one.msg.identifier in kinds
            and one.node == node
        ]
        first = min(answers, key=lambda one: (one.ts, one.seq), default=None)
        is_seen = request.node == node
        ttl = -(-request.msg.ttl_ticks // 10)
        found: Row = {"callback_key": request.msg.callback_key, "asked_node": node, "answer": first}
        found["latency_us"] = first.ts - request.ts if first and is_seen else None
        if first is not None:
            is_taken = any(one.event == "resolved" for one in answers)
            late = bool(ttl) and first.ts - request.ts > ttl and not is_taken
            found["outcome"] = "late" if late else "exception" if first.msg.identifier == EXCEPTION else "answered"
        else:
            goes_on = bool(ttl) and is_seen and self.last_ts[node] > request.ts + ttl
            expired = any(one.event == "expired" for one in flow) or goes_on
            found["outcome"] = "expired" if expired else "unanswered"
        return found

    def _request(self, flow: list[Record]) -> tuple[Record | None, str]:
        asking = [
            one for one in flow if one.msg.callback_point and not one.is_reply and one.msg.identity not in REPORTS
        ]
        if not asking:
            return None, ""
        node = shown(asking[0].msg.callback_receiver_node_identity)
        for event in ("submitted", "sent", "received"):
            found = [
                one
                for one in asking
                if one.event == event
                and (event == "received" or not node or one.node == node)
                and (self._is_new_flow(one) if event == "submitted" else one.is_first_hop)
            ]
            if found:
                request = min(found, key=lambda one: (one.msg.hops, one.ts, one.node, one.seq))
                return request, node or (request.row["peer"] if event == "received" else request.node)
        return None, ""

    def root(self, flow: list[Record]) -> Record | None:
        roots = [
            one
            for one in flow
            if one.msg.identity not in REPORTS
            and not one.is_reply
            and (
                (one.event == "submitted" and self._is_new_flow(one))
                or (one.event == "sent" and one.is_first_hop and self._is_new(one, flow))
            )
        ]
        return min(roots, key=lambda one: (one.rank, one.ts, one.node, one.seq), default=None)

    def parent(self, one: Record) -> str | None:
        """Say which other flow was being handled when a message was submitted."""
        cause = self.deliveries.get((one.node, one.row["cause"])) if one.event == "submitted" else None
        return None if cause == one.flow_id else cause

    def _is_new_flow(self, submitted: Record) -> bool:
        return submitted.row["cause"] is None or self.parent(submitted) is not None

    @staticmethod
    def _is_new(sent: Record, flow: list[Record]) -> bool:
        came = ("submitted", "received", "delivered")
        return not any(one.node == sent.node and one.seq < sent.seq and one.event in came for one in flow)

    def flow(self, flow: list[Record]) -> Row:
        _ = self.hops
        callback, root = self.callback(flow), self.root(flow)
        by_message: dict[Any, list[Record]] = defaultdict(list)
        for one in flow:
            by_message[one.message_id].append(one)
        found: Row = {"messages": sum(map(_times, by_message.values())), "records": len(flow)}
        received = [one for one in flow if one.event == "received"]
        sent = {(one.node, one.row["peer"], one.fingerprint) for one in flow if one.event == "sent"}
        unsent = [one for one in received if (one.row["peer"], one.node, one.fingerprint) not in sent]
        found["hops"] = sum(one.event == "sent" for one in flow) + len(unsent)
        found["nodes"] = len({one.node for one in flow})
        found["origin"] = None if root is None else root.node
        found["parent_flow_id"] = None if root is None else self.parent(root)
        answer = callback and callback["answer"]
        first = root or min(flow, key=lambda one: (one.rank, one.ts, one.node, one.seq))
        end = answer.ts if answer else max(one.ts for one in flow if one not in followed(flow))
        start = first.ts
        found["identity"] = first.msg.identity.decode()
        found |= {"start": start, "end": end, "duration_us": end - start}
        found["outcome"] = self._outcome(flow, callback, root)
        home = callback["asked_node"] if callback else ""
        found["answers"] = len({one.message_id for one in flow if one.node == home and one.is_reply and one.is_arrival})
        return found

    def _outcome(self, flow: list[Record], callback: Row | None, root: Record | None) -> str:
        told = callback["outcome"] if callback else ""
        if len(flow) > LIMIT:
            return "truncated"
        if root is None:
            return "orphan"
        lost = any((one.node, one.seq) in self.lost for one in flow)
        if told == "exception" or (any(one.event in ENDINGS for one in flow) and told != "answered"):
            return "failed"
        if not callback and lost:
            return "failed"
        if told in ("expired", "late") or (not callback and any(one.event == "expired" for one in flow)):
            return "expired"
        return "unanswered" if told == "unanswered" else "complete"


def followed(flow: list[Record]) -> list[Record]:
    """Give the records that another one follows."""
    found = []
    ordered = sorted(flow, key=lambda one: one.seq)
    for one in flow:
        before = [other for other in ordered if other.node == one.node and other.seq < one.seq]
        same = [other for other in before if other.message_id == one.message_id]
        arrivals = [other for other in same if other.event in ("submitted", "received")]
        deliveries = [other for other in same if other.event == "delivered"]
        came = [other for other in before if other.event in ("received", "delivered")]
        if one.event == "submitted":
            found += [other for other in before if other.seq == one.row["cause"]] or came[-1:]
        elif one.event == "sent":
            found += arrivals[-1:] or came[-1:]
        elif one.event == "delivered":
            found += arrivals[-1:]
        elif one.event == "received":
            found += [other for other in flow if other.event == "sent" and other.fingerprint == one.fingerprint]
        else:
            found += deliveries[-1:] or arrivals[-1:]
    return found


def _times(records: Iterable[Record]) -> int:
    records = list(records)
    submitted = sum(one.event == "submitted" for one in records)
    sendings = Counter((one.node, one.row["peer"], one.msg.hops) for one in records if one.event == "sent")
    return submitted or max([1, *sendings.values()])


def _read(row: Row) -> Record:
    try:
        return Record(row, decode(row["frames"]))
    except RemoteError as error:
        return Record(row, None, str(error.reason))
