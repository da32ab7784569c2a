from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from hopline.pipeline.where import ConditionError, condition

TIMES = [datetime(2026, 1, 31, 12, tzinfo=UTC), datetime(2026, 1, 31, 13, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)]
SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("count", pa.int64()),
        ("share", pa.float64()),
        ("lost", pa.bool_()),
        ("ts", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("date", pa.date32()),
    ]
)
TABLE = pa.table(
    {
        "name": ["one", "it's", None],
        "count": [1, 2, 30],
        "share": [0.5, 1.5, None],
        "lost": [True, False, None],
        "ts": TIMES,
        "key": [b"\x01", b"\x02", None],
        "date": [at.date() for at in TIMES],
    },
    SCHEMA,
)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("name = 'one'", [1]),
        ("name <> 'one'", [2]),
        ("name = 'it''s'", [2]),
        ("NAME is null", [30]),
        ("name is null", [30]),
        ("name IS NOT NULL", [1, 2]),
        ("name in ('one', 'two')", [1]),
        ("name not in ('one')", [2]),
        ("name like 'o%' or count >= 30", [1, 30]),
        ("name not like 'o%'", [2]),
        ("count between 2 and 30", [2, 30]),
        ("count > 1 and not (count = 30)", [2]),
        ("count = 1 or count = 2 and lost", [1]),
        ("(count = 1 or count = 2) and lost = false", [2]),
        ("count < 1.5", [1]),
        ("share > 1", [2]),
        ("lost", [1]),
        ("not lost", [2]),
        ("ts >= '2026-01-31 13:00'", [2, 30]),
        ("ts between '2026-01-31' and '2026-01-31 12:30:00'", [1]),
        ("date = '2026-02-01'", [30]),
        ("key = '0x02'", [2]),
        ('"count" = 2', [2]),
        ("`count` = 2", [2]),
        ("count = -1", []),
    ],
)
def test_a_condition_means_what_it_means_in_sql(text: str, counts: list[int]) -> None:
    assert ds.dataset(TABLE).to_table(filter=condition(text, SCHEMA)).column("count").to_pylist() == counts


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a column at the end"),
        ("colour = 'red'", "expected a column, found 'colour'; there are: name, count"),
        ("count", "expected =, <>, <, >, in, like, between or is null behind count"),
        ("count =", "expected a value at the end"),
        ("count = 'many'", "'many' is no int64"),
        ("count = true", "true is no int64"),
        ("name = one", "expected a value, found 'one'; text stands in 'single quotes'"),
        ("name = 'one' count = 2", "did not expect 'count' there"),
        ("(count = 1", "expected '\\)', found 'the end'"),
        ("count = 1; drop table", "cannot read '; drop table'"),
        ("date = 'yesterday'", "'yesterday' is no date32"),
        ("__import__('os')", "expected a column, found '__import__'"),
        ("(" * 5_000 + "count = 1" + ")" * 5_000, "more than 100 brackets or nots are nested"),
        ("not " * 5_000 + "count = 1", "more than 100 brackets or nots are nested"),
        (" or ".join(["count = 1"] * 20_000), "more than 1,000 comparisons"),
    ],
)
def test_what_is_no_condition_is_said_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ConditionError, match=problem):
        condition(text, SCHEMA)


def test_the_error_of_a_long_condition_is_short() -> None:
    with pytest.raises(ConditionError) as caught:
        condition("(" * 5_000 + "count = 1", SCHEMA)
    assert len(str(caught.value)) < 400


def test_what_is_nested_and_long_but_not_too_much_is_read() -> None:
    text = "(" * 99 + " or ".join(["count = 2"] * 1_000) + ")" * 99
    assert ds.dataset(TABLE).to_table(filter=condition(text, SCHEMA)).column("count").to_pylist() == [2]
