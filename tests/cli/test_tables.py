from __future__ import annotations

import csv
import io
import json
import shlex
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hopline.cli import app
from hopline.cli.tables import BRIEF
from hopline.pipeline.catalogue import MEANINGS, written_table
from hopline.pipeline.schemas import TABLES
from hopline.pipeline.summary import findings
from tests.cli.commands import run
from tests.pipeline.written import NOON, flow, write_table, write_tables


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("tables"))


def tables(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["tables", *map(str, arguments)], env={"COLUMNS": "240"})
    assert result.exit_code == code, result.output
    return result.output


def rows(*arguments: str | Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in tables(*arguments, "--format", "json").splitlines()]


def test_the_tables_are_listed_with_rows_days_sizes_and_meaning(out: Path) -> None:
    told = tables(out)
    for name, meaning in MEANINGS.items():
        assert name in told
        assert meaning in told
    assert "2026-01-30 … 2026-01-31 (2)" in told
    listed = {row["table"]: row for row in rows(out)}
    assert (listed["flows"]["rows"], listed["flows"]["files"]) == (4, 2)
    assert listed["flows"]["days"] == ["2026-01-30", "2026-01-31"]


def test_every_table_of_the_pipeline_has_a_meaning_and_columns_for_a_screen() -> None:
    assert list(MEANINGS) == list(TABLES)
    for name, columns in BRIEF.items():
        assert set(columns.split()) <= set(TABLES[name].names)


def test_rows_are_chosen_sorted_and_limited(out: Path) -> None:
    assert [row["flow_id"] for row in rows(out, "flows", "--where", "outcome <> 'complete'")] == ["two", "it's $HOME"]
    longest = rows(out, "flows", "--order-by", "duration_us desc", "--limit", "2", "--columns", "flow_id,duration_us")
    assert longest == [{"flow_id": "two", "duration_us": 9_000_000}, {"flow_id": "one", "duration_us": 2_000}]
    assert len(rows(out, "flows", "--limit", "0")) == 4
    by_two = rows(out, "flows", "--order-by", "outcome,duration_us desc", "--columns", "flow_id")
    assert [row["flow_id"] for row in by_two] == ["one", "old", "it's $HOME", "two"]
    assert rows(out, "flows", "--where", "date = '2026-01-30'", "--columns", "flow_id") == [{"flow_id": "old"}]


def test_only_the_largest_are_kept_however_many_batches_there_are(tmp_path: Path) -> None:
    for day in range(3):
        many = [{"flow_id": f"{day}-{number}", "duration_us": number * 7919 % 1009} for number in range(1000)]
        write_table(tmp_path, "flows", many, (NOON + timedelta(days=day)).date())
    table = written_table(tmp_path, "flows")
    top = table.first_rows(["duration_us"], None, [("duration_us", "descending")], 4)
    assert top.column("duration_us").to_pylist() == [1008, 1008, 1008, 1007]


def test_a_table_is_drawn_with_lists_as_people_read_them(out: Path) -> None:
    told = tables(out, "flows")
    assert "send 500 µs at a → run 1.5 ms at b" in told
    assert told.splitlines()[-1] == "4 of 4 rows of flows"
    assert "ANSWER/1, KINO.EXCEPTION/1" in tables(out, "callbacks")
    assert "1 of 2 rows of hops where lost or duplicate" in tables(out, "hops", "--where", "lost or duplicate", "-n1")


def test_one_row_is_shown_down_the_page_with_its_path_stage_by_stage(out: Path) -> None:
    told = tables(out, "flows", "--where", "flow_id = 'two'")
    assert "duration_us    9000000  (9 s)" in told
    assert "75%" in told
    assert "1 of 1 row of flows where flow_id = 'two'" in told
    told = tables(out, "messages")
    assert "tcp://a:1 → tcp://b:2" in told
    assert "01ff" in told


def test_csv_has_a_header_and_nested_columns_as_json(out: Path) -> None:
    read = list(csv.DictReader(io.StringIO(tables(out, "flows", "--format", "csv", "--where", "flow_id = 'one'"))))
    assert len(read) == 1
    assert read[0]["start_ts"] == "2026-01-31T12:00:00+00:00"
    assert json.loads(read[0]["critical_path"])[1] == {"stage": "run", "node": "b", "identity": "ORDER", "us": 1500}
    assert rows(out, "rejects", "--limit", "1")[0]["frames"] == [(b"x" * 99).hex()]


