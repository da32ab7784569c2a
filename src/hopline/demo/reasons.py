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
    if not outcomes:
        return {}
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
    offending = set(map(_record_key, offences))
    forged = set(map(_message_key, offences))
    genuine = []
    for row in records:
        is_rejection_of_forgery = row["event"] == "rejected" and _message_key(row) in forged
        is_forgery = _record_key(row) in offending
        if not (is_forgery or is_rejection_of_forgery):
            genuine.append(row)
    return sorted(genuine, key=_time_key)


def _record_key(row: Row) -> tuple[Any, ...]:
    return row["node"], row["seq"], row["ts"]


def _message_key(row: Row) -> tuple[Any, ...]:
    return row["node"], row["fingerprint"]


def _time_key(row: Row) -> tuple[Any, ...]:
    return row["ts"], row["node"], row["seq"]


def _reason(outcome: str, records: list[Row], callback: Row, path: list[Row]) -> str:
    failures = [row for row in records if _is_failure(row, outcome)]
    if failures:
        return _failure_text(max(failures, key=_time_key))
    timeout = ""
    if callback.get("ttl_us"):
        seconds = callback["ttl_us"] / _MICROSECONDS
        timeout = f" within {seconds:g} s"
    is_late = callback.get("outcome") == "late"
    if is_late and path:
        longest = max(path, key=lambda stage: stage["us"])
        place = f"{longest['stage']} of {longest['identity']} at {longest['node']}"
        return f"answered late, not{timeout}: mostly {place}"
    if not records:
        return f"no answer{timeout}"
    last = records[-1]
    place = f"{last['event']} at {last['node']}, {last['identity']}"
    return f"no answer{timeout}; last seen {place}"


def _failure_text(row: Row) -> str:
    reason = row["reason"] or row["identity"]
    place = f"{row['event']} at {row['node']}"
    return f"{place}: {_without_details(reason)}"


def _is_failure(row: Row, outcome: str) -> bool:
    if outcome == "expired":
        return bool(row["event"] == "expired")
    is_failed_handler = outcome == "failed" and row["event"] == "handled" and row["reason"]
    return row["event"] in _FAILURES or bool(is_failed_handler)


def _without_details(reason: str) -> str:
    """Return a reason without the number of its order and card, so that equal reasons can be counted."""
    return reason.split(" for order")[0].split(" card-")[0]
