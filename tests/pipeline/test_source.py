from __future__ import annotations

import doctest
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan, StringContains
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType, StructField, StructType

from hopline.capture import segment_file
from hopline.capture.naming import name_of
from hopline.capture.records import CAPTURE_SCHEMA
from hopline.capture.segment_file import write_segment as write_row_groups
from hopline.capture.segment_files import CaptureError, find_segments
from hopline.datasource.records import RECORDS
from hopline.datasource.source import HoplineSource, RowGroup, SegmentReader, SegmentStreamReader
from hopline.message import ArgumentError
from tests.pipeline.capture_files import NOON, record, write_capture, write_segment

ONLY_THE_WIRE = pa.schema([CAPTURE_SCHEMA.field("ts"), CAPTURE_SCHEMA.field("frames")])
ARRIVED_WITHIN_S = 60


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_capture(tmp_path_factory.mktemp("captures"))


def reader(path: Path | str, *filters: Filter, schema: StructType = RECORDS) -> SegmentReader:
    found = HoplineSource({"path": str(path)}).reader(schema)
    assert isinstance(found, SegmentReader)
    assert list(found.pushFilters(list(filters))) == list(filters)
    return found


def read(reader: SegmentReader) -> list[dict[str, Any]]:
    return [row for one in reader.partitions() for batch in reader.read(one) for row in batch.to_pylist()]


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


# -- as Spark sees it --------------------------------------------------------------------------------------------------


def test_a_segment_of_several_row_groups_is_whole_to_everybody(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_file, "_GROUP_ROWS", 1)
    path = name_of("node", NOON.timestamp(), 1).segment(tmp_path)
    path.parent.mkdir()
    records = [record(1 + number, peer=f"peer {number}", frames=[b"", bytes(number)]) for number in range(3)]
    write_row_groups(path, pa.Table.from_pylist(records, CAPTURE_SCHEMA).to_batches(max_chunksize=1))
    assert pq.ParquetFile(path, page_checksum_verification=True).num_row_groups == 3
    expected = [(1 + number, f"peer {number}", [b"", bytes(number)]) for number in range(3)]
    read_by_spark = spark.read.parquet(str(path)).orderBy("seq").select("seq", "peer", "frames").collect()
    assert [(row.seq, row.peer, [bytes(one) for one in row.frames]) for row in read_by_spark] == expected
    assert [(row["seq"], row["peer"], row["frames"]) for row in read(reader(tmp_path))] == expected
    by_duckdb = duckdb.read_parquet(str(path))
    assert by_duckdb.order("seq").select("seq", "peer", "frames").fetchall() == expected
    assert by_duckdb.filter("seq = 3").select("peer").fetchall() == [("peer 2",)]  # by what is said of each group
    assert [row.peer for row in spark.read.parquet(str(path)).where("seq = 3").collect()] == ["peer 2"]


def test_it_is_found_without_registration_and_reads_what_spark_reads(spark: SparkSession, captures: Path) -> None:
    ours = spark.read.format("hopline").load(str(captures))
    assert ours.schema == RECORDS
    by_task = ours.select("*", spark_partition_id().alias("task")).collect()
    assert len({row["task"] for row in by_task}) == 8  # two row groups in each of four files
    theirs = spark.read.schema(RECORDS).parquet(str(captures)).select(*RECORDS.names)
    assert in_order([row[:-1] for row in by_task]) == in_order(tuple(row) for row in theirs.collect())


def test_it_reads_where_pushdown_is_off_as_it_is_in_sessions_of_others(spark: SparkSession, captures: Path) -> None:
    theirs, where = spark.read.schema(RECORDS).parquet(str(captures)), "seq = 27"
    others = spark.newSession()
    others.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    ours = others.read.format("hopline").load(str(captures))
    assert (ours.count(), ours.where(where).count()) == (theirs.count(), theirs.where(where).count())
    pushed_down = spark.read.format("hopline").load(str(captures)).where(where)
    assert pushed_down.rdd.getNumPartitions() < ours.where(where).rdd.getNumPartitions()


