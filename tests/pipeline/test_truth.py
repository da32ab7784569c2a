"""Every planted fault is found, and nothing else is reported; and it does not matter how the records come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from hopline.generator import Options, generate
from hopline.generator.evaluation import evaluate
from hopline.generator.plan import ALL_FAULTS_FROM
from hopline.pipeline import PipelineOptions, run
from hopline.pipeline.tables.all import TABLES


@pytest.mark.timeout(900)
@pytest.mark.parametrize("records", [ALL_FAULTS_FROM, pytest.param(100_000, marks=pytest.mark.slow)])
def test_precision_and_recall_are_1_for_every_kind_of_fault(spark: SparkSession, tmp_path: Path, records: int) -> None:
    made, tables = tmp_path / "made", tmp_path / "tables"
    generate(made, Options(messages=records, seed=3))
    options = PipelineOptions(captures=(str(made / "captures"),), out=tables, keys=made / "keys/hopline.toml")
    report = run(options, compiled(spark))
    assert report.records == report.messages + report.rejects >= records
    scores = list(evaluate(made / "truth", tables))
    assert [score for score in scores if not score.is_perfect] == []
    assert {score.what for score in scores if score.planted} >= {
        "flows: failed",
        "flows: expired",
        "flows: unanswered",
        "flows: orphan",
        "flows: truncated",
        "flows: nested",
        "journeys",
        "callbacks: late",
        "hops: lost",
        "hops: duplicated",
        "incidents: bad_signature",
        "incidents: replayed",
        "rejects",
    }
    check_skew_of_flows(made / "truth", tables)


def compiled(spark: SparkSession) -> SparkSession:
    """Return a session that compiles its queries, as those of users do; with so many rows that is quicker, too."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    return session


def check_skew_of_flows(truth: Path, tables: Path) -> None:
    """Hold the skew of every flow's duration against the clocks as they were set."""
    clocks = {row["node"]: row["offset_us"] for row in pq.read_table(truth / "skew.parquet").to_pylist()}
    flows = ds.dataset(tables / "flows", format="parquet", partitioning="hive")
    columns = ["flow_id", "origin", "skew_us", "skew_bound_us", "critical_path"]
    seen = 0
    for flow in flows.to_table(columns=columns, filter=ds.field("skew_bound_us") > 0).to_pylist():
        if flow["origin"] is not None:
            skew = clocks[flow["critical_path"][-1]["node"]] - clocks[flow["origin"]]
            assert abs(flow["skew_us"] - skew) <= flow["skew_bound_us"], flow
            seen += skew != 0
    assert seen > 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("partitions", [7, pytest.param(64, marks=pytest.mark.slow)])
def test_tables_do_not_depend_on_how_the_records_are_divided_and_ordered(
    spark: SparkSession, tmp_path: Path, partitions: int
) -> None:
    made = tmp_path / "made"
    generate(made, Options(messages=2_000, seed=5))
    shuffle(made / "captures", tmp_path / "shuffled", files=7)
    for captures, number in (("made/captures", 1), ("shuffled", partitions)):
        session = spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", str(number))
        session.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")  # all of them, empty or not
        keys, out = made / "keys/hopline.toml", tmp_path / f"tables-{number}"
        run(PipelineOptions(captures=(str(tmp_path / captures),), out=out, keys=keys), session)
    for name in TABLES:
        expected = in_order(tmp_path / "tables-1" / name)
        assert in_order(tmp_path / f"tables-{partitions}" / name) == expected, name


def shuffle(captures: Path, out: Path, files: int) -> None:
    """Write the same records into other files, in another order."""
    table = ds.dataset(captures, format="parquet").to_table()
    order = np.random.default_rng(1).permutation(len(table))
    table = table.take(pa.array(order))
    out.mkdir()
    for number in range(files):
        pq.write_table(table.take(pa.array(np.arange(number, len(table), files))), out / f"{number}.parquet")


def in_order(table: Path) -> list[str]:
    """Return the rows of a table, without the names of the files that they came from."""
    rows = ds.dataset(table, format="parquet", partitioning="hive").to_table()
    rows = rows.drop_columns([name for name in rows.column_names if name == "segment"])
    return sorted(map(repr, rows.to_pylist()))
