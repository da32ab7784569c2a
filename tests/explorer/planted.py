"""A small world that the pages are tried on: one journey of two flows over three nodes, and one thing of each kind that
can go wrong. Written as the job writes tables, without Spark; with the captures that its records come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hopline import Message, WireFormat
from hopline.wire import encode
from tests.query.written import DAY, NOON, write_table

SHOP, STOCK, PRICES = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")
ORDER_FLOW = "0f1e2d3c-1111-4111-8111-111111111111"
PRICE_FLOW = "5a6b7c8d-2222-4222-8222-222222222222"
LOST_FLOW = "9c8b7a6d-3333-4333-8333-333333333333"
HUB, INNER_HUB, ACTOR, PRICE_ACTOR = "\0hub", "\0inner", "\1stock-actor", "\1price-actor"
STOCK_AHEAD_US = 2_000_000
BODY = {"sku": "blue-kettle", "count": 3}
SEGMENT = f"date={DAY}/{SHOP}-20260131T120000.000000Z-1.parquet"


def at(us: int, node: str = SHOP) -> datetime:
    """Return a time of the journey as a node's clock shows it: that of STOCK is two seconds ahead."""
    return NOON + timedelta(microseconds=us + (STOCK_AHEAD_US if node == STOCK else 0))


def frames_of(identity: str = "ORDER", body: Mapping[str, Any] | None = None) -> list[bytes]:
    """Return the frames of a message with a body in MessagePack."""
    message = Message.create(
        identity.encode(),
        msgspec.msgpack.encode(BODY if body is None else body),
        correlation_id=ORDER_FLOW.encode(),
    )
    return encode(message, WireFormat.V5)


def _record(seq: int, us: int, node: str, event: str, flow: str, identity: str, **columns: Any) -> dict[str, Any]:
    return {
        "ts": at(us, node),
        "seq": seq,
        "node": node,
        "event": event,
        "flow_id": flow,
        "correlation_id": flow,
        "identity": identity,
        "version": "1",
        "hops": 1,
        "bytes": 100,
        "body_frames": 1,
        "wire_format": "V5",
        "message_id": sum(map(ord, flow[:4] + identity)),
        "segment": SEGMENT,
    } | columns


RECORDS = [
    _record(1, 0, SHOP, "submitted", ORDER_FLOW, "ORDER", local_receiver=HUB),
    _record(2, 100, SHOP, "sent", ORDER_FLOW, "ORDER", peer=STOCK),
    _record(1, 600, STOCK, "received", ORDER_FLOW, "ORDER", peer=SHOP),
    _record(2, 1_600, STOCK, "delivered", ORDER_FLOW, "ORDER", local_receiver=ACTOR, receiver_name="Stock",
            handler="reserve", duration_us=1_000),
    _record(3, 2_000, STOCK, "submitted", PRICE_FLOW, "PRICE", local_receiver=INNER_HUB, cause=2),
    _record(4, 2_100, STOCK, "sent", PRICE_FLOW, "PRICE", peer=PRICES),
    _record(1, 2_500, PRICES, "received", PRICE_FLOW, "PRICE", peer=STOCK),
    _record(2, 3_000, PRICES, "delivered", PRICE_FLOW, "PRICE", local_receiver=PRICE_ACTOR, receiver_name="Price",
            handler="quote", duration_us=500),
    _record(3, 8_000, PRICES, "submitted", PRICE_FLOW, "PRICED", local_receiver=PRICE_ACTOR, receiver_name="Price",
            handler="quote", cause=2),
    _record(4, 8_100, PRICES, "handled", PRICE_FLOW, "PRICE", local_receiver=PRICE_ACTOR, receiver_name="Price",
            handler="quote", duration_us=5_100),
    _record(5, 8_200, PRICES, "sent", PRICE_FLOW, "PRICED", peer=STOCK),
    _record(5, 8_700, STOCK, "received", PRICE_FLOW, "PRICED", peer=PRICES),
    _record(6, 8_900, STOCK, "delivered", PRICE_FLOW, "PRICED", local_receiver=INNER_HUB, duration_us=200),
    _record(7, 9_000, STOCK, "resolved", PRICE_FLOW, "PRICED", local_receiver=INNER_HUB),
    _record(8, 9_900, STOCK, "submitted", ORDER_FLOW, "ORDERED", local_receiver=ACTOR, receiver_name="Stock",
            handler="reserve", cause=2),
    _record(9, 10_000, STOCK, "handled", ORDER_FLOW, "ORDER", local_receiver=ACTOR, receiver_name="Stock",
            handler="reserve", duration_us=8_400),
    _record(10, 10_100, STOCK, "sent", ORDER_FLOW, "ORDERED", peer=SHOP),
    _record(3, 10_600, SHOP, "received", ORDER_FLOW, "ORDERED", peer=STOCK),
    _record(4, 10_800, SHOP, "delivered", ORDER_FLOW, "ORDERED", local_receiver=HUB, duration_us=200),
    _record(5, 10_900, SHOP, "resolved", ORDER_FLOW, "ORDERED", local_receiver=HUB),
    _record(6, 60_000_000, SHOP, "submitted", LOST_FLOW, "NOTE", local_receiver=HUB),
    _record(7, 60_000_100, SHOP, "sent", LOST_FLOW, "NOTE", peer=PRICES),
]  # fmt: skip


