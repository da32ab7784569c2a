"""Captures read one record at a time, by the definitions in docs/reference/pipeline.md."""

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

from hopline.capture.records import CAPTURE_SCHEMA, shown
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
        message = self.msg
        waiting = (message.callback_receiver_identity, message.callback_receiver_node_identity)
        return (
            message.identifier in message.callback_point
            and bool(message.receiver_identity)
            and (message.receiver_identity, message.receiver_node_identity) == waiting
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
        message = self.msg
        callbacks = tuple(point for point in message.callback_point if point != RECEIPT)
        # A message that asks only for a receipt has the same callbacks as one that asks for nothing.
        return (
            message.correlation_id,
            message.identifier,
            message.bodies,
            callbacks,
            message.callback_receiver_identity,
            message.callback_receiver_node_identity,
            message.callback_key,
        )


class Reading:
    """All records of a capture, and what the definitions say about them."""

    def __init__(self, out: Path) -> None:
        table = ds.dataset(out / "captures", format="parquet", partitioning=None).to_table()
        assert table.schema.remove_metadata().equals(CAPTURE_SCHEMA)
        self.domains = Domains(out / "keys")
        self.keys = load_keys(out / "keys" / "keys.txt")
        self.all = [_read(row) for row in table.to_pylist()]
        self.all.sort(key=lambda record: (record.node, record.seq))
        self.records = [record for record in self.all if record.message is not None]
        self.nodes = {record.node for record in self.all}
        self.last_ts = {node: max(record.ts for record in self.all if record.node == node) for node in self.nodes}
        self._judge()
        offending = [record for record in self.records if record.verdict in OFFENCES]
        rejected = {(record.node, record.fingerprint) for record in offending}
        self.deliveries = {
            (record.node, record.seq): record.flow_id for record in self.records if record.event == "delivered"
        }
        self.flow_records: dict[str, list[Record]] = defaultdict(list)
        for record in self.records:
            is_offence = record.verdict in OFFENCES or (
                record.event == "rejected" and (record.node, record.fingerprint) in rejected
            )
            if record.flow_id is not None and not is_offence:
                self.flow_records[record.flow_id].append(record)

    # -- security ------------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        seen: set[tuple[str, tuple[bytes, ...]]] = set()
        for record in self.records:
            if record.event == "received":
                record.verdict = self._verdict(record, seen)

    def _verdict(self, record: Record, seen: set[tuple[str, tuple[bytes, ...]]]) -> str:
        message = record.msg
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
        if (record.node, record.fingerprint) in seen:
            return "replayed"
        seen.add((record.node, record.fingerprint))
        return "verified"

    def incidents(self) -> set[tuple[str, int, str]]:
        return {
            (record.node, record.seq, record.verdict)
            for record in self.records
            if record.verdict in OFFENCES or (record.verdict == "unsigned" and record.msg.identity in self.domains.home)
        }

    # -- hops ----------------------------------------------------------------------------------------------------------

    @cached_property
    def hops(self) -> dict[tuple[str, str], Counter[str]]:
        sides: dict[tuple[str, str, Any], list[list[Record]]] = defaultdict(lambda: [[], []])
        for record in self.records:
            if record.event in ("sent", "received"):
                pair = (record.node, record.row["peer"])
                way = pair if record.event == "sent" else pair[::-1]
                sides[(*way, record.fingerprint)][record.event == "received"].append(record)
        found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.lost: set[tuple[str, int]] = set()
        missing: list[tuple[Record, str]] = []
        self.duplicates: set[tuple[str, int]] = set()
        self.transits: dict[tuple[str, str], list[int]] = defaultdict(list)
        for (source, target, _), (sent, received) in sides.items():
            sent.sort(key=lambda record: record.ts)
            received.sort(key=lambda record: record.ts)
            counted = found[source, target]
            counted["sent"] += len(sent)
            counted["received"] += len(received)
            self.transits[source, target] += [b.ts - a.ts for a, b in zip(sent, received, strict=False)]
            missing += [(record, target) for record in sent[len(received) :]]
            extra = received[len(sent) :]
            counted["duplicates" if sent else "unsent"] += len(extra)
            if sent:
                self.duplicates |= {(record.node, record.seq) for record in extra}
        self.unknown_as_they_are: set[tuple[str, int]] = set()  # lost, though the clocks as they are do not say so
        for record, target in missing:
            there, back = self.transits[record.node, target], self.transits[target, record.node]
            offset = (min(there) - min(back)) / 2 if there and back else 0
            watched = target in self.nodes and self.last_ts[target] >= record.ts + offset
            found[record.node, target]["lost" if watched else "unwatched"] += 1
            if watched:
                self.lost.add((record.node, record.seq))
                if self.last_ts[target] < record.ts:
                    self.unknown_as_they_are.add((record.node, record.seq))
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
            record
            for record in flow
            if record.event in ("resolved", "delivered", "received")
            and record.is_reply
            and record.msg.identifier in kinds
            and record.node == node
        ]
        first = min(answers, key=lambda record: (record.ts, record.seq), default=None)
        is_seen = request.node == node
        ttl = -(-request.msg.ttl_ticks // 10)
        found: Row = {"callback_key": request.msg.callback_key, "asked_node": node, "answer": first}
        found["latency_us"] = first.ts - request.ts if first and is_seen else None
        if first is not None:
            is_taken = any(record.event == "resolved" for record in answers)
            late = bool(ttl) and first.ts - request.ts > ttl and not is_taken
            found["outcome"] = "late" if late else "exception" if first.msg.identifier == EXCEPTION else "answered"
        else:
            goes_on = bool(ttl) and is_seen and self.last_ts[node] > request.ts + ttl
            expired = any(record.event == "expired" for record in flow) or goes_on
            found["outcome"] = "expired" if expired else "unanswered"
        return found

    def _request(self, flow: list[Record]) -> tuple[Record | None, str]:
        asking = [
            record
            for record in flow
            if record.msg.callback_point and not record.is_reply and record.msg.identity not in REPORTS
        ]
        if not asking:
            return None, ""
        node = shown(asking[0].msg.callback_receiver_node_identity)
        for event in ("submitted", "sent", "received"):
            found = [
                record
                for record in asking
                if record.event == event
                and (event == "received" or not node or record.node == node)
                and (self._is_new_flow(record) if event == "submitted" else record.is_first_hop)
            ]
            if found:
                request = min(found, key=lambda record: (record.msg.hops, record.ts, record.node, record.seq))
                return request, node or (request.row["peer"] if event == "received" else request.node)
        return None, ""

    def root(self, flow: list[Record]) -> Record | None:
        roots = [
            record
            for record in flow
            if record.msg.identity not in REPORTS
            and not record.is_reply
            and (
                (record.event == "submitted" and self._is_new_flow(record))
                or (record.event == "sent" and record.is_first_hop and self._is_new(record, flow))
            )
        ]
        return min(roots, key=lambda record: (record.rank, record.ts, record.node, record.seq), default=None)

    def parent(self, record: Record) -> str | None:
        """Return the other flow that was being handled when a message was submitted."""
        cause = self.deliveries.get((record.node, record.row["cause"])) if record.event == "submitted" else None
        return None if cause == record.flow_id else cause

    def _is_new_flow(self, submitted: Record) -> bool:
        return submitted.row["cause"] is None or self.parent(submitted) is not None

    @staticmethod
    def _is_new(sent: Record, flow: list[Record]) -> bool:
        came = ("submitted", "received", "delivered")
        return not any(record.node == sent.node and record.seq < sent.seq and record.event in came for record in flow)

    def flow(self, flow: list[Record]) -> Row:
        _ = self.hops
        callback, root = self.callback(flow), self.root(flow)
        by_message: dict[Any, list[Record]] = defaultdict(list)
        for record in flow:
            by_message[record.message_id].append(record)
        found: Row = {"messages": sum(map(_times, by_message.values())), "records": len(flow)}
        received = [record for record in flow if record.event == "received"]
        sent = {(record.node, record.row["peer"], record.fingerprint) for record in flow if record.event == "sent"}
        unsent = [record for record in received if (record.row["peer"], record.node, record.fingerprint) not in sent]
        found["hops"] = sum(record.event == "sent" for record in flow) + len(unsent)
        found["nodes"] = len({record.node for record in flow})
        found["origin"] = None if root is None else root.node
        found["parent_flow_id"] = None if root is None else self.parent(root)
        answer = callback and callback["answer"]
        first = root or min(flow, key=lambda record: (record.rank, record.ts, record.node, record.seq))
        end = answer.ts if answer else max(record.ts for record in flow if record not in followed(flow))
        start = first.ts
        found["identity"] = first.msg.identity.decode()
        found |= {"start": start, "end": end, "duration_us": end - start}
        found["outcome"] = self._outcome(flow, callback, root)
        home = callback["asked_node"] if callback else ""
        found["answers"] = len(
            {record.message_id for record in flow if record.node == home and record.is_reply and record.is_arrival}
        )
        return found

    def _outcome(self, flow: list[Record], callback: Row | None, root: Record | None) -> str:
        callback_outcome = callback["outcome"] if callback else ""
        if len(flow) > LIMIT:
            return "truncated"
        if root is None:
            return "orphan"
        lost = any((record.node, record.seq) in self.lost for record in flow)
        if callback_outcome == "exception" or (
            any(record.event in ENDINGS for record in flow) and callback_outcome != "answered"
        ):
            return "failed"
        if not callback and lost:
            return "failed"
        if callback_outcome in ("expired", "late") or (
            not callback and any(record.event == "expired" for record in flow)
        ):
            return "expired"
        return "unanswered" if callback_outcome == "unanswered" else "complete"


def followed(flow: list[Record]) -> list[Record]:
    """Return the records that another one follows."""
    found = []
    ordered = sorted(flow, key=lambda record: record.seq)
    for record in flow:
        before = [other for other in ordered if other.node == record.node and other.seq < record.seq]
        same = [other for other in before if other.message_id == record.message_id]
        arrivals = [other for other in same if other.event in ("submitted", "received")]
        deliveries = [other for other in same if other.event == "delivered"]
        came = [other for other in before if other.event in ("received", "delivered")]
        if record.event == "submitted":
            found += [other for other in before if other.seq == record.row["cause"]] or came[-1:]
        elif record.event == "sent":
            found += arrivals[-1:] or came[-1:]
        elif record.event == "delivered":
            found += arrivals[-1:]
        elif record.event == "received":
            found += [other for other in flow if other.event == "sent" and other.fingerprint == record.fingerprint]
        else:
            found += deliveries[-1:] or arrivals[-1:]
    return found


def _times(records: Iterable[Record]) -> int:
    records = list(records)
    submitted = sum(record.event == "submitted" for record in records)
    sendings = Counter(
        (record.node, record.row["peer"], record.msg.hops) for record in records if record.event == "sent"
    )
    return submitted or max([1, *sendings.values()])


def _read(row: Row) -> Record:
    try:
        return Record(row, decode(row["frames"]))
    except RemoteError as error:
        return Record(row, None, str(error.reason))
