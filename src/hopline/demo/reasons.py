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
    dataset = ds.dataset(
        tables / name,
        format="parquet",
        partitioning="hive",
        exclude_invalid_files=False,
    )
    table = dataset.to_table(columns=list(columns), filter=where)
    rows: list[Row] = table.to_pylist()
    return rows


def reasons_of(tables: Path, outcomes: Mapping[str, str]) -> dict[str, str]:
    """Return why each flow ended as it did; `outcomes` has the outcome of every flow id."""
    if not outcomes:
        return {}
    is_chosen = ds.field("flow_id").isin(list(outcomes))
    is_offence = ds.field("offence").isin(_OFFENCES)
    offences = rows_of(tables, "incidents", ("ts", "node", "seq", "fingerprint"), is_chosen & is_offence)
    records: dict[str, list[Row]] = {flow: [] for flow in outcomes}
    for record in rows_of(tables, "messages", _COLUMNS, is_chosen):
        flow_id = record["flow_id"]
        records[flow_id].append(record)
    callbacks: dict[str, Row] = {}
    for callback in rows_of(tables, "callbacks", ("flow_id", "ttl_us", "outcome"), is_chosen):
        flow_id = callback["flow_id"]
        callbacks[flow_id] = callback
    paths: dict[str, list[Row]] = {}
    for flow in rows_of(tables, "flows", ("flow_id", "critical_path"), is_chosen):
        flow_id = flow["flow_id"]
        paths[flow_id] = flow["critical_path"] or []
    reasons = {}
    for flow_id, outcome in outcomes.items():
        reasons[flow_id] = _reason(
            outcome,
            records=_without_offences(records[flow_id], offences),
            callback=callbacks.get(flow_id, {}),
            path=paths.get(flow_id, []),
        )
    return reasons


def _without_offences(records: list[Row], offences: list[Row]) -> list[Row]:
    """Return the genuine records of a flow, in the order of their times."""
    offending = set(map(_record_key, offences))
    forged = set(map(_message_key, offences))
    genuine = []
    for record in records:
        if _record_key(record) in offending:
            continue
        is_rejection = record["event"] == "rejected"
        if is_rejection and _message_key(record) in forged:
            continue
        genuine.append(record)
    return sorted(genuine, key=_time_key)


def _record_key(row: Row) -> tuple[Any, ...]:
    return row["node"], row["seq"], row["ts"]


def _message_key(row: Row) -> tuple[Any, ...]:
    return row["node"], row["fingerprint"]


def _time_key(row: Row) -> tuple[Any, ...]:
    return row["ts"], row["node"], row["seq"]


def _reason(outcome: str, records: list[Row], callback: Row, path: list[Row]) -> str:
    failures = [record for record in records if _is_failure(record, outcome)]
    if failures:
        last_failure = max(failures, key=_time_key)
        return _failure_text(last_failure)
    timeout = _timeout_text(callback)
    is_late = callback.get("outcome") == "late"
    if is_late and path:
        longest = max(path, key=_stage_time)
        stage = f"{longest['stage']} of {longest['identity']} at {longest['node']}"
        return f"answered late, not{timeout}: mostly {stage}"
    if not records:
        return f"no answer{timeout}"
    last = records[-1]
    place = f"{last['event']} at {last['node']}, {last['identity']}"
    return f"no answer{timeout}; last seen {place}"


def _timeout_text(callback: Row) -> str:
    ttl = callback.get("ttl_us")
    if not ttl:
        return ""
    seconds = ttl / _MICROSECONDS
    return f" within {seconds:g} s"


def _stage_time(stage: Row) -> int:
    time: int = stage["us"]
    return time


def _failure_text(record: Row) -> str:
    event = record["event"]
    node = record["node"]
    reason = record["reason"] or record["identity"]
    return f"{event} at {node}: {_without_details(reason)}"


def _is_failure(record: Row, outcome: str) -> bool:
    event = record["event"]
    if outcome == "expired":
        return bool(event == "expired")
    if event in _FAILURES:
        return True
    is_failed_handler = event == "handled" and bool(record["reason"])
    return outcome == "failed" and is_failed_handler


def _without_details(reason: str) -> str:
    """Return a reason without the number of its order and card, so that equal reasons can be counted."""
    reason, _, _ = reason.partition(" for order")
    reason, _, _ = reason.partition(" card-")
    return reason