def _stage(stage: str, node: str, identity: str, us: int, flow: str, handler: str | None = None) -> dict[str, Any]:
    return {"stage": stage, "node": node, "identity": identity, "us": us, "handler": handler, "flow_id": flow}


PATH = [
    _stage("send", SHOP, "ORDER", 100, ORDER_FLOW),
    _stage("transit", STOCK, "ORDER", 500 + STOCK_AHEAD_US, ORDER_FLOW),
    _stage("wait", STOCK, "ORDER", 1_000, ORDER_FLOW, "Stock.reserve"),
    _stage("run", STOCK, "ORDER", 400, ORDER_FLOW, "Stock.reserve"),
    _stage("send", STOCK, "PRICE", 100, PRICE_FLOW),
    _stage("transit", PRICES, "PRICE", 400 - STOCK_AHEAD_US, PRICE_FLOW),
    _stage("wait", PRICES, "PRICE", 500, PRICE_FLOW, "Price.quote"),
    _stage("run", PRICES, "PRICE", 5_000, PRICE_FLOW, "Price.quote"),
    _stage("send", PRICES, "PRICED", 200, PRICE_FLOW),
    _stage("transit", STOCK, "PRICED", 500 + STOCK_AHEAD_US, PRICE_FLOW),
    _stage("run", STOCK, "ORDER", 1_200, ORDER_FLOW, "Stock.reserve"),
    _stage("send", STOCK, "ORDERED", 200, ORDER_FLOW),
    _stage("transit", SHOP, "ORDERED", 500 - STOCK_AHEAD_US, ORDER_FLOW),
]


def _flow(flow_id: str, us: int, duration_us: int, **columns: Any) -> dict[str, Any]:
    node = columns.get("origin", SHOP)
    return {
        "flow_id": flow_id,
        "journey_id": flow_id,
        "start_ts": at(us, node),
        "end_ts": at(us + duration_us, node),
        "duration_us": duration_us,
        "origin": SHOP,
        "identity": "ORDER",
        "messages": 2,
        "records": 10,
        "hops": 2,
        "nodes": 2,
        "bytes": 200,
        "depth": 2,
        "outcome": "complete",
        "skew_us": 0,
        "skew_bound_us": 0,
        "critical_path": [],
    } | columns


def _hop(flow: str, identity: str, source: str, target: str, sent: int, received: int | None) -> dict[str, Any]:
    skew = {(SHOP, STOCK): STOCK_AHEAD_US, (PRICES, STOCK): STOCK_AHEAD_US}
    offset = skew.get((source, target), -skew.get((target, source), 0))
    return {
        "flow_id": flow,
        "identity": identity,
        "from_node": source,
        "to_node": target,
        "hops": 1,
        "message_id": sum(map(ord, flow[:4] + identity)),
        "sent_ts": at(sent, source),
        "received_ts": None if received is None else at(received, target),
        "transit_us": None if received is None else received - sent + offset,
        "skew_us": offset,
        "skew_bound_us": 100,
        "lost": received is None,
        "duplicate": False,
        "rejected": False,
    }


