from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from hopline.message import ArgumentError
from hopline.pipeline import PipelineOptions, RunReport, run, run_pipeline
from hopline.pipeline import captures as pipeline_captures
from hopline.pipeline.failures import BadCapturesError, PipelineError, UnbalancedError
from hopline.pipeline.progress import Silent
from hopline.pipeline.segments import decoded
from hopline.pipeline.tables.all import TABLES
from hopline.query.catalogue import WrittenTable, written_tables
from hopline.query.tables import open_tables
from tests.pipeline.captures import NOON, crossing, frames, record, write_day, write_segment
from tests.query.written import run_document

Rows = dict[str, list[dict[str, Any]]]
DAY = timedelta(days=1)
GARBAGE = [[], [b"once"], [b"upon", b"a", b"time"]]


class Heard(Silent):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.steps: dict[str, int | None] = {}
        self.notes: list[str] = []

    def ended(self, step: str, result: str, rows: int | None, seconds: float) -> None:
        self.steps[step] = rows

    def note(self, text: str) -> None:
        self.notes.append(text)


def options(captures: Path, out: Path, **more: Any) -> PipelineOptions:
    return PipelineOptions(captures=(str(captures),), out=out, **more)


def contents(out: Path) -> Rows:
    """Read all tables, rows in an order of their own."""
    with open_tables(out) as tables:
        return {name: sorted(tables.ask(f"from {name}").records(), key=repr) for name in tables.names}


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of messages from a to b, a flow that crosses midnight and is lost behind it, and garbage."""
    folder = tmp_path_factory.mktemp("captures")
    write_day(folder, [one for number in (0, 1, 2) for one in crossing(number, NOON)])
    write_day(folder, crossing(3, NOON + timedelta(hours=12, microseconds=-3_100)), "a-1-2.parquet")
    lost = record(3, "sent", "a", NOON + timedelta(hours=12), peer="b", frames=frames(b"flow-3", b"LOST"))
    later = record(4, "received", "b", NOON + timedelta(hours=12), peer="a", frames=frames(b"flow-3", b"LATER"))
    write_day(folder, [lost, later], "a-1-3.parquet")
    write_day(folder, [one for number in (4, 5, 6) for one in crossing(number, NOON + DAY)])
    write_day(folder, [one for number in (7, 8, 9) for one in crossing(number, NOON + 2 * DAY)])
    write_day(
        folder, [record(seq, "received", "c", frames=frames) for seq, frames in enumerate(GARBAGE)], "c-1-1.parquet"
    )
    return folder


@pytest.fixture(scope="module")
def whole(captures: Path, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunReport, Heard]:
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "true")  # as for users: few rows come to one file
    heard = Heard()
    return run(options(captures, tmp_path_factory.mktemp("whole")), session, heard), heard


def test_all_tables_are_made_and_every_record_is_a_message_or_a_reject(whole: tuple[RunReport, Heard]) -> None:
    report, heard = whole
    out = Path(report.options.out)
    assert (report.records, report.messages, report.rejects) == (25, 22, 3)
    rows = contents(out)
    assert list(rows) == list(TABLES)
    assert {name: len(found) for name, found in rows.items()} == dict(report.rows)
    assert len(rows["hops"]) == 12
    assert all(heard.steps[name] == report.rows[name] for name in ("hops", "flows", "edges", "audit"))
    assert sorted(path.name for path in out.iterdir()) == sorted(["run.json", *TABLES])


def test_tables_have_the_columns_of_their_schema_and_one_file_a_day(whole: tuple[RunReport, Heard]) -> None:
    with open_tables(whole[0].options.out) as tables:
        for table in written_tables(tables):
            assert [column.name for column in table.columns] == TABLES[table.name].schema.names
            meanings = [column.metadata["comment"] for column in TABLES[table.name].schema]
            assert [column.meaning for column in table.columns[1:]] == meanings[1:], table.name
            if table.name != "messages":
                assert len(table.files) == max(len(table.days), 1), table.name


def test_columns_that_rows_are_looked_up_by_have_bloom_filters(whole: tuple[RunReport, Heard]) -> None:
    out = Path(whole[0].options.out)
    for name, table in TABLES.items():
        for file in (out / name).rglob("*.parquet"):
            metadata = pq.ParquetFile(file).metadata
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                chunks = [group.column(number) for number in range(group.num_columns)]
                with_filter = {chunk.path_in_schema for chunk in chunks if chunk.bloom_filter_offset is not None}
                assert with_filter == set(table.looked_up_by), name


def test_a_run_writes_down_what_it_did(whole: tuple[RunReport, Heard]) -> None:
    report, _ = whole
    told = run_document(Path(report.options.out))
    assert (told["records"], told["messages"], told["rejects"]) == (25, 22, 3)
    assert told["rows"] == dict(report.rows)
    assert len(told["captures"]["segments"]) == 6
    assert set(told["versions"]) == {"hopline", "spark", "python"}


def test_running_again_replaces_and_never_doubles(
    whole: tuple[RunReport, Heard], captures: Path, spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "again"
    shutil.copytree(whole[0].options.out, out)
    before = contents(out)
    run(options(captures, out, tables=("messages", "rejects", "hops", "skew")), spark)
    assert contents(out) == before


def test_day_by_day_comes_to_the_same_as_all_at_once(
    whole: tuple[RunReport, Heard], captures: Path, spark: SparkSession, tmp_path: Path
) -> None:
    for first, last in ((1, 2), (0, 0)):
        days = {"first_day": (NOON + first * DAY).date(), "last_day": (NOON + last * DAY).date()}
        report = run(options(captures, tmp_path, **days), spark)
        assert report.records == report.messages + report.rejects
    made, expected = contents(tmp_path), contents(Path(whole[0].options.out))
    assert list(made) == list(expected) == list(TABLES)
    for name in TABLES:
        assert made[name] == expected[name], name


def test_bodies_are_in_messages_where_they_are_wanted(captures: Path, spark: SparkSession, tmp_path: Path) -> None:
    report = run(options(captures, tmp_path, tables=("messages",), with_bodies=True), spark)
    assert report.options.without_secrets()["with_bodies"] is True
    for row in contents(tmp_path)["messages"]:
        assert len(row["bodies"]) == row["body_frames"]
        assert sum(map(len, row["bodies"])) == row["body_bytes"]


def test_only_the_tables_that_were_asked_for_are_touched(
    whole: tuple[RunReport, Heard], captures: Path, spark: SparkSession, tmp_path: Path
) -> None:
    report = run(options(captures, tmp_path, tables=("hops",)), spark)
    assert list(contents(tmp_path)) == ["hops"]
    assert report.rows == {"hops": 12}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hops", "run.json"]
    assert contents(tmp_path)["hops"] == contents(Path(whole[0].options.out))["hops"]


def test_a_day_that_has_no_rows_any_more_is_emptied_and_other_days_stay(spark: SparkSession, tmp_path: Path) -> None:
    captures, out = tmp_path / "captures", tmp_path / "out"
    write_day(captures, crossing(1))
    tomorrow = write_day(captures, [record(1, "received", at=NOON + DAY, frames=GARBAGE[1])], "b-1-1.parquet")
    write_day(captures, [record(2, "received", frames=GARBAGE[2])], "c-1-1.parquet")
    run(options(captures, out, tables=("messages", "rejects")), spark)
    assert {row["date"] for row in contents(out)["rejects"]} == {NOON.date(), (NOON + DAY).date()}
    write_segment(tomorrow, crossing(2, NOON + DAY))
    run(options(tomorrow, out, tables=("messages", "rejects")), spark)
    rows = contents(out)
    assert [row["date"] for row in rows["rejects"]] == [NOON.date()]
    assert len(rows["messages"]) == 4


def test_a_table_without_rows_can_be_opened(spark: SparkSession, tmp_path: Path) -> None:
    write_day(tmp_path / "captures", crossing(1))
    run(options(tmp_path / "captures", tmp_path / "out", tables=("rejects", "incidents")), spark)
    with open_tables(tmp_path / "out") as tables:
        for table in written_tables(tables):
            assert (table.rows, table.days) == (0, [])
            assert [column.name for column in table.columns] == TABLES[table.name].schema.names
            assert tables.ask(f"from {table.name}").fetch() == []
            assert spark.read.parquet(str(tmp_path / "out" / table.name)).count() == 0


def test_nothing_but_garbage_is_all_rejects(spark: SparkSession, tmp_path: Path) -> None:
    write_day(tmp_path / "captures", [record(7, "received", frames=frames) for frames in GARBAGE])
    report = run(options(tmp_path / "captures", tmp_path / "out", tables=("messages", "rejects", "hops")), spark)
    assert (report.messages, report.rejects) == (0, 3)
    kept = [row["frames"] for row in contents(tmp_path / "out")["rejects"]]
    assert sorted(kept) == sorted(GARBAGE)


def test_what_cannot_be_read_is_left_out_and_noted(spark: SparkSession, tmp_path: Path) -> None:
    write_day(tmp_path / "captures", crossing(1))
    (tmp_path / "captures" / "broken.parquet").write_bytes(b"PAR1")
    told = options(tmp_path / "captures", tmp_path / "out", tables=("messages",))
    with pytest.raises(BadCapturesError, match=r"broken\.parquet"):
        run(told, spark)
    heard = Heard()
    told = options(tmp_path / "captures", tmp_path / "out", tables=("messages",), skip_bad_files=True)
    assert run(told, spark, heard).records == 2
    assert heard.notes == ["1 of the captures cannot be read and are skipped"]
    assert len(run_document(tmp_path / "out")["captures"]["left_out"]) == 1


def damage(segment: Path) -> None:
    """Damage a segment inside, so that its footer is as it was."""
    column = pq.read_metadata(segment).row_group(0).column(0)
    content, start, size = segment.read_bytes(), column.data_page_offset, column.total_compressed_size
    segment.write_bytes(content[:start] + b"\xff" * size + content[start + size :])


def test_a_segment_that_is_damaged_inside_can_be_left_out(spark: SparkSession, tmp_path: Path) -> None:
    captures, tables = tmp_path / "my captures, all of them", ("messages", "audit")
    write_day(captures, crossing(1))
    run(options(captures, tmp_path / "good", tables=tables), spark)
    bad = [write_day(captures, crossing(2, NOON + timedelta(days=days))) for days in (1, 2)]
    for one in bad:
        damage(one)
    with pytest.raises(BadCapturesError, match="--skip-bad-files goes on with the other 1"):
        run(options(captures, tmp_path / "out", tables=tables), spark)
    heard = Heard()
    report = run(options(captures, tmp_path / "out", tables=tables, skip_bad_files=True), spark, heard)
    assert report.records == report.messages == 2
    assert heard.notes == ["2 of the captures cannot be read and are skipped"]
    assert sorted(one.path for one in report.captures.bad) == sorted(str(one) for one in bad)
    assert contents(tmp_path / "out") == contents(tmp_path / "good")
    for one in captures.rglob("*.parquet"):
        if one not in bad:
            one.unlink()
    with pytest.raises(BadCapturesError, match="damaged inside"):  # nothing would be left
        run(options(captures, tmp_path / "out", tables=tables, skip_bad_files=True), spark)


def test_a_segment_that_is_damaged_inside_is_named_and_the_old_tables_stay(spark: SparkSession, tmp_path: Path) -> None:
    segment = write_day(tmp_path / "captures", crossing(1))
    told = options(tmp_path / "captures", tmp_path / "out", tables=("messages",))
    run(told, spark)
    before = contents(tmp_path / "out")
    damage(segment)
    with pytest.raises(BadCapturesError, match=f"{segment}: is damaged inside") as caught:
        run(told, spark)
    assert "\n" not in str(caught.value)
    assert contents(tmp_path / "out") == before


def test_records_that_get_lost_are_noticed(
    captures: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode_some(*arguments: Any, **options: Any) -> DataFrame:
        return decoded(*arguments, **options).where("seq != 3")

    monkeypatch.setattr(pipeline_captures, "decoded", decode_some)
    with pytest.raises(UnbalancedError, match="25 records were read, but 19 messages and 3 rejects"):
        run(options(captures, tmp_path), spark)


def test_a_session_of_somebody_else_is_left_as_it_was(captures: Path, spark: SparkSession, tmp_path: Path) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    run(options(captures, tmp_path, tables=("messages",)), other)
    assert other.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    with open_tables(tmp_path) as tables:
        assert len(WrittenTable(tables, "messages").days) == 3


def test_captures_with_time_and_frames_only_are_read(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("frames", pa.list_(pa.binary()))])
    rows = [{name: row[name] for name in schema.names} for row in crossing(1)]
    write_segment(tmp_path / "captures" / "wire.parquet", rows, schema)
    write_segment(
        tmp_path / "captures" / "naive.parquet", [], pa.schema([("ts", pa.timestamp("ms")), schema.field("frames")])
    )
    report = run(options(tmp_path / "captures", tmp_path / "out", tables=("messages", "hops")), spark)
    assert (report.messages, report.rows["hops"]) == (2, 0)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"window_s": 7}, "window"),
        ({"tables": ("flow",)}, "tables"),
        ({"tables": ()}, "tables"),
        ({"memory": "much"}, "memory"),
        ({"first_day": NOON.date(), "last_day": (NOON - DAY).date()}, "days"),
        ({"master": "local[2]", "remote": "sc://here"}, "master"),
        ({"format": "iceberg"}, "format: expected parquet, orc, delta in a folder .others need a table prefix."),
        ({"format": ""}, "format"),
        (
            {"table_prefix": "lake.traffic"},
            "out: expected a folder .--out. or a catalogue .--table-prefix., found 'both'",
        ),
        ({"out": ""}, "out: expected a folder .--out. or a catalogue .--table-prefix., found 'neither'"),
        ({"out": "", "table_prefix": "lake; DROP"}, "table prefix: expected names with dots between"),
        ({"out": "", "table_prefix": "lake", "format": "x y"}, "format"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        options(tmp_path / "captures", **{"out": tmp_path / "out"} | wrong)


def test_tables_are_not_written_among_the_captures(tmp_path: Path) -> None:
    for out in (tmp_path, tmp_path / "date=2026-01-02", tmp_path / "tables"):
        with pytest.raises(ArgumentError, match="out: expected a folder that is not in the captures"):
            options(tmp_path, out)


def test_keys_are_expected_where_some_are_given(captures: Path, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "hopline.toml").write_text("[node]\n")
    with pytest.raises(ArgumentError, match=r"keys: expected a configuration with domains and keys in \[security\]"):
        run(options(captures, tmp_path / "out", keys=tmp_path / "hopline.toml"), spark)


def test_no_secret_is_written_down(tmp_path: Path) -> None:
    secrets = (
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
    )
    conf = dict.fromkeys(secrets, "hush") | {"spark.sql.shuffle.partitions": "8"}
    told = options(
        tmp_path / "captures", tmp_path / "out", conf=conf, remote="sc://host:15002/;token=hush"
    ).without_secrets()
    assert "hush" not in json.dumps(told, default=str)
    assert told["conf"] == dict.fromkeys(secrets, "…") | {"spark.sql.shuffle.partitions": "8"}


def test_nobody_at_the_masters_address_is_said_at_once(captures: Path, tmp_path: Path) -> None:
    for told in ({"master": "spark://127.0.0.1:1"}, {"remote": "sc://127.0.0.1:1"}):
        with pytest.raises(PipelineError, match=r"starting Spark: no server at .*127\.0\.0\.1:1"):
            run_pipeline(options(captures, tmp_path, **told))
