"""Spans of numbers: however the records are divided, what is missing between them is the same."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from hopline.pipeline.traces.spans import SPANS, spans_of
from tests.pipeline.rows import Row, moment

NUMBERED = pa.schema(
    [("node", pa.string()), ("seq", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("dropped", pa.int32())]
)


def record(node: str | None, seq: int | None, dropped: int | None = 0) -> Row:
    return {"node": node, "seq": seq, "ts": moment(seq or 0), "dropped": dropped}


def spans(rows: list[Row]) -> list[tuple[str | None, int, int, int]]:
    found = spans_of([pa.Table.from_pylist(rows, NUMBERED)])
    assert found.schema == SPANS
    return [(row["node"], row["first"], row["last"], row["dropped"]) for row in found.to_pylist()]


def test_numbers_that_follow_each_other_are_one_span() -> None:
    rows = [*(record("a", seq) for seq in (1, 2, 3, 7, 8)), *(record("b", seq) for seq in (3, 4))]
    rows[3] |= {"dropped": 2}
    Random(1).shuffle(rows)
    assert spans(rows) == [("a", 1, 3, 0), ("a", 7, 8, 2), ("b", 3, 4, 0)]


def test_a_number_that_is_there_twice_is_no_gap() -> None:
    assert spans([record("a", seq) for seq in (1, 2, 2, 3)]) == [("a", 1, 3, 0)]


@pytest.mark.parametrize("rows", [[], [record("a", None)]])
def test_without_numbers_there_are_no_spans(rows: list[Row]) -> None:
    assert spans(rows) == []


def test_a_record_that_says_nothing_has_dropped_nothing() -> None:
    assert spans([record(None, 5, None)]) == [(None, 5, 5, 0)]
