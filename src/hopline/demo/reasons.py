"""Why flows ended as they did: by their own records, not by what strangers sent in their names.

A forged or replayed message carries the correlation id of somebody's flow, and so does the record that says that it was
rejected. Neither says anything about that flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

Row = dict[str, Any]

_OFFENCES = ("bad_signature", "wrong_domain", "unknown_domain", "replayed")
_FAILURES = ("unroutable", "rejected", "overflow", "hop_limit", "failed")
_COLUMNS = ("flow_id", "ts", "node", "seq", "event", "reason", "identity", "fingerprint")
_MICROSECONDS = 1_000_000  # a second


def rows_of(tables: Path, name: str, columns: Iterable[str], where: ds.Expression | None = None) -> list[Row]:
    """Read some columns of a table, and of its rows those that fit."""
    table = ds.dataset(tables / name, format="parquet", partitioning="hive", exclude_invalid_files=False)
    rows: list[Row] = table.to_table(columns=list(columns), filter=where).to_pylist()
    return rows


def reasons_of(tables: Path, outcomes: Mapping[str, str]) -> dict[str, str]:
    """Return a reason for each of some flows, which are given with their outcomes."""
    of_these = ds.field("flow_id").isin(list(outcomes))
    records: dict[str, list[Row]] = {flow: [] for flow in outcomes}
    for row in rows_of(tables, "messages", _COLUMNS, of_these):
        records[row["flow_id"]].append(row)
    offences = rows_of(
        tables, "incidents", ("ts", "node", "seq", "fingerprint"), of_these & ds.field("offence").isin(_OFFENCES)
    )
    asked = {row["flow_id"]: row for row in rows_of(tables, "callbacks", ("flow_id", "ttl_us", "outcome"), of_these)}
    paths = {
        row["flow_id"]: row["critical_path"] for row in rows_of(tables, "flows", ("flow_id", "critical_path"), of_these)
    }
    return {
        flow: _reason(outcome, _own(records[flow], offences), asked.get(flow, {}), paths.get(flow) or [])
        for flow, outcome in outcomes.items()
    }


def _own(records: list[Row], offences: list[Row]) -> list[Row]:
    """Return the records of a flow that are its own, in the order of their times."""
    offending = {(row["node"], row["seq"], row["ts"]) for row in offences}
    forged = {(row["node"], row["fingerprint"]) for row in offences}
    own = [
        row
        for row in records
        if (row["node"], row["seq"], row["ts"]) not in offending
        and not (row["event"] == "rejected" and (row["node"], row["fingerprint"]) in forged)
    ]
    return sorted(own, key=lambda row: (row["ts"], row["node"], row["seq"]))


def _reason(outcome: str, records: list[Row], asked: Row, path: list[Row]) -> str:
    endings = ("expired",) if outcome == "expired" else _FAILURES
    said = [row for row in records if row["event"] in endings]
    if outcome == "failed":
        said += [row for row in records if row["event"] == "handled" and row["reason"]]
    if said:
        last = max(said, key=lambda row: row["ts"])
        return f"{last['event']} at {last['node']}: {_in_general(last['reason'] or last['identity'])}"
    lifetime = f" within {asked['ttl_us'] / _MICROSECONDS:g} s" if asked.get("ttl_us") else ""
    if asked.get("outcome") == "late" and path:
        longest = max(path, key=lambda stage: stage["us"])
        slowest = f"{longest['stage']} of {longest['identity']} at {longest['node']}"
        return f"not answered{lifetime}, but later: mostly {slowest}"
    waited = f"no answer{lifetime}"
    if not records:
        return waited
    last = records[-1]
    return f"{waited}; last seen {last['event']} at {last['node']}, {last['identity']}"


def _in_general(reason: str) -> str:
    """Return a reason without the order and the card that it is about, so that it can be counted."""
    return reason.split(" for order")[0].split(" card-")[0]
