"""Why flows did not complete, judged by the flows' own records.

A forged or replayed message carries the correlation id of a genuine flow, and so does the record of its rejection. Both
are left out: they are no reason why the genuine flow failed.
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
    """Return some columns of the rows of a table that meet a condition."""
    table = ds.dataset(tables / name, format="parquet", partitioning="hive", exclude_invalid_files=False)
    rows: list[Row] = table.to_table(columns=list(columns), filter=where).to_pylist()
    return rows


def reasons_of(tables: Path, outcomes: Mapping[str, str]) -> dict[str, str]:
    """Return why each flow ended as it did; `outcomes` has the outcome of every flow id."""
    is_chosen = ds.field("flow_id").isin(list(outcomes))
    is_offence = ds.field("offence").isin(_OFFENCES)
    records: dict[str, list[Row]] = {flow: [] for flow in outcomes}
    for row in rows_of(tables, "messages", _COLUMNS, is_chosen):
        records[row["flow_id"]].append(row)
    offences = rows_of(tables, "incidents", ("ts", "node", "seq", "fingerprint"), is_chosen & is_offence)
    callbacks = rows_of(tables, "callbacks", ("flow_id", "ttl_us", "outcome"), is_chosen)
    flows = rows_of(tables, "flows", ("flow_id", "critical_path"), is_chosen)
    callback_of = {row["flow_id"]: row for row in callbacks}
    path_of = {row["flow_id"]: row["critical_path"] or [] for row in flows}
    reasons = {}
    for flow, outcome in outcomes.items():
        genuine = _without_offences(records[flow], offences)
        reasons[flow] = _reason(outcome, genuine, callback_of.get(flow, {}), path_of.get(flow, []))
    return reasons


def _without_offences(records: list[Row], offences: list[Row]) -> list[Row]:
    """Return the genuine records of a flow, in the order of their times."""
    offending = {(row["node"], row["seq"], row["ts"]) for row in offences}
    forged = {(row["node"], row["fingerprint"]) for row in offences}

    def is_genuine(row: Row) -> bool:
        is_rejection = row["event"] == "rejected" and (row["node"], row["fingerprint"]) in forged
        return not is_rejection and (row["node"], row["seq"], row["ts"]) not in offending

    return sorted(filter(is_genuine, records), key=lambda row: (row["ts"], row["node"], row["seq"]))


def _reason(outcome: str, records: list[Row], callback: Row, path: list[Row]) -> str:
    failures = [row for row in records if _is_failure(row, outcome)]
    if failures:
        last = max(failures, key=lambda row: row["ts"])
        return f"{last['event']} at {last['node']}: {_without_details(last['reason'] or last['identity'])}"
    timeout = f" within {callback['ttl_us'] / _MICROSECONDS:g} s" if callback.get("ttl_us") else ""
    if callback.get("outcome") == "late" and path:
        longest = max(path, key=lambda stage: stage["us"])
        return f"answered late, not{timeout}: mostly {longest['stage']} of {longest['identity']} at {longest['node']}"
    if not records:
        return f"no answer{timeout}"
    last = records[-1]
    return f"no answer{timeout}; last seen {last['event']} at {last['node']}, {last['identity']}"


def _is_failure(row: Row, outcome: str) -> bool:
    if outcome == "expired":
        return bool(row["event"] == "expired")
    is_failed_handler = outcome == "failed" and row["event"] == "handled" and row["reason"]
    return row["event"] in _FAILURES or bool(is_failed_handler)


def _without_details(reason: str) -> str:
    """Return a reason without the number of its order and card, so that equal reasons can be counted."""
    return reason.split(" for order")[0].split(" card-")[0]