def test_filters_on_the_way_in_give_what_the_same_filters_give_behind(spark: SparkSession, captures: Path) -> None:
    where = (
        "ts >= timestamp '2026-01-02 12:00:25' and ts < timestamp '2026-01-02 12:00:28' and node in ('a', 'x') "
        "and event <> 'received' and seq is not null and peer is null and dropped < 7"
    )
    ours = spark.read.format("hopline").load(str(captures)).where(where)
    theirs = spark.read.schema(RECORDS).parquet(str(captures)).where(where).select(*RECORDS.names)
    found = ours.collect()
    assert [row["seq"] for row in found] == [27]
    assert found == theirs.collect()


def test_the_example_in_the_docstring_runs(spark: SparkSession, captures: Path) -> None:
    names = {"spark": spark, "captures": str(captures)}
    example = doctest.DocTestFinder(recurse=False).find(HoplineSource, globs=names)[0]
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


def test_an_error_in_a_worker_names_the_file(spark: SparkSession, tmp_path: Path) -> None:
    whole = write_segment(tmp_path / "a-0-0.parquet", [record(0)])
    (tmp_path / "a-1-0.parquet").write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(PySparkException, match=r"a-1-0\.parquet: is no whole Parquet file"):
        spark.read.format("hopline").load(str(tmp_path)).collect()


def test_a_stream_reads_every_segment_once_however_late_it_comes(spark: SparkSession, tmp_path: Path) -> None:
    captures, seen = tmp_path / "captures", tmp_path / "seen"
    write_segment(captures / "date=2026-01-02" / "b-5-0.parquet", [record(seq, "b") for seq in range(3)])

    def start() -> StreamingQuery:
        stream = spark.readStream.format("hopline").option("maxFilesPerTrigger", 1).load(str(captures))
        writer = (
            stream.select("node", "seq").writeStream.format("parquet").option("checkpointLocation", f"{seen}.state")
        )
        return writer.trigger(availableNow=True).start(str(seen))

    def finish(query: StreamingQuery) -> list[tuple[str, int]]:
        assert query.awaitTermination(ARRIVED_WITHIN_S)
        return sorted((row["node"], row["seq"]) for row in spark.read.parquet(str(seen)).collect())

    assert finish(start()) == [("b", 0), ("b", 1), ("b", 2)]
    # From an earlier day, of a node whose name is earlier, and an older one of the same node.
    write_segment(captures / "date=2026-01-01" / "a-0-0.parquet", [record(0, "a")])
    write_segment(captures / "date=2026-01-02" / "b-1-0.parquet", [record(9, "b")])
    assert finish(start()) == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("b", 9)]


# -- as it is, without Spark's processes -------------------------------------------------------------------------------


def test_what_only_holds_time_and_frames_is_read_and_the_rest_is_null(tmp_path: Path) -> None:
    one = record(1)
    write_segment(tmp_path / "tool.parquet", [one], schema=ONLY_THE_WIRE)
    (row,) = read(reader(tmp_path))
    assert row["ts"] == NOON + timedelta(seconds=1)
    assert row["frames"] == one["frames"]
    assert {name for name, value in row.items() if value is None} == set(RECORDS.names) - {"ts", "frames"}
    assert read(reader(tmp_path, EqualTo(("event",), "sent"))) == []


def test_columns_that_nobody_asked_for_are_not_read(tmp_path: Path) -> None:
    write_segment(tmp_path / "tool.parquet", [record(1), record(2)], schema=ONLY_THE_WIRE)
    asked = StructType([RECORDS["frames"], RECORDS["seq"]])
    assert [list(row) for row in read(reader(tmp_path, schema=asked))] == [["frames", "seq"]] * 2
    assert read(reader(tmp_path, schema=StructType([RECORDS["node"]]))) == [{"node": None}] * 2


