from __future__ import annotations

import csv
import io
import json
import shlex
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql.types import BooleanType, DataType, TimestampType
from typer.testing import CliRunner

from hopline.cli import app
from hopline.pipeline.tables.all import TABLES
from hopline.query.short_ids import id_columns
from hopline.query.summary import findings
from tests.cli.commands import run
from tests.query.written import NOON, flow, write_table, write_tables

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("tables"))


def tables(*arguments: str | Path, code: int = 0, width: int = 240) -> str:
    result = CliRunner().invoke(app, ["tables", *map(str, arguments)], env={"COLUMNS": str(width)})
    assert result.exit_code == code, result.output
    return result.output


def rows(*arguments: str | Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in tables(*arguments, "--limit", "0", "--json").splitlines()]


def test_the_tables_are_listed_with_rows_days_sizes_and_meaning(out: Path) -> None:
    told = tables(out)
    for name, table in TABLES.items():
        assert name in told
        assert table.meaning in told
    assert "2026-01-30 … 2026-01-31 (2)" in told
    listed = {row["table"]: row for row in rows(out)}
    assert (listed["flows"]["rows"], listed["flows"]["files"]) == (4, 2)
    assert listed["flows"]["days"] == ["2026-01-30", "2026-01-31"]


def test_every_table_of_the_pipeline_has_a_meaning_and_columns_for_a_screen() -> None:
    for name, table in TABLES.items():
        assert table.name == name
        assert table.meaning
        assert table.shown_first
        assert set(table.shown_first) <= set(table.schema.names)


def test_rows_are_chosen_sorted_and_limited(out: Path) -> None:
    assert [row["flow_id"] for row in rows(out, "flows", "--where", "outcome <> 'complete'")] == ["two", "it's $HOME"]
    longest = rows(out, "flows", "--order-by", "duration_us desc", "--columns", "flow_id, duration_us / 1e6 as seconds")
    assert longest[:2] == [{"flow_id": "two", "seconds": 9.0}, {"flow_id": "one", "seconds": 0.002}]
    assert len(rows(out, "flows")) == 4
    by_two = rows(out, "flows", "--order-by", "outcome,duration_us desc", "--columns", "flow_id")
    assert [row["flow_id"] for row in by_two] == ["one", "old", "it's $HOME", "two"]
    assert rows(out, "flows", "--where", "date = '2026-01-30'", "--columns", "flow_id") == [{"flow_id": "old"}]


def test_a_table_is_drawn_with_lists_as_people_read_them(out: Path) -> None:
    told = tables(out, "flows", "--wide")
    assert "send 500 µs at a → run 1.5 ms at b" in told
    assert told.splitlines()[-1] == "4 of 4 rows of flows"
    assert "ANSWER/1, KINO.EXCEPTION/1" in tables(out, "callbacks", "--wide")
    assert "1 of 2 rows of hops where lost or duplicate" in tables(out, "hops", "--where", "lost or duplicate", "-n1")


GUIDS = [
    "0f1e2d3c-0000-4000-8000-00000000000a",
    "0f1e2d3c-0000-4000-8000-00000000000b",
    "abcdef01-0000-4000-8000-000000000000",
]


@pytest.fixture
def guids(tmp_path: Path) -> Path:
    """Rows whose names are GUIDs, as they mostly are."""
    write_table(tmp_path, "flows", [flow(one, "unanswered", 7_000_000, origin="a") for one in GUIDS[:2]])
    write_table(tmp_path, "flows", [flow(GUIDS[2], "complete", 7)], NOON.date() + timedelta(days=1))
    handlers = [{"node": GUIDS[0], "actor": f"\1{one}", "identity": "ORDER", "window_start": NOON} for one in GUIDS]
    write_table(tmp_path, "handlers", handlers)
    return tmp_path


@pytest.mark.parametrize("table", TABLES)
def test_every_table_fits_into_80_columns_in_a_line_a_row(tmp_path: Path, table: str) -> None:
    values: dict[DataType, object] = {TimestampType(): NOON + timedelta(microseconds=123_456), BooleanType(): False}
    row = {column.name: values[column.dataType] for column in TABLES[table].schema if column.dataType in values}
    kind = {"identity": "ORDER.SHIPPED", "event": "delivered", "outcome": "unanswered", "offence": "bad_signature"}
    row |= {name: value for name, value in kind.items() if name in TABLES[table].schema.names}
    row |= {"window_start": NOON} if "window_start" in row else {}
    rows = [
        row | dict.fromkeys(id_columns(TABLES[table].schema.names), f"{number:08x}{GUIDS[0][8:]}") for number in (1, 2)
    ]
    write_table(tmp_path, table, rows)
    lines = tables(tmp_path, table, width=80).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert lines[0].split() == list(TABLES[table].shown_first)
    assert lines[3].startswith("Times are UTC") or table == "skew"
    assert lines[-2:] == [
        "Ids are shortened: --id 00000001 finds one, --wide shows them in full.",
        f"2 of 2 rows of {table}",
    ]


