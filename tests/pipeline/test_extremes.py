"""One flow without end, and traffic without flows: counted in full, never held in one piece."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
from benchmarks.pipeline.extremes import ONE_FLOW, no_flow, one_flow
from pyspark.sql import SparkSession

from hopline.pipeline import PipelineOptions, run

RECORDS = 20_000


def rows(tables: Path, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = (
        ds.dataset(tables / name, format="parquet", partitioning="hive").to_table().to_pylist()
    )
    return found


def test_a_flow_without_end_is_counted_exactly_and_cut_off(spark: SparkSession, tmp_path: Path) -> None:
    one_flow(tmp_path / "captures", RECORDS)
    options = PipelineOptions(
        captures=(str(tmp_path / "captures"),),
        out=tmp_path / "tables",
        tables=("messages", "hops", "callbacks", "flows"),
    )
    report = run(options, spark)
    assert report.records == report.messages == RECORDS
    (flow,) = rows(tmp_path / "tables", "flows")
    assert (flow["flow_id"], flow["outcome"]) == (ONE_FLOW.decode(), "truncated")
    assert (flow["records"], flow["messages"], flow["hops"], flow["nodes"]) == (RECORDS, RECORDS // 2, RECORDS // 2, 2)


def test_messages_of_no_flow_are_counted_and_never_stitched(spark: SparkSession, tmp_path: Path) -> None:
    no_flow(tmp_path / "captures", RECORDS)
    options = PipelineOptions(captures=(str(tmp_path / "captures"),), out=tmp_path / "tables")
    report = run(options, spark)
    assert report.records == report.messages == RECORDS
    assert report.rows["flows"] == report.rows["callbacks"] == 0
    assert report.rows["hops"] == RECORDS // 2
    assert not any(hop["lost"] or hop["duplicate"] for hop in rows(tmp_path / "tables", "hops"))
