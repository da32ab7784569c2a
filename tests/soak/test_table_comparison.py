"""Tables are compared as multisets of rows, whatever their order, their files, and the stream's own column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopline.pipeline.tables.all import TABLES
from tests.soak.table_comparison import PROVISIONAL, Comparison, compare, rows_in


def write(folder: Path, name: str, rows: list[dict[str, object]], file: str = "part-0.parquet") -> None:
    path = folder / name / "date=2026-01-31" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def compared(tmp_path: Path, name: str = "flows") -> Comparison:
    comparisons = {each.table: each for each in compare(tmp_path / "stream", tmp_path / "batch", tmp_path)}
    assert set(comparisons) == set(TABLES)
    return comparisons[name]


def row(number: int, **other: object) -> dict[str, object]:
    return {"flow_id": f"flow {number}", "duration_us": number, "path": [{"stage": "a", "us": number}], **other}


def test_rows_may_be_in_other_files_and_in_another_order(tmp_path: Path) -> None:
    write(tmp_path / "batch", "flows", [row(1), row(2), row(2)])
    write(tmp_path / "stream", "flows", [row(2, provisional=False)])
    write(tmp_path / "stream", "flows", [row(2, provisional=True), row(1, provisional=False)], "part-1.parquet")
    assert compared(tmp_path) == Comparison("flows", 3, 3, 0, 0)
    assert PROVISIONAL == "provisional"


def test_a_row_that_is_there_more_often_is_found(tmp_path: Path) -> None:
    write(tmp_path / "batch", "flows", [row(1), row(2)])
    write(tmp_path / "stream", "flows", [row(1), row(2), row(2)])
    comparison = compared(tmp_path)
    assert (comparison.only_stream, comparison.only_batch) == (1, 0)
    assert not comparison.is_equal


def test_the_columns_in_which_rows_differ_are_named(tmp_path: Path) -> None:
    write(tmp_path / "batch", "flows", [row(1), row(2)])
    write(tmp_path / "stream", "flows", [row(1), row(2) | {"duration_us": 3}])
    comparison = compared(tmp_path)
    assert (comparison.only_stream, comparison.only_batch) == (1, 1)
    assert comparison.differing_columns == ("duration_us",)


def test_a_column_that_only_one_side_has_is_a_difference(tmp_path: Path) -> None:
    write(tmp_path / "batch", "flows", [row(1)])
    write(tmp_path / "stream", "flows", [row(1, more=1)])
    assert compared(tmp_path).other_columns == ("more",)
    assert not compared(tmp_path).is_equal


@pytest.mark.parametrize("empty", ["stream", "batch"])
def test_a_table_without_rows_differs_from_one_that_has_some(tmp_path: Path, empty: str) -> None:
    write(tmp_path / ("batch" if empty == "stream" else "stream"), "flows", [row(1)])
    comparison = compared(tmp_path)
    assert comparison.only_stream + comparison.only_batch == 1


def test_tables_that_are_not_there_are_equal_and_hidden_files_do_not_count(tmp_path: Path) -> None:
    write(tmp_path / "batch", "flows", [row(1)], ".hidden.parquet")
    assert compared(tmp_path).is_equal


def test_rows_of_several_tables_are_added_up(tmp_path: Path) -> None:
    write(tmp_path / "batch", "messages", [row(1), row(2)])
    write(tmp_path / "batch", "rejects", [row(3)])
    assert rows_in(tmp_path / "batch", ["messages", "rejects"], tmp_path) == 3
