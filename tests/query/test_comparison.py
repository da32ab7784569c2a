"""Tables are compared as multisets of rows, whatever their order, their files, and the stream's own column."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopline.pipeline.tables.all import TABLES
from hopline.query.comparison import TableComparison, compare_tables


def write(folder: Path, name: str, rows: list[dict[str, object]], file: str = "part-0.parquet") -> None:
    path = folder / name / "date=2026-01-31" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def compared(tmp_path: Path, name: str = "flows", ignored: Collection[str] = ()) -> TableComparison:
    comparisons = {each.table: each for each in compare_tables(tmp_path / "stream", tmp_path / "batch", ignored)}
    assert set(comparisons) == set(TABLES)
    return comparisons[name]


def row(number: int, **other: object) -> dict[str, object]:
    return {"flow_id": f"flow {number}", "duration_us": number, "path": [{"stage": "a", "us": number}], **other}


def test_rows_may_be_in_other_files_and_in_another_order(tmp_path: Path) -> None:
    write(tmp_path / "batch", "flows", [row(1), row(2), row(2)])
    write(tmp_path / "stream", "flows", [row(2, provisional=False)])
    write(tmp_path / "stream", "flows", [row(2, provisional=True), row(1, provisional=False)], "part-1.parquet")
    assert compared(tmp_path) == TableComparison("flows", stream=3, batch=3, only_stream=0, only_batch=0)
    assert str(compared(tmp_path)) == "flows: 3 rows, equal"


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
    text = "flows: 1 row only of the stream, 1 only of the batch job; they differ in duration_us"
    assert str(comparison) == text
    of_stream, of_batch = comparison.examples
    assert of_stream.startswith("stream: {'flow_id': flow 2, 'duration_us': 3,")
    assert of_batch.startswith("batch: {'flow_id': flow 2, 'duration_us': 2,")
    assert compared(tmp_path, ignored=["duration_us"]).is_equal


def test_a_column_that_only_one_side_has_is_a_difference(tmp_path: Path) -> None:
    write(tmp_path / "batch", "flows", [row(1)])
    write(tmp_path / "stream", "flows", [row(1, more=1)])
    comparison = compared(tmp_path)
    assert not comparison.is_equal
    assert str(comparison).endswith("; other columns: more")


@pytest.mark.parametrize("empty", ["stream", "batch"])
def test_a_table_without_rows_differs_from_one_that_has_some(tmp_path: Path, empty: str) -> None:
    write(tmp_path / ("batch" if empty == "stream" else "stream"), "flows", [row(1)])
    comparison = compared(tmp_path)
    assert comparison.only_stream + comparison.only_batch == 1


def test_tables_that_are_not_there_are_equal_and_hidden_files_do_not_count(tmp_path: Path) -> None:
    write(tmp_path / "batch", "flows", [row(1)], ".hidden.parquet")
    assert compared(tmp_path).is_equal