def test_ids_are_as_short_as_tells_them_apart_in_the_whole_table_and_are_accepted_back(guids: Path) -> None:
    told = tables(guids, "flows", "--where", "date = '2026-02-01' or flow_id like '%b'")
    assert " abcdef01 " in told
    assert f" {GUIDS[1]} " in told  # but for its last character it is the same as one that is not shown
    assert "flow_id         abcdef01-0" in tables(guids, "flows", "--id", "abcdef01")
    assert "1 of 1 row of handlers" in tables(guids, "handlers", "--id", "abcdef01")
    both = tables(guids, "flows", "--id", "0f1e2d3c", code=1)
    assert f"several ids in flows begin with '0f1e2d3c': {GUIDS[0]} (flow_id), {GUIDS[1]} (flow_id)" in both
    assert "no id in flows begins with '77'" in tables(guids, "flows", "--id", "77", code=1)
    assert "Use --id, not --where, to find a shortened id." in tables(guids, "flows", "--where", "flow_id = 'abcdef01'")


def test_ids_and_conditions_go_together(guids: Path) -> None:
    chosen = ("handlers", "--id", GUIDS[0], "--where")
    assert len(rows(guids, *chosen, "true")) == 3  # a node
    assert [row["actor"] for row in rows(guids, *chosen, "actor like '%b' -- and no more")] == [f"\1{GUIDS[1]}"]
    assert rows(guids, *chosen, "false") == []


def test_what_does_not_fit_into_a_line_becomes_a_block(guids: Path) -> None:
    lines = tables(guids, "--sql", "from flows order by flow_id", width=80).splitlines()
    assert lines[0].startswith("── row 1")
    assert f"flow_id         {GUIDS[0]}" in [line.rstrip() for line in lines]
    assert max(map(len, lines)) <= 80
    assert "── row 2" in tables(guids, "flows", "--vertical")
    wide_lines = tables(guids, "flows", "--wide", width=80).splitlines()
    assert len(wide_lines) == 5
    assert GUIDS[0] in "".join(wide_lines)


def test_any_question_can_be_asked_in_sql(out: Path) -> None:
    asked = (
        "select f.outcome, count(*) as flows, sum(f.duration_us) as us "
        "from flows f join flows g using (flow_id) group by 1 order by 2 desc, 1"
    )
    assert rows(out, "--sql", asked) == [
        {"outcome": "complete", "flows": 2, "us": 2_001},
        {"outcome": "expired", "flows": 1, "us": 40},
        {"outcome": "failed", "flows": 1, "us": 9_000_000},
    ]
    assert tables(out, "--sql", asked, "--csv").splitlines()[1] == "complete,2,2001"
    assert "the first 1 rows; --limit 0 shows all" in tables(out, "--sql", asked, "-n1")
    assert tables(out, "--sql", "select 1 as a, 2 as a", "--json") == '{"a":1,"a_1":2}\n'


def test_a_program_that_gets_some_of_the_rows_is_told_on_standard_error(out: Path) -> None:
    result = CliRunner().invoke(app, ["tables", str(out), "flows", "--csv", "-n1"])
    assert len(result.stdout.splitlines()) == 2
    assert "only the first 1 rows; --limit 0 writes all" in result.stderr


def test_values_that_json_has_no_type_for_become_what_comes_nearest(out: Path) -> None:
    asked = (
        "select 1.5 as d, 2.0 as whole, (2::hugeint ** 40)::hugeint as h,"
        " uuid '00000000-0000-0000-0000-000000000001' as u,"
        " time '12:00' as t, interval 1 day as i, map {'k': 1} as m, 'ab'::blob as b, 'nan'::double as n,"
        " 170141183460469231731687303715884105727::hugeint as large"
    )
    (row,) = rows(out, "--sql", asked)
    assert row == {
        "d": 1.5,
        "whole": 2,
        "h": 2**40,
        "u": "00000000-0000-0000-0000-000000000001",
        "t": "12:00:00",
        "i": "1 day, 0:00:00",
        "m": {"k": 1},
        "b": "6162",
        "n": None,
        "large": 2.0**127,
    }