def test_the_schema_says_what_the_columns_mean(out: Path) -> None:
    told = rows(out, "flows", "--schema")
    assert [row["column"] for row in told] == TABLES["flows"].names
    meanings = {row["column"]: row["meaning"] for row in told}
    assert meanings["critical_path"] == "where the duration went: its parts sum to it"
    assert all(meanings.values())
    assert "array<struct<stage, node, identity, us>>" in tables(out, "flows", "--schema")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["flow"], "no table 'flow' in it; there are: messages"),
        (["flows", "--where", "colour = 1"], "expected a column, found 'colour'"),
        (["flows", "--columns", "colour"], "flows has no column 'colour'"),
        (["flows", "--order-by", "duration_us down"], "expected asc or desc behind duration_us, found 'down'"),
        (["--where", "lost"], "of which table?"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(out: Path, arguments: list[str], problem: str) -> None:
    code = 1 if arguments == ["flow"] or "colour = 1" in arguments else 2
    assert problem in tables(out, *arguments, code=code)


def test_a_folder_without_tables_says_how_they_are_made(tmp_path: Path) -> None:
    assert f"hopline pipeline run CAPTURES --out {tmp_path} makes them" in tables(tmp_path, code=1)
    assert "no such folder" in tables(tmp_path / "nowhere", code=1)


def test_nothing_of_spark_is_imported_to_look_at_a_table(out: Path) -> None:
    code = "import sys; from hopline.cli import app; app(sys.argv[1:], standalone_mode=False)\n"
    command = [sys.executable, "-c", f"{code}print('pyspark' in sys.modules)", "tables", str(out), "flows"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "False"


def test_the_summary_finds_what_is_wrong_and_its_commands_work(out: Path) -> None:
    found = {finding.title.split(":")[0]: finding for finding in findings(out)}
    assert list(found) == [
        "Rejects by code",
        "Lost and duplicate hops",
        "Callbacks by outcome",
        "Flows by outcome",
        "Worst flows, by their durations less the skew of the clocks",
        "Slowest handlers, by their worst window",
        "Incidents",
        "Clocks that surely differ",
        "Clocks that did not keep step",
        "Books that do not hold, records that were not captured",
    ]
    assert found["Rejects by code"].rows == (("no_format", "2"),)
    assert found["Lost and duplicate hops"].rows == (("a", "b", "1", "0"), ("b", "c", "0", "1"))
    assert found["Worst flows, by their durations less the skew of the clocks"].rows[0] == (
        "two",
        "failed",
        "ORDER",
        "a",
        "2",
        "9 s",
        "unknown",
        "run of ORDER at b, 6.75 s",
    )
    assert found["Clocks that surely differ"].rows == (("2026-01-31", "b", "a", "-5 ms", "100 µs"),)
    assert "--order-by" in found["Clocks that surely differ"].command
    assert "desc" not in found["Clocks that surely differ"].command  # the clock that is off most is behind
    assert found["Clocks that did not keep step"].rows == (("2026-01-31", "c", "d", "-31.8 ms", "-7.8 ms"),)
    assert found["Books that do not hold, records that were not captured"].rows == (
        ("b", "2026-01-31 12h", "-1", "0", "2"),
    )
    for finding in found.values():
        told = tables(*shlex.split(finding.command)[2:])
        assert not told.splitlines()[-1].startswith("0 of")


def test_a_negative_bound_is_never_a_claim_about_clocks(tmp_path: Path) -> None:
    """Tables of earlier versions have an offset beside such a bound."""
    write_table(tmp_path, "skew", [{"node_a": "a", "node_b": "b", "offset_us": -12_000, "bound_us": -19_800}])
    assert [finding.title for finding in findings(tmp_path)] == ["Clocks that did not keep step"]


def test_the_worst_flows_are_not_those_of_odd_clocks(tmp_path: Path) -> None:
    told = {
        "slow": (5_000_000, 0),
        "odd": (9_000_000, 8_999_000),
        "behind": (-1_000_000, -7_000_000),
        "unknown": (6, None),
    }
    rows = [
        {"flow_id": name, "outcome": "failed", "duration_us": duration, "skew_us": skew}
        for name, (duration, skew) in told.items()
    ]
    write_table(tmp_path, "flows", rows)
    worst = findings(tmp_path)[1]
    assert [(row[0], *row[5:7]) for row in worst.rows] == [
        ("behind", "-1 s", "-7 s"),
        ("slow", "5 s", "0 µs"),
        ("odd", "9 s", "9 s"),
        ("unknown", "6 µs", "unknown"),
    ]


def test_a_name_off_the_wire_is_only_text_in_a_command(tmp_path: Path) -> None:
    write_table(tmp_path, "flows", [{"flow_id": "$(reboot) 'x'", "outcome": "failed", "duration_us": 1}])
    worst = findings(tmp_path)[1]
    assert shlex.split(worst.command)[-1] == "flow_id = '$(reboot) ''x'''"


def test_the_summary_is_shown_again_by_a_command(out: Path, tmp_path: Path) -> None:
    told = run(tmp_path, "pipeline", "summary", str(out))
    assert told.returncode == 0
    assert "Worst flows" in told.stdout
    assert f"hopline tables {out} flows --where \"flow_id = 'two'\"" in told.stdout


HOSTILE = "two\nlines \x1b[2J \x9b31m \u202e\u2066 \x7f"


def test_nothing_that_a_stranger_chose_reaches_the_terminal_in_any_format(tmp_path: Path) -> None:
    kinds = [{"identity": HOSTILE, "version": "1", "partition": HOSTILE}]
    write_table(tmp_path, "messages", [{"ts": NOON, "node": HOSTILE, "identity": HOSTILE, "callbacks": kinds}])
    write_table(tmp_path, "flows", [flow(HOSTILE, "failed", 1), flow("x" * 100_000, "failed", 1)])
    for table in ("messages", "flows"):
        for form in ("table", "csv", "json"):
            told = tables(tmp_path, table, "--columns", "*", "--format", form)
            assert told.replace("\n", "").isprintable()
            assert len(told) < 100_000 or form != "table"
    (row,) = rows(tmp_path, "messages")
    assert (row["node"], row["callbacks"]) == (HOSTILE, kinds)  # as JSON says it, it is all there
    (read, long) = csv.DictReader(io.StringIO(tables(tmp_path, "flows", "--format", "csv")))
    assert read["flow_id"] == "two\\nlines \\x1b[2J \\x9b31m \\u202e\\u2066 \\x7f"
    assert long["flow_id"] == "x" * 100_000
