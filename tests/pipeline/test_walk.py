"""The walk through flows in Arrow batches: however they are cut, and however large a flow is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from hopline.pipeline.paths.causality import DELIVERED, HANDLED, RESOLVED, SUBMITTED, beside, by_group
from hopline.pipeline.paths.walk import COLUMNS, FLOW_DETAIL_LIMIT, PATHS, walk
from hopline.pipeline.tables.messages import MESSAGES

_FLAGS = ("may_begin", "is_from_waiting", "is_answer", "is_receipt", "is_receipt_enough", "is_offence")
_NUMBERS = ("ts_us", "event_number", "trail", "callback_id", "request_id", "skew_us", "skew_bound_us")
_KNOWN = {field.name: field.type for field in to_arrow_schema(MESSAGES, timezone="UTC")} | {"handler_name": pa.string()}
_TYPES = _KNOWN | dict.fromkeys(_FLAGS, pa.bool_()) | dict.fromkeys(_NUMBERS, pa.int64())
SCHEMA = pa.schema([(name, _TYPES[name]) for name in COLUMNS])

Record = dict[str, Any]


def record(flow: str, event: int, at: int, message: int, node: int = 1, **columns: object) -> Record:
    names = {"flow_id": flow, "node": f"n{node}", "identity": f"M{min(message, 3)}"}
    numbers = {"event_number": event, "ts_us": at, "seq": at, "message_id": message, "fingerprint": message, "trail": 0}
    return dict.fromkeys(COLUMNS) | names | numbers | columns


def large_flow(flow: str, parts: int) -> list[Record]:
    """Ask, and get as many parts, each handled on one of two nodes, before the answer comes."""
    rows = [
        record(flow, SUBMITTED, 0, 1, may_begin=True, callback_id=5),
        record(flow, DELIVERED, 10, 1),
        *(
            record(flow, event, 100 + 3 * part + nth, 10 + part, cause=10 if event == SUBMITTED else None)
            for part in range(parts)
            for nth, event in enumerate((SUBMITTED, DELIVERED, HANDLED))
        ),
        record(flow, HANDLED, 9_000_000, 7, node=2),
        record(flow, DELIVERED, 8_000_000, 3, is_answer=True, callback_id=5),
        record(flow, RESOLVED, 8_000_001, 3, is_answer=True, callback_id=5),
    ]
    return sorted(rows, key=lambda row: row["ts_us"])


def walked(rows: list[Record], size: int = 1_000_000) -> list[Record]:
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(size)
    found: list[Record] = pa.Table.from_batches(walk(iter(batches)), PATHS).to_pylist()
    return found


@pytest.fixture(scope="module")
def flows() -> list[Record]:
    sizes = {"a": 1, "b": 800, "c": 0, "d": FLOW_DETAIL_LIMIT // 3 - 2, "e": FLOW_DETAIL_LIMIT // 3 + 1, "f": 1}
    return [row for flow, parts in sizes.items() for row in large_flow(flow, parts)]


@pytest.mark.parametrize("size", [1, 50, 333, 1_000, 5_000])
def test_batches_may_be_cut_anywhere(flows: list[Record], size: int) -> None:
    assert walked(flows, size) == walked(flows)
    assert [row["flow_id"] for row in walked(flows, size)] == list("abcdef")


def test_a_large_flow_still_ends_with_its_first_answer_and_knows_all_its_nodes(flows: list[Record]) -> None:
    for row in walked(flows):
        assert (row["start_us"], row["end_us"], row["nodes"], row["origin"]) == (0, 8_000_000, 2, "n1")
        assert sum(stage["us"] for stage in row["critical_path"]) == 8_000_000


def test_what_was_forged_is_left_out_with_the_note_that_it_was_rejected() -> None:
    rejected = 9
    forged = record("f", 3, 5, 2, is_offence=True), record("f", rejected, 6, 2)
    (row,) = walked([record("f", SUBMITTED, 1, 1, may_begin=True), *forged])
    assert (row["start_us"], row["end_us"]) == (1, 1)
    assert walked(list(forged)) == []


def test_no_batches_and_empty_ones_give_no_rows() -> None:
    assert walked([]) == []
    empty = pa.RecordBatch.from_pylist([], SCHEMA)
    assert list(walk(iter([empty, empty]))) == []


def test_records_that_follow_each_other_in_a_circle_end_somewhere() -> None:
    (row,) = walked([record("f", SUBMITTED, at, at, cause=3 - at) for at in (1, 2)])
    assert sum(stage["us"] for stage in row["critical_path"]) == row["end_us"] - row["start_us"]


def test_the_latest_before_is_of_the_same_group_and_never_the_record_itself() -> None:
    group = np.array([1, 1, 2, 1, 2])
    seq = np.array([5, 1, 2, 9, 7])
    wanted = np.array([True, True, False, True, True])
    assert by_group((group,), seq).latest_before(wanted).tolist() == [1, -1, -1, 0, -1]
    assert by_group((group[:0],), seq[:0]).latest_before(wanted[:0]).tolist() == []


def test_beside_marks_the_whole_group() -> None:
    group = np.array([3, 1, 3, 2])
    assert beside((group,), np.array([False, False, True, False])).tolist() == [True, False, True, False]
