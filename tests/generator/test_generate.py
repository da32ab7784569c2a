"""`generate` is reproducible, writes all or nothing, and only what was requested."""

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

from hopline.capture.records import CAPTURE_SCHEMA, Level
from hopline.generator import Options, generate
from hopline.message import ArgumentError, WireFormat
from hopline.wire import RemoteError, decode
from tests.generator.reading import truth

FEW = 3_000


def digest(out: Path) -> str:
    """Return a digest of the rows of the captures and the truth, whatever the files look like inside."""
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


def test_the_records_of_a_seed_never_change(tmp_path: Path) -> None:
    """If this digest changes, recorded seeds stand for other captures."""
    generate(tmp_path / "out", Options(messages=1_000, seed=1))
    assert digest(tmp_path / "out")[:16] == "b09d71f9471dcc1f"


def test_there_are_as_many_records_as_requested_or_a_few_more(tmp_path: Path) -> None:
    for messages in (1_000, 2_501):
        totals = generate(tmp_path / "out", Options(messages=messages), force=True)
        assert messages <= totals["records"] < messages + 10
        assert ds.dataset(tmp_path / "out" / "captures", format="parquet").count_rows() == totals["records"]


def test_flows_are_spread_over_all_hours(tmp_path: Path) -> None:
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
        assert file.schema_arrow.equals(CAPTURE_SCHEMA)
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"
        rows = file.read().to_pylist()
        node, start, seq = path.stem.rsplit("-", 2)
        assert {row["node"] for row in rows} == {node}
        assert (rows[0]["seq"], rows[0]["ts"].strftime("%Y%m%dT%H%M%S.%fZ")) == (int(seq), start)
        assert {f"date={row['ts']:%Y-%m-%d}" for row in rows} == {path.parent.name}
        for row in rows:  # actors have names, hubs and the router have none
            is_actor = (row["receiver"] or "").startswith("\1")
            assert [row["receiver_name"] is not None, row["handler"] is not None] == [is_actor, is_actor]


def test_without_faults_every_flow_is_complete(tmp_path: Path) -> None:
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


def test_only_requested_formats_occur(tmp_path: Path) -> None:
    generate(tmp_path / "out", Options(messages=FEW, formats=(WireFormat.FIRST, WireFormat.V6)))
    table = ds.dataset(tmp_path / "out" / "captures", format="parquet", partitioning=None).to_table(["frames"])
    found = set()
    for frames in table["frames"].to_pylist():
        try:
            found.add(decode(frames).wire_format)
        except RemoteError:
            continue
    assert found == {WireFormat.FIRST, WireFormat.V6}


def test_a_huge_flow_has_as_many_answers_as_requested(tmp_path: Path) -> None:
    options = Options(messages=30_000, rates={"huge": 0.0001}, huge_messages=2_000)
    generate(tmp_path / "out", options)
    (huge,) = [row for row in truth(tmp_path / "out", "flows") if row["outcome"] == "truncated"]
    assert (huge["messages"], huge["hops"], huge["records"]) == (2_002, 2_002, 8_010)


def test_four_nodes_are_enough(tmp_path: Path) -> None:
    generate(tmp_path / "out", Options(messages=FEW, nodes=4, skewed=2))
    assert len({row["node"] for row in truth(tmp_path / "out", "audit")}) == 4


def test_a_directory_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep me")
    with pytest.raises(ArgumentError, match="force"):
        generate(tmp_path, Options(messages=FEW))
    generate(tmp_path, Options(messages=FEW), force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["captures", "keys", "mine", "truth"]


def test_an_interrupted_run_leaves_no_new_directory(tmp_path: Path) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path / "new" / "out", Options(messages=FEW), progress=interrupt)
    assert not (tmp_path / "new" / "out").exists()


def test_an_interrupted_run_keeps_the_previous_output(tmp_path: Path) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    generate(tmp_path, Options(messages=FEW, seed=8))
    before = digest(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path, Options(messages=FEW, seed=9), force=True, progress=interrupt)
    assert digest(tmp_path) == before


def test_the_summary_has_the_options_and_the_totals(tmp_path: Path) -> None:
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
def test_invalid_options_are_refused(wrong: dict[str, object], field: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Options(**wrong)  # type: ignore[arg-type]
    assert caught.value.field == field