def write_planted(out: Path, **changed: Sequence[Mapping[str, Any]]) -> Path:
    """Write all tables; some of them with other rows than usual."""
    whole = {"flows": 2, "depth": 2, "messages": 4, "hops": 4, "nodes": 3, "bytes": 400, "outcome": "complete"}
    whole |= {"journey_id": ORDER_FLOW, "start_ts": at(0), "end_ts": at(10_600), "duration_us": 10_600}
    whole |= {"origin": SHOP, "identity": "ORDER", "outcome_flow_id": ORDER_FLOW, "skew_us": 0, "skew_bound_us": 0}
    edges = [
        {"kind": "physical", "source": a, "source_node": a, "target": b, "target_node": b, "count": count, "lost": lost}
        for a, b, count, lost in ((SHOP, STOCK, 40, 0), (STOCK, PRICES, 30, 0), (SHOP, PRICES, 3, 1))
    ]
    edges.append({"kind": "logical", "source": HUB, "source_node": SHOP, "target": ACTOR, "target_node": STOCK,
                  "target_name": "Stock", "count": 40, "lost": 0})  # fmt: skip
    rows: dict[str, Sequence[Mapping[str, Any]]] = {
        "messages": [record | {"bodies": [msgspec.msgpack.encode(BODY)]} for record in RECORDS],
        "rejects": [
            {"ts": at(70), "seq": 99, "node": PRICES, "event": "rejected", "code": "unknown_version", "frame_index": 2,
             "detail": "expected 4 or 5, found 9", "frames": [b"", b"x", b"\x09\x00"], "segment": SEGMENT},
        ],
        "hops": [
            _hop(ORDER_FLOW, "ORDER", SHOP, STOCK, 100, 600),
            _hop(PRICE_FLOW, "PRICE", STOCK, PRICES, 2_100, 2_500),
            _hop(PRICE_FLOW, "PRICED", PRICES, STOCK, 8_200, 8_700),
            _hop(ORDER_FLOW, "ORDERED", STOCK, SHOP, 10_100, 10_600),
            _hop(LOST_FLOW, "NOTE", SHOP, PRICES, 60_000_100, None),
        ],
        "callbacks": [
            {"flow_id": ORDER_FLOW, "asked_node": SHOP, "asked_receiver": HUB, "identity": "ORDER", "asked_ts": at(0),
             "answer_identity": "ORDERED", "answered_by": STOCK, "answered_ts": at(10_600), "latency_us": 10_600,
             "ttl_us": 0, "outcome": "answered", "callback_key": 1, "attempt": 2, "asked_again": False},
            {"flow_id": ORDER_FLOW, "asked_node": SHOP, "asked_receiver": HUB, "identity": "ORDER", "asked_ts": at(0),
             "ttl_us": 0, "outcome": "unanswered", "callback_key": 0, "attempt": 1, "asked_again": True},
            {"flow_id": LOST_FLOW, "asked_node": SHOP, "asked_receiver": HUB, "identity": "NOTE",
             "asked_ts": at(60_000_000), "ttl_us": 5_000_000, "outcome": "expired", "callback_key": 2},
        ],
        "flows": [
            _flow(ORDER_FLOW, 0, 10_600, critical_path=PATH),
            _flow(PRICE_FLOW, 2_000, 6_700, origin=STOCK, identity="PRICE", parent_flow_id=ORDER_FLOW,
                  journey_id=ORDER_FLOW),
            _flow(LOST_FLOW, 60_000_000, 100, identity="NOTE", outcome="expired", messages=1, hops=1),
        ],
        "journeys": [whole | {"critical_path": PATH}],
        "handlers": [
            {"node": STOCK, "actor": ACTOR, "actor_name": "Stock", "handler": "reserve", "identity": "ORDER",
             "count": 40, "errors": 1, "run_p99_us": 8_400, "wait_p99_us": 1_000, "window_s": 60},
        ],
        "edges": [
            {"identity": "ORDER", "bytes": 4_000, "errors": 0, "transit_p50_us": 500, "transit_p95_us": 700,
             "window_s": 60} | edge for edge in edges
        ],
        "security": [{"node": STOCK, "peer": SHOP, "domain": "orders", "bad_signature": 1}],
        "incidents": [
            {"ts": at(600, STOCK), "node": STOCK, "seq": 1, "peer": SHOP, "offence": "bad_signature",
             "domain": "orders", "flow_id": ORDER_FLOW, "identity": "ORDER"},
        ],
        "skew": [
            {"node_a": SHOP, "node_b": STOCK, "offset_us": STOCK_AHEAD_US, "bound_us": 100, "transits_ab": 40},
            {"node_a": STOCK, "node_b": PRICES, "offset_us": -STOCK_AHEAD_US, "bound_us": 100, "transits_ab": 30},
            {"node_a": SHOP, "node_b": PRICES, "offset_us": 0, "bound_us": 50, "transits_ab": 3},
        ],
        "audit": [
            {"node": SHOP, "hour": NOON, "records": 7, "submitted": 2, "received": 1, "sent": 2, "delivered": 1,
             "copies": 0, "balance": 0, "balanced": True, "dropped": 0, "missing": 0, "rejects": 0},
            {"node": PRICES, "hour": NOON, "records": 6, "submitted": 1, "received": 1, "sent": 1, "delivered": 0,
             "copies": 0, "balance": 1, "balanced": False, "dropped": 3, "missing": 2, "rejects": 1},
        ],
    }  # fmt: skip
    for name, given in (rows | changed).items():
        stamped = {"window_start": NOON} if name in ("handlers", "edges", "security") else {}
        write_table(out, name, [stamped | dict(row) for row in given])
    return out


def write_captures(folder: Path) -> Path:
    """Write a segment with the frames of the records of SHOP."""
    path = folder / SEGMENT
    path.parent.mkdir(parents=True)
    records = [record for record in RECORDS if record["node"] == SHOP]
    table = pa.table(
        {
            "seq": pa.array([record["seq"] for record in records], pa.int64()),
            "node": pa.array([SHOP for _ in records]),
            "frames": pa.array([frames_of(record["identity"]) for record in records], pa.list_(pa.binary())),
        }
    )
    pq.write_table(table, path)
    return folder


def utc(text: str) -> datetime:
    """Return a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