def test_other_tools_may_write_other_widths_and_times_without_a_zone(tmp_path: Path) -> None:
    foreign = pa.schema(
        [
            ("ts", pa.timestamp("ms")),
            ("seq", pa.int32()),
            ("node", pa.dictionary(pa.int32(), pa.string())),
            ("event", pa.large_string()),
            ("frames", pa.large_list(pa.large_binary())),
            ("note", pa.string()),
        ]
    )
    plain = record(1) | {"ts": record(1)["ts"].replace(tzinfo=None), "note": "unknown, left alone"}
    write_segment(tmp_path / "tool.parquet", [plain], schema=foreign)
    (row,) = read(reader(tmp_path, GreaterThanOrEqual(("ts",), NOON), EqualTo(("node",), "a")))
    assert (row["ts"], row["seq"], row["node"], row["event"]) == (NOON + timedelta(seconds=1), 1, "a", "sent")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (EqualTo(("node",), "a"), 4),
        (EqualTo(("node",), "nobody"), 0),
        (In(("node",), ("b", "nobody", None)), 4),
        (GreaterThanOrEqual(("ts",), NOON + timedelta(seconds=30)), 2),
        (LessThan(("seq",), 10), 2),
        (EqualTo(("event",), "unheard of"), 0),
        (StringContains(("node",), "x"), 8),  # not understood: Spark's business
        (EqualTo(("node",), None), 8),
    ],
)
def test_row_groups_that_cannot_pass_are_not_planned(captures: Path, condition: Filter, expected: int) -> None:
    assert len(reader(captures, condition).partitions()) == expected


def test_rows_that_cannot_pass_are_not_handed_to_spark(captures: Path) -> None:
    late = reader(captures, GreaterThanOrEqual(("ts",), NOON + timedelta(seconds=35)), EqualTo(("node",), "b"))
    assert late.partitions() == [RowGroup(str(captures / "date=2026-01-02" / "b-1-0.parquet"), 1)]
    assert [row["seq"] for row in read(late)] == [35, 36, 37, 38, 39]


def test_segments_are_found_by_name_folder_and_pattern(captures: Path) -> None:
    day = captures / "date=2026-01-02"
    one = [str(day / "a-0-0.parquet")]
    assert find_segments(one[0]) == one
    assert find_segments(f"file://{one[0]}") == [f"file://{one[0]}"]
    assert find_segments(f"{captures}/*/a-0*") == one
    assert len(find_segments(str(captures))) == len(find_segments(f"{captures}/date=*")) == 4
    assert len(find_segments(f"file://{captures}/")) == 4
    assert len(read(reader(f"file://{captures}"))) == 80


def test_segments_that_are_still_open_are_not_there_yet(tmp_path: Path) -> None:
    closed = write_segment(tmp_path / "a-0-0.parquet", [record(0)])
    for name in (".a-1-0.parquet", "_a-1-0.parquet", "a-1-0.parquet.open", "_temporary/a-1-0.parquet", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"half")
    assert find_segments(str(tmp_path)) == find_segments(f"{tmp_path}/*") == [str(closed)]


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    for place in (tmp_path / "gone", tmp_path / "gone*"):
        with pytest.raises(CaptureError, match=r"gone\*?: nothing there"):
            reader(place).partitions()
    with pytest.raises(CaptureError, match="no closed segments"):
        reader(tmp_path).partitions()


def test_a_source_without_a_path_says_how_to_give_one() -> None:
    with pytest.raises(ArgumentError, match="load"):
        HoplineSource({}).reader(RECORDS)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (pa.schema([("ts", pa.timestamp("us", "UTC")), ("value", pa.float64())]), "no column frames, but ts, value"),
        (pa.schema([("ts", pa.string()), ("frames", pa.list_(pa.binary()))]), "its column ts is string, expected a"),
        (pa.schema([CAPTURE_SCHEMA.field("ts"), ("frames", pa.list_(pa.string()))]), "expected a list of binary"),
        (pa.schema([*ONLY_THE_WIRE, ("seq", pa.float64())]), "its column seq is double, expected a whole number"),
    ],
)
def test_a_file_with_a_foreign_schema_is_no_capture(tmp_path: Path, schema: pa.Schema, problem: str) -> None:
    path = write_segment(tmp_path / "foreign.parquet", [], schema=schema)
    with pytest.raises(CaptureError) as error:
        reader(tmp_path).partitions()
    assert str(error.value).startswith(f"{path}: is no capture: ")
    assert problem in str(error.value)


