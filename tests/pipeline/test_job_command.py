"""`hopline pipeline run` in the session of the tests: a context that runs already is used."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from hopline.cli import app
from hopline.cli.commands.tables.command import snippets
from tests.pipeline.captures import NOON, crossing, write_day
from tests.pipeline.webhdfs import webhdfs
from tests.query.written import run_document, write_tables

pytestmark = pytest.mark.usefixtures("spark")


def hopline(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "200"})


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    write_day(tmp_path / "captures", crossing(1) + crossing(2))
    return tmp_path / "captures"


def test_a_run_says_what_it_does_and_finds_and_how_to_dig_further(captures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    tables = "messages,rejects,skew,hops,callbacks"
    result = hopline("pipeline", "run", captures, "--out", out, "--tables", tables, "--window", "30")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    steps = ["Spark", "captures", "messages", "rejects", "skew", "hops", "callbacks"]
    assert [line.split()[0] for line in lines[: len(steps)]] == steps
    assert "4 records = 4 messages + 0 rejects" in lines
    assert lines[-1] == f"All tables:  hopline tables {out}"
    assert hopline(*shlex.split(lines[-1].split("hopline ")[1])).exit_code == 0
    told = run_document(out)["options"]
    assert (told["window_s"], told["tables"]) == (30, tables.split(","))
    check_listing(out, out)
    with webhdfs(tmp_path) as uri:
        check_listing(f"{uri}/out", out)


def check_listing(location: str | Path, out: Path) -> None:
    """Check that the tables are listed as a run wrote them, those without rows included."""
    listed = [json.loads(line) for line in hopline("tables", location, "--json").output.splitlines()]
    assert {one["table"]: one["rows"] for one in listed} == run_document(out)["rows"]
    for one in listed:
        assert one["days"] == ([f"{NOON:%Y-%m-%d}"] if one["rows"] else []), one["table"]
    assert "0 of 0 rows of rejects" in hopline("tables", location, "rejects").output
    assert hopline("pipeline", "summary", location).exit_code == 0


def test_days_are_given_as_days(captures: Path, tmp_path: Path) -> None:
    day = f"{NOON:%Y-%m-%d}"
    result = hopline(
        "pipeline", "run", captures, "-o", tmp_path / "o", "--from", day, "--to", day, "--tables", "messages"
    )
    assert result.exit_code == 0, result.output
    assert f"4 records of {day}" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--from", "yesterday"], 2, "--from: expected a day such as 2026-01-31, found 'yesterday'"),
        (["--conf", "spark.ui.enabled"], 2, "--conf: expected NAME=VALUE, found 'spark.ui.enabled'"),
        (["--tables", "flow"], 2, "tables"),
        (["--window", "7"], 2, "window"),
        (["--from", "2020-01-01", "--to", "2020-01-02"], 3, "none of its 1 segments has records of 2020-01-01 to"),
        (["--keys", "nowhere.toml"], 2, "nowhere.toml"),
        (["--master", "spark://127.0.0.1:1"], 1, "starting Spark: no server at spark://127.0.0.1:1"),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_code(
    captures: Path, tmp_path: Path, arguments: list[str], code: int, told: str
) -> None:
    result = hopline("pipeline", "run", captures, "--out", tmp_path / "out", *arguments)
    assert (result.exit_code, told in result.output) == (code, True), result.output
    assert "Traceback" not in result.output


def test_captures_that_cannot_be_read_are_listed_line_by_line(captures: Path, tmp_path: Path) -> None:
    (captures / "empty.parquet").touch()
    result = hopline("pipeline", "run", captures, tmp_path / "nowhere", "--out", tmp_path / "out")
    assert result.exit_code == 3
    assert result.output.splitlines()[-3:] == [
        "hopline pipeline run: 2 of the captures cannot be read; --skip-bad-files goes on with the other 1:",
        f"  {captures}/empty.parquet: is empty: 0 bytes",
        f"  {tmp_path}/nowhere: no such file or folder, and no pattern that matches one",
    ]
    skipped = hopline(
        "pipeline",
        "run",
        captures,
        tmp_path / "nowhere",
        "--out",
        tmp_path / "out",
        "--skip-bad-files",
        "--tables",
        "messages",
    )
    assert skipped.exit_code == 0, skipped.output
    assert f"skipped: {captures}/empty.parquet: is empty: 0 bytes" in skipped.output


def test_the_lines_that_open_a_table_elsewhere_work(tmp_path: Path, spark: SparkSession) -> None:
    out = write_tables(tmp_path)
    told = hopline("tables", out, "flows", "--open").output.splitlines()
    assert told == snippets(out, "flows")
    by_spark, by_duckdb, by_pandas = (line for line in told if not line.startswith("#"))
    names: dict[str, object] = {"spark": spark, "duckdb": duckdb, "pandas": pd}
    exec(by_spark, names)  # noqa: S102 - ours
    assert names["flows"].count() == 4  # type: ignore[attr-defined]
    exec(by_duckdb, names)  # noqa: S102 - ours
    assert len(names["flows"].fetchall()) == 4  # type: ignore[attr-defined]
    exec(by_pandas, names)  # noqa: S102 - ours
    assert len(names["flows"]) == 4  # type: ignore[arg-type]
