"""Tables as the job writes them, without Spark, for the tests of what reads them; and what a run wrote about itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hopline.pipeline.tables.all import TABLES

DAY = date(2026, 1, 31)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def run_document(out: Path) -> dict[str, Any]:
    """Return what the last run wrote about itself."""
    (part,) = (out / "run.json").glob("part-*")
    document: dict[str, Any] = json.loads(part.read_text())
    return document


def write_table(out: Path, name: str, rows: Sequence[Mapping[str, Any]], day: date = DAY) -> None:
    """Write rows of a table; columns that are not given are null."""
    columns = StructType([field for field in TABLES[name].schema if field.name != "date"])
    schema = to_arrow_schema(columns, timezone="UTC")
    said = {"org.apache.spark.sql.parquet.row.metadata": columns.json()}
    table = pa.Table.from_pylist([{**dict.fromkeys(schema.names), **row} for row in rows], schema.with_metadata(said))
    folder = out / name / f"date={day}"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part-0.parquet")


def flow(flow_id: str, outcome: str, duration_us: int, **columns: Any) -> dict[str, Any]:
    """Make a row of flows, with a path of two stages."""
    path = [
        {"stage": "send", "node": "a", "identity": "ORDER", "us": duration_us // 4},
        {"stage": "run", "node": "b", "identity": "ORDER", "us": duration_us - duration_us // 4},
    ]
    told = {"flow_id": flow_id, "outcome": outcome, "duration_us": duration_us, "start_ts": NOON, "origin": "a"}
    return told | {"identity": "ORDER", "messages": 2, "hops": 1, "critical_path": path} | columns


def write_tables(out: Path) -> Path:
    """Write a few rows of every table, with something to find in each."""
    kinds = [{"identity": "ANSWER", "version": "1", "partition": ""}, {"identity": "KINO.EXCEPTION", "version": "1"}]
    routing = [{"uri": "tcp://a:1", "identity": "a"}, {"uri": "tcp://b:2", "identity": "b"}]
    write_table(
        out,
        "messages",
        [
            {
                "ts": NOON,
                "node": "a",
                "event": "sent",
                "identity": "ORDER",
                "callbacks": kinds,
                "routing": routing,
                "signature": b"\x01\xff",
            }
        ],
    )
    write_table(out, "rejects", [{"ts": NOON, "node": "a", "code": "no_format", "frames": [b"x" * 99]}] * 2)
    write_table(
        out,
        "hops",
        [
            {"from_node": "a", "to_node": "b", "transit_us": 300, "lost": False, "duplicate": False, "sent_ts": NOON},
            {"from_node": "a", "to_node": "b", "lost": True, "duplicate": False, "sent_ts": NOON},
            {"from_node": "b", "to_node": "c", "lost": False, "duplicate": True, "sent_ts": NOON},
            {"from_node": "b", "to_node": "x", "lost": None, "duplicate": False, "sent_ts": NOON},
        ],
    )
    write_table(out, "callbacks", [{"asked_for": kinds, "outcome": "answered"}, {"outcome": "late"}])
    flows = [flow("one", "complete", 2_000), flow("two", "failed", 9_000_000), flow("it's $HOME", "expired", 40)]
    write_table(out, "flows", flows)
    write_table(out, "flows", [flow("old", "complete", 1)], date(2026, 1, 30))
    path = [
        {"stage": "run", "node": "b", "identity": "ORDER", "us": 500, "flow_id": "one"},
        {"stage": "run", "node": "c", "identity": "PRICE", "us": 1_500, "handler": "Prices.look_up", "flow_id": "two"},
    ]
    journey = {"journey_id": "one", "outcome": "failed", "identity": "ORDER", "origin": "a", "flows": 2}
    write_table(out, "journeys", [journey | {"start_ts": NOON, "duration_us": 2_000, "critical_path": path}])
    write_table(
        out,
        "handlers",
        [{"node": "b", "actor": "clerk", "window_start": NOON, "count": 7, "errors": 1, "run_p99_us": 1_500}],
    )
    write_table(out, "edges", [{"kind": "physical", "source": "a", "target": "b", "count": 2, "window_start": NOON}])
    write_table(out, "security", [{"node": "b", "peer": "a", "bad_signature": 1, "window_start": NOON}])
    write_table(out, "incidents", [{"ts": NOON, "node": "b", "peer": "a", "offence": "bad_signature"}])
    write_table(
        out,
        "skew",
        [
            {"node_a": "a", "node_b": "b", "offset_us": -5_000, "bound_us": 100},
            {"node_a": "a", "node_b": "c", "offset_us": 50, "bound_us": 100},
            {"node_a": "b", "node_b": "c", "offset_us": None, "bound_us": None},
            {
                "node_a": "c",
                "node_b": "d",
                "bound_us": -19_800,
                "min_transit_ab_us": -31_800,
                "min_transit_ba_us": -7_800,
            },
        ],
    )
    write_table(
        out,
        "audit",
        [
            {"node": "a", "hour": NOON, "balance": 0, "balanced": True, "dropped": 0, "missing": 0},
            {"node": "b", "hour": NOON, "balance": -1, "balanced": False, "dropped": 0, "missing": 2},
        ],
    )
    write_table(out, "late", [{"ts": NOON, "node": "b", "event": "received", "flow_id": "one", "missed": "flow"}])
    return out