def test_one_row_is_shown_down_the_page_with_its_path_stage_by_stage(out: Path) -> None:
    told = tables(out, "flows", "--where", "flow_id = 'two'")
    assert "duration_us     9000000  (9 s)" in told
    assert "75%" in told
    assert "1 of 1 row of flows where flow_id = 'two'" in told
    told = tables(out, "messages")
    assert "ts                      2026-01-31 12:00:00.000000" in told
    assert "tcp://a:1 → tcp://b:2" in told
    assert "01ff" in told


def test_csv_has_a_header_and_nested_columns_as_json(out: Path) -> None:
    read = list(csv.DictReader(io.StringIO(tables(out, "flows", "--csv", "--where", "flow_id = 'one'"))))
    assert len(read) == 1
    assert read[0]["start_ts"] == "2026-01-31T12:00:00+00:00"
    stage = {"stage": "run", "node": "b", "identity": "ORDER", "us": 1500, "handler": None, "flow_id": None}
    assert json.loads(read[0]["critical_path"])[1] == stage
    assert rows(out, "rejects")[0]["frames"] == [(b"x" * 99).hex()]


def test_the_schema_says_what_the_columns_mean(out: Path) -> None:
    told = rows(out, "flows", "--schema")
    assert [row["column"] for row in told] == TABLES["flows"].schema.names
    meanings = {row["column"]: row["meaning"] for row in told}
    assert meanings["critical_path"] == "stages from the first event to the last; their times sum to duration_us"
    assert all(meanings.values())
    types = {row["column"]: row["type"] for row in told}
    assert types["start_ts"] == "timestamp with time zone"
    assert types["critical_path"] == (
        "struct(stage varchar, node varchar, identity varchar, us bigint, handler varchar, flow_id varchar)[]"
    )
    assert "sum to duration_us" in tables(out, "flows", "--schema")


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["flow"], 1, "no table 'flow' in it; there are: messages"),
        (["flows", "--where", "colour = 1"], 2, "--where: no column 'colour'; flows has: date, flow_id, start_ts"),
        (["flows", "--columns", "colour"], 2, "--columns: no column 'colour'; flows has: date"),
        (["flows", "--order-by", "colour"], 2, "--order-by: no column 'colour'; flows has: date"),
        (
            ["flows", "--where", "outcome = = 1"],
            2,
            '--where: syntax error at or near "="\n  outcome = = 1\n            ^',
        ),
        (["flows", "--order-by", "duration_us down"], 2, '--order-by: syntax error at or near "down"'),
        (["flows", "--where", "true) or (true"], 2, '--where: syntax error at or near ")"'),
        (["flows", "--where", "true; select 1"], 2, "--where: expected one statement, found 2"),
        (["flows", "--where", "("], 2, "--where: syntax error"),
        (["flows", "--where", ""], 2, "--where: "),
        (["flows", "--where", "(" * 5000 + "true" + ")" * 5000], 2, "--where: nested too deeply"),
        (["--sql", "select " + "(" * 5000 + "1" + ")" * 5000], 2, "nested too deeply"),
        (["--sql", "select 'é', colour from flows"], 2, "select 'é', colour from flows\n              ^"),
        (["--sql", "select f.colour from flows f"], 2, "no column 'colour'; flows has: date"),
        (["--sql", "select * from flws"], 2, "no table 'flws'; there are: messages"),
        (["--sql", "drop view flows"], 2, "tables can only be read"),
        (["flows", "--sql", "select 1"], 2, "--sql is a whole query"),
        (["flows", "--json", "--csv"], 2, "exclude each other"),
        (["--where", "lost"], 2, "name a table: hopline tables"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(out: Path, arguments: list[str], code: int, problem: str) -> None:
    assert problem in tables(out, *arguments, code=code)


def test_a_folder_without_tables_says_how_they_are_made(tmp_path: Path) -> None:
    assert "hopline pipeline run CAPTURES --out TABLES makes tables" in tables(tmp_path, code=1)
    assert "no such folder" in tables(tmp_path / "nowhere", code=1)


def test_spark_is_not_started_to_look_at_a_table(out: Path) -> None:
    code = "import sys; from hopline.cli import app; app(sys.argv[1:], standalone_mode=False)\n"
    ask = "from pyspark import SparkContext; print(SparkContext._gateway)"
    command = [sys.executable, "-c", f"{code}{ask}", "tables", str(out), "flows"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "None"


def test_the_summary_finds_what_is_wrong_and_its_commands_work(out: Path) -> None:
    found = {finding.title.split(":")[0]: finding for finding in findings(out)}
    assert list(found) == [
        "Rejects by code",
        "Lost and duplicate hops",
        "Callbacks by outcome",
        "Flows by outcome",
        "Slowest incomplete flows, by duration minus skew",
        "Slowest journeys",
        "Slowest handlers, by their worst window",
        "Incidents",
        "Clock differences",
        "Clocks whose difference changed during the day",
        "Unaccounted messages and missing records",
        "Records that came too late",
    ]
    assert found["Rejects by code"].rows == (("no_format", "2"),)
    assert found["Lost and duplicate hops"].rows == (("a", "b", "1", "0"), ("b", "c", "0", "1"))
    assert found["Slowest incomplete flows, by duration minus skew"].rows[0] == (
        "two",
        "failed",
        "ORDER",
        "a",
        "2",
        "9 s",
        "unknown",
        "run of ORDER at b, 6.75 s",
    )
    assert found["Clock differences"].rows == (("2026-01-31", "b", "a", "-5 ms", "100 µs"),)
    assert "--order-by" in found["Clock differences"].command
    assert "desc" not in found["Clock differences"].command  # the clock that is off most is behind
    assert found["Clocks whose difference changed during the day"].rows == (
        ("2026-01-31", "c", "d", "-31.8 ms", "-7.8 ms"),
    )
    assert found["Unaccounted messages and missing records"].rows == (("b", "2026-01-31 12h", "-1", "0", "2"),)
    for finding in found.values():
        told = tables(*shlex.split(finding.command)[2:])
        assert not told.splitlines()[-1].startswith("0 of")


def test_a_negative_bound_is_never_a_claim_about_clocks(tmp_path: Path) -> None:
    """Tables of earlier versions have an offset beside such a bound."""
    write_table(tmp_path, "skew", [{"node_a": "a", "node_b": "b", "offset_us": -12_000, "bound_us": -19_800}])
    assert [finding.title for finding in findings(tmp_path)] == ["Clocks whose difference changed during the day"]


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
    assert "Slowest incomplete flows" in told.stdout
    assert f"hopline tables {out} flows --where \"flow_id = 'two'\"" in told.stdout


HOSTILE = "two\nlines \x1b[2J \x9b31m \u202e\u2066 \x7f"


def test_nothing_that_a_stranger_chose_reaches_the_terminal_in_any_format(tmp_path: Path) -> None:
    kinds = [{"identity": HOSTILE, "version": "1", "partition": HOSTILE}]
    write_table(tmp_path, "messages", [{"ts": NOON, "node": HOSTILE, "identity": HOSTILE, "callbacks": kinds}])
    write_table(tmp_path, "flows", [flow(HOSTILE, "failed", 1), flow("x" * 100_000, "failed", 1)])
    for table in ("messages", "flows"):
        for form in ("vertical", "wide", "csv", "json"):
            told = tables(tmp_path, table, "--columns", "*", f"--{form}")
            assert told.replace("\n", "").isprintable()
            assert len(told) < 100_000 or form in ("csv", "json")
    (row,) = rows(tmp_path, "messages")
    assert (row["node"], row["callbacks"]) == (HOSTILE, kinds)  # as JSON says it, it is all there
    (read, long) = csv.DictReader(io.StringIO(tables(tmp_path, "flows", "--csv")))
    assert read["flow_id"] == "two\\nlines \\x1b[2J \\x9b31m \\u202e\\u2066 \\x7f"
    assert long["flow_id"] == "x" * 100_000


def test_ctrl_c_stops_a_question_that_takes_long(out: Path) -> None:
    endless = (
        "select count(*) from range(1000000) a, range(1000000) b, range(1000000) c where a.range * b.range = c.range"
    )
    command = [sys.executable, "-m", "tests.cli.asking", str(out), endless]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as asking:
        try:
            assert asking.stdout is not None
            assert asking.stdout.readline() == "asked\n"
            asking.send_signal(signal.SIGINT)
            assert asking.wait(60) == 130
        finally:
            asking.kill()
        assert asking.stderr is not None
        assert asking.stderr.read() == ""
