"""Captures and tables wherever Spark reads and writes: other file systems, other formats, a catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from hopline.capture.records import CAPTURE_SCHEMA
from hopline.cli import app
from hopline.message import ArgumentError
from hopline.pipeline import PipelineOptions, run
from hopline.pipeline.failures import PipelineError
from hopline.pipeline.spark_work import exactly, with_settings
from hopline.pipeline.tables.all import TABLES
from tests.pipeline.captures import NOON, crossing, record, write_day, write_segment
from tests.pipeline.table_rows import Rows, contents, in_order
from tests.pipeline.webhdfs import webhdfs

DAY = timedelta(days=1)
SOME = ("messages", "rejects", "audit")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with captures of two days: crossings, garbage, and a segment that is still written."""
    folder = tmp_path_factory.mktemp("lake")
    captures = folder / "my captures"
    write_day(captures, [one for number in (1, 2, 3) for one in crossing(number)])
    write_day(captures, [one for number in (4, 5) for one in crossing(number, NOON + DAY)])
    write_day(captures, [record(6, "received", "c", frames=[b"once", b"upon"])], "c-1-1.parquet")
    for hidden in (".a-1-2.open", ".a-1-2.rows"):
        (captures / f"date={NOON:%Y-%m-%d}" / hidden).write_bytes(b"PAR1, and no more yet")
    return folder


@pytest.fixture(scope="module")
def expected(spark: SparkSession, lake: Path) -> Rows:
    """All tables, by a run on paths of this machine."""
    run(PipelineOptions(captures=(str(lake / "my captures"),), out=lake / "local"), spark)
    return contents(lake / "local")


@pytest.fixture(params=["webhdfs", "viewfs"])
def uri(request: pytest.FixtureRequest, spark: SparkSession, lake: Path) -> Iterator[str]:
    """The same folder on another file system."""
    if request.param == "webhdfs":
        with webhdfs(lake) as served:
            yield served
    else:
        with with_settings(spark, {"fs.viewfs.mounttable.lake.link./data": lake.as_uri()}):
            yield "viewfs://lake/data"


def test_captures_and_tables_may_be_on_any_storage(uri: str, spark: SparkSession, lake: Path, expected: Rows) -> None:
    out = f"tables by {uri.partition(':')[0]}"
    report = run(PipelineOptions(captures=(f"{uri}/my captures",), out=f"{uri}/{out}"), spark)
    assert (report.records, report.messages, report.rejects) == (11, 10, 1)
    assert list(expected) == list(TABLES)
    found = contents(lake / out)
    for name in TABLES:
        assert found[name] == expected[name], name
    if uri.startswith("webhdfs"):
        assert contents(f"{uri}/{out}") == expected
        shown = CliRunner().invoke(app, ["tables", f"{uri}/{out}", "hops"])
        assert "5 of 5 rows of hops" in shown.output


def test_orc_files_are_written_read_and_replaced(spark: SparkSession, lake: Path, expected: Rows) -> None:
    out = lake / "orc [2] {and more}"  # no pattern
    options = PipelineOptions(captures=(str(lake / "my captures"),), out=out, format="orc", tables=SOME)
    for _ in range(2):
        run(options, spark)
    for name in SOME:
        rows = spark.read.orc(exactly(str(out / name))).toArrow().to_pylist()
        assert in_order(rows) == expected[name], name
    before = set(out.rglob("*"))
    with pytest.raises(ArgumentError, match=r"format.*expected orc, as the tables that .* has.*parquet"):
        run(replace(options, format="parquet"), spark)
    assert set(out.rglob("*")) == before


@pytest.fixture
def schema(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A schema of Spark's own catalogue."""
    spark.sql(f"CREATE SCHEMA traffic LOCATION '{tmp_path}'")
    yield "spark_catalog.traffic"
    spark.sql("DROP SCHEMA traffic CASCADE")


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_tables_of_a_catalogue_are_made_and_replaced(
    schema: str, format_: str, spark: SparkSession, lake: Path, expected: Rows, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"table_prefix": schema, "format": format_, "tables": SOME}
    run(PipelineOptions(captures=(str(lake / "my captures"),), **options), spark)
    for name in SOME:
        assert in_order(spark.table(f"{schema}.{name}").toArrow().to_pylist()) == expected[name], name
    meanings = {row.col_name: row.comment for row in spark.sql(f"DESCRIBE {schema}.rejects").collect()}
    assert meanings["code"] == TABLES["rejects"].schema["code"].metadata["comment"]
    # The next run replaces one day, which has no rejects any more; the other day stays.
    emptied = tmp_path / "captures"
    write_day(emptied, crossing(9))
    run(PipelineOptions(captures=(str(emptied),), **options), spark)
    assert (spark.table(f"{schema}.rejects").count(), spark.table(f"{schema}.run").count()) == (0, 1)
    days = spark.table(f"{schema}.messages").groupBy("date").count().collect()
    assert {row.date: row["count"] for row in days} == {NOON.date(): 2, (NOON + DAY).date(): 4}


def test_a_schema_or_format_that_is_not_there_is_said_in_one_line(spark: SparkSession, lake: Path) -> None:
    captures = (str(lake / "my captures"),)
    with pytest.raises(PipelineError, match="rejects: no such schema: create it first") as raised:
        run(PipelineOptions(captures=captures, table_prefix="nowhere", tables=("rejects",)), spark)
    assert "\n" not in str(raised.value)
    with pytest.raises(PipelineError, match="rejects: unknown format: check --format, or add its package"):
        run(PipelineOptions(captures=captures, out=lake / "delta", format="delta", tables=("rejects",)), spark)


def test_records_without_a_time_are_kept_on_a_day_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    segment = tmp_path / "captures" / "another.parquet"
    times_may_be_missing = CAPTURE_SCHEMA.set(
        CAPTURE_SCHEMA.get_field_index("ts"), CAPTURE_SCHEMA.field("ts").with_nullable(True)
    )
    write_segment(segment, [one | {"ts": None} for one in crossing(1)] + crossing(2), times_may_be_missing)
    options = PipelineOptions(captures=(str(segment),), out=tmp_path / "out", tables=("messages", "hops"))
    for _ in range(2):
        run(options, spark)
        found = contents(tmp_path / "out")
        assert sorted(str(row["date"]) for row in found["messages"]) == [str(NOON.date())] * 2 + ["None"] * 2
        assert sorted(row["flow_id"] for row in found["hops"]) == ["flow-1", "flow-2"]