def test_a_bit_that_changed_since_it_was_written_is_noticed(tmp_path: Path) -> None:
    path, told = tmp_path / "a-0-0.parquet", pa.Table.from_pylist([record(0)], CAPTURE_SCHEMA)
    pq.write_table(told, path, compression="none", use_dictionary=False, write_page_checksum=True)
    frames = pq.read_metadata(path).row_group(0).column(CAPTURE_SCHEMA.get_field_index("frames"))
    content = bytearray(path.read_bytes())
    content[frames.data_page_offset + frames.total_compressed_size - 1] ^= 1  # in the last frame
    path.write_bytes(content)
    assert pq.read_table(path)["frames"] != told["frames"]  # whoever does not look believes it
    with pytest.raises(CaptureError, match=r"a-0-0\.parquet: is damaged inside"):
        read(reader(tmp_path))


def test_a_segment_that_is_damaged_inside_is_named(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "a-0-0.parquet", [record(seq) for seq in range(10)])
    first = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    start = first.dictionary_page_offset or first.data_page_offset
    content[start : start + first.total_compressed_size] = b"\xff" * first.total_compressed_size
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=r"a-0-0\.parquet: is damaged inside"):
        read(reader(tmp_path))


@pytest.mark.parametrize("column", [StructField("body", StringType()), StructField("seq", StringType())])
def test_columns_that_no_capture_has_are_refused(captures: Path, column: StructField) -> None:
    with pytest.raises(ArgumentError, match="schema: expected columns among ts timestamp"):
        reader(captures, schema=StructType([column]))


def test_a_stream_forgets_segments_that_were_deleted_and_waits_where_nothing_is_new(tmp_path: Path) -> None:
    stream = HoplineSource({"path": str(tmp_path)}).streamReader(RECORDS)
    assert isinstance(stream, SegmentStreamReader)
    nothing = stream.initialOffset()
    assert stream.latestOffset(nothing, ReadAllAvailable()) == nothing
    first = write_segment(tmp_path / "a-0-0.parquet", [record(seq) for seq in range(20)])
    one = stream.latestOffset(nothing, ReadAllAvailable())
    assert stream.partitions(nothing, one) == [RowGroup(str(first), 0), RowGroup(str(first), 1)]
    assert stream.latestOffset(one, ReadAllAvailable()) == one
    first.unlink()
    second = write_segment(tmp_path / "deep" / "a-1-0.parquet", [record(2)])
    two = stream.latestOffset(one, ReadAllAvailable())
    assert two == {str(tmp_path / "deep"): "a-1-0.parquet"}
    assert stream.partitions(one, two) == [RowGroup(str(second), 0)]


def test_a_stream_takes_as_many_segments_at_a_time_as_it_is_told(tmp_path: Path) -> None:
    for number in range(5):
        write_segment(tmp_path / f"a-{number}-0.parquet", [record(number)])
    stream = HoplineSource({"path": str(tmp_path), "maxfilespertrigger": "2"}).streamReader(RECORDS)
    assert stream.getDefaultReadLimit() == ReadMaxFiles(2)
    taken = []
    offset = stream.initialOffset()
    while (after := stream.latestOffset(offset, stream.getDefaultReadLimit())) != offset:
        taken.append(len(stream.partitions(offset, after)))
        offset = after
    assert taken == [2, 2, 1]
    for text in ("0", "many", "-1"):
        with pytest.raises(ArgumentError, match="maxFilesPerTrigger"):
            HoplineSource({"path": str(tmp_path), "maxfilespertrigger": text}).streamReader(RECORDS)
