"""Why orders failed: told by their own records, and for every one of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from hopline.demo.findings import findings
from hopline.demo.reasons import reasons_of
from tests.query.written import NOON, flow, write_table

Row = dict[str, Any]


def record(flow_id: str, at: int, event: str, node: str = "warehouse", **columns: Any) -> Row:
    said = {"flow_id": flow_id, "ts": NOON + timedelta(seconds=at), "event": event, "node": node, "seq": at}
    return said | {"identity": "ORDER.PLACED", "fingerprint": at} | columns


def offence(received: Row, verdict: str) -> Row:
    return {name: received[name] for name in ("ts", "node", "seq", "flow_id", "fingerprint")} | {"offence": verdict}


def reasons(out: Path, outcome: str, *records: Row, callback: str = "expired", offences: Sequence[Row] = ()) -> str:
    write_table(out, "incidents", offences)
    write_table(out, "messages", records)
    write_table(out, "flows", [flow("f", outcome, 2_400_000)])
    write_table(out, "callbacks", [{"flow_id": "f", "ttl_us": 2_000_000, "outcome": callback}])
    return reasons_of(out, {"f": outcome})["f"]


def test_where_every_flow_completed_there_are_no_reasons(tmp_path: Path) -> None:
    assert reasons_of(tmp_path, {}) == {}


def test_a_handler_that_failed_is_the_reason(tmp_path: Path) -> None:
    found = reasons(
        tmp_path,
        "failed",
        record("f", 1, "submitted", "front"),
        record("f", 2, "handled", reason="SoldOutError: no lamp left for order 7"),
        record("f", 3, "resolved", "front"),
    )
    assert found == "handled at warehouse: SoldOutError: no lamp left"


def test_a_message_that_was_forged_for_a_flow_is_not_the_reason(tmp_path: Path) -> None:
    forged = record("f", 3, "received", "payments", fingerprint=66)
    found = reasons(
        tmp_path,
        "failed",
        record("f", 2, "unroutable", "front", reason="nobody handles it"),
        forged,
        record("f", 4, "rejected", "payments", reason="wrong signature", fingerprint=66),
        offences=[offence(forged, "bad_signature")],
    )
    assert found == "unroutable at front: nobody handles it"


def test_a_replayed_message_is_neither_the_reason_nor_where_its_flow_was_seen_last(tmp_path: Path) -> None:
    first, again = (record("f", at, "received", "payments", fingerprint=66) for at in (1, 4))
    found = reasons(
        tmp_path,
        "expired",
        first,
        record("f", 2, "sent", "payments"),
        again,
        record("f", 5, "rejected", "payments", reason="replayed", fingerprint=66),
        offences=[offence(again, "replayed")],
    )
    assert found == "no answer within 2 s; last seen sent at payments, ORDER.PLACED"


def test_a_message_of_its_own_that_was_rejected_is(tmp_path: Path) -> None:
    found = reasons(tmp_path, "failed", record("f", 4, "rejected", "payments", reason="unsigned"))
    assert found == "rejected at payments: unsigned"


def test_a_flow_whose_time_was_over_says_where(tmp_path: Path) -> None:
    over = record("f", 3, "expired", "payments", reason="its lifetime was over while it waited")
    later = record("f", 4, "handled", reason="ValueError: what happened elsewhere meanwhile")
    assert reasons(tmp_path, "expired", over, later) == "expired at payments: its lifetime was over while it waited"


def test_a_flow_that_nobody_answered_says_how_long_it_was_waited_for_and_where_it_was_last(tmp_path: Path) -> None:
    records = record("f", 2, "sent", "front"), record("f", 3, "received", "payments", identity="ORDER.RESERVED")
    found = reasons(tmp_path, "expired", *records)
    assert found == "no answer within 2 s; last seen received at payments, ORDER.RESERVED"


def test_a_flow_that_was_answered_late_says_what_took_so_long(tmp_path: Path) -> None:
    answer = record("f", 3, "delivered", "front", identity="ORDER.SHIPPED")
    found = reasons(tmp_path, "expired", answer, callback="late")
    assert found == "answered late, not within 2 s: mostly run of ORDER at b"


def test_every_order_that_did_not_complete_has_a_reason_below_its_outcome(tmp_path: Path) -> None:
    outcomes = {"one": "complete", "two": "expired", "three": "expired", "four": "failed"}
    for name in ("handlers", "hops", "incidents", "rejects", "audit"):
        write_table(tmp_path, name, [])
    write_table(
        tmp_path, "flows", [flow(name, outcome, 5, identity="ORDER.PLACED") for name, outcome in outcomes.items()]
    )
    write_table(tmp_path, "callbacks", [{"flow_id": "two", "ttl_us": 2_000_000}])
    write_table(
        tmp_path,
        "messages",
        [
            record("two", 1, "sent", "front"),
            record("three", 2, "expired", "payments", reason="its lifetime was over"),
            record("four", 3, "handled", reason="CardDeclinedError: the bank declined card card-0001 for order 9"),
            record("elsewhere", 4, "rejected", reason="wrong signature"),
        ],
    )
    first, *others = findings(tmp_path)
    lines = [" ".join(line.replace("█", "").split()) for line in first.lines]
    assert lines == [
        "expired 2",
        "1 x expired at payments: its lifetime was over",
        "1 x no answer within 2 s; last seen sent at front, ORDER.PLACED",
        "complete 1",
        "failed 1",
        "1 x handled at warehouse: CardDeclinedError: the bank declined card",
    ]
    orders = [shlex.split(one.command)[-1] for one in (first, *others) if "--order-by" in one.command]
    assert orders == ["duration_us desc", "wait_p95_us desc"]  # the worst first
