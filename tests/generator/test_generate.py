"""What `generate` promises beside the truth: the same again, all or nothing, and only what was asked for."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from hopline.capture.records import SCHEMA, Level
from hopline.generator import Options, generate
from hopline.message import LocalError, WireFormat
from hopline.wire import RemoteError, decode
from tests.generator.reading import truth

FEW = 3_000


def digest(out: Path) -> str:
    """Sum up what the captures and the truth say, whatever the files look like inside."""
    found = hashlib.sha256()
    for path in sorted(out.rglob("*.parquet")):
        found.update(str(path.relative_to(out)).encode())
        for column in pq.read_table(path).columns:
            values = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
            found.update(repr(values.to_pylist()).encode())
    return found.hexdigest()


def test_the_same_seed_gives_the_same_records_and_the_same_truth(tmp_path: Path) -> None:
    options = Options(messages=FEW, seed=4)
    for name in ("one", "other"):
        generate(tmp_path / name, options)
    assert digest(tmp_path / "one") == digest(tmp_path / "other")
    generate(tmp_path / "third", Options(messages=FEW, seed=5))
    assert digest(tmp_path / "third") != digest(tmp_path / "one")


def test_the_records_of_a_seed_are_known(tmp_path: Path) -> None:
    """The same on every machine: a change here is a change of what a seed means."""
    generate(tmp_path / "out", Options(messages=1_000, seed=1))
    assert digest(tmp_path / "out")[:16] == "b09d71f9471dcc1f"


def test_there_are_as_many_records_as_asked_for_or_hardly_more(tmp_path: Path) -> None:
    for messages in (1_000, 2_501):
        totals = generate(tmp_path / "out", Options(messages=messages), force=True)
        assert messages <= totals["records"] < messages + 10
        assert ds.dataset(tmp_path / "out" / "captures", format="parquet").count_rows() == totals["records"]


def test_what_happens_in_many_hours_is_spread_over_all_of_them(tmp_path: Path) -> None:
    generate(tmp_path / "out", Options(messages=FEW, hours=40))
    times = ds.dataset(tmp_path / "out" / "captures", format="parquet").to_table(columns=["ts"])["ts"].to_pylist()
    by_hour = Counter((time - min(times)).total_seconds() // 3_600 for time in times)
    assert [by_hour[hour] > 0 for hour in range(40)] == [True] * 40


def test_segments_have_the_schema_and_the_names_of_a_capture(tmp_path: Path) -> None:
    options = Options(messages=FEW, hours=3, start=datetime(2026, 1, 5, 22, tzinfo=UTC))
    generate(tmp_path / "out", options, batch_records=1_000)
    segments = sorted((tmp_path / "out" / "captures").rglob("*.parquet"))
    assert {path.parent.name for path in segments} == {"date=2026-01-05", "date=2026-01-06"}
    for path in segments:
        file = pq.ParquetFile(path)
        assert file.schema_arrow.equals(SCHEMA)
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"
        rows = file.read().to_pylist()
        node, start, seq = path.stem.rsplit("-", 2)
        assert {row["node"] for row in rows} == {node}
        assert (rows[0]["seq"], rows[0]["ts"].strftime("%Y%m%dT%H%M%S.%fZ")) == (int(seq), start)
        assert {f"date={row['ts']:%Y-%m-%d}" for row in rows} == {path.parent.name}
        for row in rows:  # actors have names, hubs and the router have none
            is_actor = (row["receiver"] or "").startswith("\1")
            assert [row["receiver_name"] is not None, row["handler"] is not None] == [is_actor, is_actor]


def test_without_faults_everything_is_as_it_should_be(tmp_path: Path) -> None:
    generate(tmp_path / "out", Options(messages=FEW, rates={}, skewed=0))
    assert {row["outcome"] for row in truth(tmp_path / "out", "flows")} == {"complete"}
    assert {row["outcome"] for row in truth(tmp_path / "out", "callbacks")} == {"answered"}
    assert {row["kind"] for row in truth(tmp_path / "out", "faults")} == {"closing"}
    assert not truth(tmp_path / "out", "rejects")
    assert not truth(tmp_path / "out", "incidents")


def test_one_fault_alone_is_planted_at_its_rate(tmp_path: Path) -> None:
    generate(tmp_path / "out", Options(messages=20_000, rates={"lost": 0.1}, skewed=0))
    faults = Counter(row["class"] for row in truth(tmp_path / "out", "faults"))
    assert set(faults) == {"lost", "zero"}
    share = faults["lost"] / len(truth(tmp_path / "out", "flows"))
    assert 0.08 < share < 0.12


def test_only_the_formats_that_were_asked_for_are_there(tmp_path: Path) -> None:
    generate(tmp_path / "out", Options(messages=FEW, formats=(WireFormat.FIRST, WireFormat.V6)))
    table = ds.dataset(tmp_path / "out" / "captures", format="parquet", partitioning=None).to_table(["frames"])
    found = set()
    for frames in table["frames"].to_pylist():
        try:
            found.add(decode(frames).wire_format)
        except RemoteError:
            continue
    assert found == {WireFormat.FIRST, WireFormat.V6}


def test_a_huge_flow_has_as_many_answers_as_asked_for(tmp_path: Path) -> None:
    options = Options(messages=30_000, rates={"huge": 0.0001}, huge_messages=2_000)
    generate(tmp_path / "out", options)
    (huge,) = [row for row in truth(tmp_path / "out", "flows") if row["outcome"] == "truncated"]
    assert (huge["messages"], huge["hops"], huge["records"]) == (2_002, 2_002, 8_010)


def test_four_nodes_are_enough(tmp_path: Path) -> None:
    generate(tmp_path / "out", Options(messages=FEW, nodes=4, skewed=2))
    assert len({row["node"] for row in truth(tmp_path / "out", "audit")}) == 4


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep me")
    with pytest.raises(LocalError, match="force"):
        generate(tmp_path, Options(messages=FEW))
    generate(tmp_path, Options(messages=FEW), force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["captures", "keys", "mine", "truth"]


def test_what_is_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path / "new" / "out", Options(messages=FEW), progress=interrupt)
    assert not (tmp_path / "new" / "out").exists()


def test_what_is_interrupted_leaves_what_was_there(tmp_path: Path) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    generate(tmp_path, Options(messages=FEW, seed=8))
    before = digest(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path, Options(messages=FEW, seed=9), force=True, progress=interrupt)
    assert digest(tmp_path) == before


def test_the_summary_says_what_was_asked_for_and_what_came_of_it(tmp_path: Path) -> None:
    totals = generate(tmp_path / "out", Options(messages=FEW, seed=3, level=Level.WIRE))
    summary = json.loads((tmp_path / "out" / "truth" / "summary.json").read_text())
    assert (summary["seed"], summary["options"]["level"], summary["counts"]) == (3, "wire", totals)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"messages": 999}, "messages"),
        ({"nodes": 3}, "nodes"),
        ({"skewed": 5}, "skewed"),
        ({"formats": ()}, "formats"),
        ({"level": Level.OFF}, "level"),
        ({"rates": {"rust": 0.1}}, "fault"),
        ({"rates": {"lost": 2.0}}, "fault lost"),
        ({"rates": {"lost": 0.6, "late": 0.6}}, "faults"),
        ({"hours": 0.0}, "hours"),
        ({"huge_messages": 20_000}, "huge_messages"),
        ({"start": datetime(2026, 1, 1, 8, 30, tzinfo=UTC)}, "start"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, object], field: str) -> None:
    with pytest.raises(LocalError) as caught:
        Options(**wrong)  # type: ignore[arg-type]
    assert caught.value.field == field
