"""The walk through flows in Arrow batches: however they are cut, and however large a flow is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hopline.pipeline.tables import critical_path
from hopline.pipeline.tables.causality import DELIVERED, HANDLED, RESOLVED, SUBMITTED, beside, by_group
from hopline.pipeline.tables.critical_path import ANSWER, FLOW_DETAIL_LIMIT, MAY_BEGIN, PATHS, paths

NUMBERS = (
    *("ts_us", "seq", "receiver_key", "cause", "message_id", "fingerprint", "hops", "bytes", "facts", "ask"),
    "bound_us",
)
TEXTS = ("flow_id", "node", "peer", "identity")
COLUMNS = pa.schema([*((name, pa.string()) for name in TEXTS), *((name, pa.int64()) for name in NUMBERS)])


def record(
    flow: str, event: int, at: int, message: int, node: int = 1, flags: int = 0, **columns: object
) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(NUMBERS, 0) | {"peer": None, "cause": None, "bound_us": None}
    names = {"flow_id": flow, "node": f"n{node}", "identity": f"M{min(message, 3)}"}
    numbers = {"facts": event + flags, "ts_us": at, "seq": at, "message_id": message, "bytes": 10}
    return row | names | numbers | columns


def large_flow(flow: str, parts: int) -> list[dict[str, object]]:
    """Ask, and get as many parts, each handled on one of two nodes, before the answer comes."""
    rows = [
        record(flow, SUBMITTED, 0, 1, flags=MAY_BEGIN, ask=5),
        record(flow, DELIVERED, 10, 1),
        *(
            record(flow, event, 100 + 3 * part + nth, 10 + part, cause=10 if event == SUBMITTED else None)
            for part in range(parts)
            for nth, event in enumerate((SUBMITTED, DELIVERED, HANDLED))
        ),
        record(flow, HANDLED, 9_000_000, 7, node=2),
    ]
    rows.append(record(flow, DELIVERED, 8_000_000, 3, flags=ANSWER, ask=5))
    rows.append(record(flow, RESOLVED, 8_000_001, 3, flags=ANSWER, ask=5))
    return sorted(rows, key=lambda row: (str(row["ts_us"]).zfill(9), str(row["node"])))


def walked(rows: list[dict[str, object]], size: int) -> list[dict[str, object]]:
    table = pa.Table.from_pylist(rows, COLUMNS).combine_chunks()
    found: list[dict[str, object]] = pa.Table.from_batches(paths(iter(table.to_batches(size))), PATHS).to_pylist()
    return found


@pytest.fixture(scope="module")
def flows() -> list[dict[str, object]]:
    sizes = {"a": 1, "b": 800, "c": 0, "d": FLOW_DETAIL_LIMIT // 3 - 2, "e": FLOW_DETAIL_LIMIT // 3 + 1, "f": 1}
    return [row for flow, parts in sizes.items() for row in large_flow(flow, parts)]


@pytest.mark.parametrize("size", [50, 333, 1_000, 5_000])
def test_batches_may_be_cut_anywhere(
    flows: list[dict[str, object]], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = walked(flows, 1 << 20)
    assert walked(flows, size) == at_once
    monkeypatch.setattr(critical_path, "ROWS_AT_ONCE", size)
    assert walked(flows, size) == at_once


def test_a_large_flow_still_ends_with_its_first_answer_and_knows_all_its_nodes(flows: list[dict[str, object]]) -> None:
    for row in walked(flows, 1_000):
        assert (row["start_us"], row["end_us"], row["nodes"]) == (0, 8_000_000, 2)


def test_what_is_whole_is_counted_and_what_is_too_large_is_left_to_others(flows: list[dict[str, object]]) -> None:
    for row in walked(flows, 1_000):
        records = sum(one["flow_id"] == row["flow_id"] for one in flows)
        found = [row[name] for name in ("records", "messages", "hops", "bytes", "is_failed", "is_expired")]
        if records > FLOW_DETAIL_LIMIT:
            assert found == [None] * 6
        else:
            messages = (records - 5) // 3 + 3
            assert found == [records, messages, 0, 10 * messages, False, False]


def test_no_batches_and_empty_ones_give_no_rows() -> None:
    empty = pa.RecordBatch.from_pylist([], COLUMNS)
    assert list(paths(iter([]))) == []
    assert list(paths(iter([empty, empty]))) == []


def test_records_that_follow_each_other_in_a_circle_end_somewhere() -> None:
    rows = [record("f", SUBMITTED, at, at, cause=3 - at) for at in (1, 2)]
    (row,) = walked(rows, 10)
    stages = row["critical_path"]
    assert isinstance(stages, list)
    assert sum(stage["us"] for stage in stages) == row["end_us"] - row["start_us"]  # type: ignore[operator]


def test_the_latest_before_is_of_the_same_group_and_never_the_record_itself() -> None:
    group = np.array([1, 1, 2, 1, 2])
    seq = np.array([5, 1, 2, 9, 7])
    wanted = np.array([True, True, False, True, True])
    assert by_group((group,), seq).latest_before(wanted).tolist() == [1, -1, -1, 0, -1]
    assert by_group((group[:0],), seq[:0]).latest_before(wanted[:0]).tolist() == []


def test_beside_marks_the_whole_group() -> None:
    group = np.array([3, 1, 3, 2])
    assert beside((group,), np.array([False, False, True, False])).tolist() == [True, False, True, False]
