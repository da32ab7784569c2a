from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hopline.decoding.keys import Keyring
from hopline.pipeline.captures import Captures, plain_path
from hopline.pipeline.captures import find_captures as find_captures_by
from hopline.pipeline.days import Days
from hopline.pipeline.failures import LISTED_FILES, BadCapturesError
from hopline.pipeline.spark_work import ONE_FILE_A_BATCH, with_settings
from tests.pipeline.captures import NOON, crossing, frames, record, write_day, write_segment

ALL = Days()


class Finder:
    """Finds captures in one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self, places: Sequence[Path | str], days: Days = ALL, *, skip_bad_files: bool = False) -> Captures:
        with with_settings(self._spark, ONE_FILE_A_BATCH):
            return find_captures_by(self._spark, [str(place) for place in places], days, skip_bad_files=skip_bad_files)

    def problem_of(self, *places: Path | str) -> str:
        with pytest.raises(BadCapturesError) as caught:
            self(places)
        return str(caught.value)


@pytest.fixture(scope="module")
def find(spark: SparkSession) -> Finder:
    return Finder(spark)


def paths(found: Captures) -> list[str]:
    return [plain_path(segment.path) for segment in found.segments]


def test_segments_are_found_by_folder_file_and_pattern_and_read_once(find: Finder, tmp_path: Path) -> None:
    one = write_day(tmp_path, crossing(1))
    other = write_day(tmp_path, crossing(2), "b-1-1.parquet")
    found = find([str(tmp_path), str(one), f"{tmp_path}/**/b-*.parquet"], ALL)
    assert paths(found) == [str(one), str(other)]
    assert (found.records_of_days, found.bytes) == (4, one.stat().st_size + other.stat().st_size)


def test_the_order_in_which_captures_are_named_does_not_matter(find: Finder, tmp_path: Path) -> None:
    names = [str(write_segment(tmp_path / f"{name}.parquet", crossing(1))) for name in "cab"]
    assert paths(find(names)) == paths(find(sorted(names))) == sorted(names)


def test_open_segments_hidden_files_and_other_files_are_left_alone(find: Finder, tmp_path: Path) -> None:
    write_day(tmp_path, crossing(1))
    for name in (
        "date=2026-01-31/.a-1-2.open",
        ".hidden.parquet",
        "_notes.parquet",
        ".a.parquet.crc",
        "notes.txt",
    ):
        (tmp_path / name).write_bytes(b"no Parquet")
    assert len(find([tmp_path]).segments) == 1


def test_a_capture_may_have_only_time_and_frames(find: Finder, tmp_path: Path) -> None:
    schema = pa.schema(
        [("ts", pa.timestamp("us")), ("frames", pa.large_list(pa.large_binary())), ("colour", pa.string())]
    )
    write_segment(tmp_path / "wire.parquet", [{"ts": NOON.replace(tzinfo=None), "frames": frames()}], schema)
    assert find([tmp_path]).records_of_days == 1


def test_what_is_not_there_is_said_by_name(find: Finder, tmp_path: Path) -> None:
    gone = "no such file or folder, and no pattern that matches one"
    assert find.problem_of(tmp_path / "nowhere") == f"{tmp_path}/nowhere: {gone}"
    assert find.problem_of(tmp_path / "*.parquet") == f"{tmp_path}/*.parquet: {gone}"
    assert "no segments in it, expected files *.parquet" in find.problem_of(tmp_path)


def test_a_file_that_is_named_is_taken_whatever_its_name(find: Finder, tmp_path: Path) -> None:
    named = write_segment(tmp_path / "traffic.of.today", crossing(1))
    assert paths(find([named])) == [str(named)]


def test_names_that_look_like_patterns_or_addresses_are_only_names(find: Finder, tmp_path: Path) -> None:
    folder = tmp_path / "my {captures}, 100% [of] é+#%20"
    named = write_day(folder, crossing(1), "a-[1]-1.parquet")
    write_day(folder, crossing(2), "a-1-1.parquet")
    found = find([f"{tmp_path}/my*/*/a-?1?-1.parquet"])
    assert paths(found) == [str(named)]
    assert found.messages(Keyring()).count() == 2


def test_a_file_system_that_spark_does_not_know_is_said(find: Finder) -> None:
    told = find.problem_of("s4://bucket/captures")
    assert told == 's4://bucket/captures: UnsupportedFileSystemException: No FileSystem for scheme "s4"'


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"ts": pa.timestamp("us", "UTC"), "body": pa.string()}, "it has no column frames, but ts, body"),
        ({"ts": pa.string(), "frames": pa.list_(pa.binary())}, "its column ts is string, expected a timestamp"),
        ({"ts": pa.timestamp("ns"), "frames": pa.list_(pa.binary())}, "its column ts is timestamp[ns]"),
        ({"ts": pa.timestamp("us"), "frames": pa.binary()}, "its column frames is binary, expected a list of binary"),
        ({"ts": pa.timestamp("us"), "frames": pa.list_(pa.binary()), "seq": pa.string()}, "its column seq is string"),
    ],
)
def test_a_foreign_schema_is_told_from_a_capture(
    find: Finder, tmp_path: Path, columns: dict[str, pa.DataType], told: str
) -> None:
    write_segment(tmp_path / "foreign.parquet", [], pa.schema(columns.items()))
    assert f"foreign.parquet: is no capture: {told}" in find.problem_of(tmp_path)


def damaged(tmp_path: Path) -> list[Path]:
    good = write_day(tmp_path, crossing(1)).read_bytes()
    contents = {"truncated": good[:-100], "empty": b"", "text": b"once upon a time"}
    bad_paths = [tmp_path / f"{name}.parquet" for name in contents]
    for path, content in zip(bad_paths, contents.values(), strict=True):
        path.write_bytes(content)
    return bad_paths


def test_damaged_files_stop_the_run_and_all_are_listed_with_the_way_out(find: Finder, tmp_path: Path) -> None:
    damaged(tmp_path)
    told = find.problem_of(tmp_path).splitlines()
    assert told[0] == "3 of the captures cannot be read; --skip-bad-files goes on with the other 1:"
    assert told[1] == f"  {tmp_path}/empty.parquet: is empty: 0 bytes"
    assert told[2].startswith(f"  {tmp_path}/text.parquet: is no whole Parquet file (truncated?)")
    assert told[3].startswith(f"  {tmp_path}/truncated.parquet: is no whole Parquet file (truncated?)")


def test_damaged_files_can_be_left_out_and_are_listed(find: Finder, tmp_path: Path) -> None:
    bad_paths = damaged(tmp_path)
    found = find([str(tmp_path), str(tmp_path / "nowhere")], ALL, skip_bad_files=True)
    assert found.records_of_days == 2
    assert {bad.path for bad in found.bad} == {*map(str, bad_paths), f"{tmp_path}/nowhere"}


def test_it_is_an_error_when_nothing_is_left(find: Finder, tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").touch()
    with pytest.raises(BadCapturesError, match="0 bytes"):
        find([str(tmp_path)], ALL, skip_bad_files=True)


def test_a_long_list_of_bad_files_is_cut(find: Finder, tmp_path: Path) -> None:
    for number in range(LISTED_FILES + 2):
        (tmp_path / f"{number}.parquet").touch()
    assert find.problem_of(tmp_path).splitlines()[-1] == "  and 2 more"


def test_other_days_are_left_out_by_their_folder_and_by_the_times_in_the_file(find: Finder, tmp_path: Path) -> None:
    for days in (-9, -2, 0, 1, 2, 9):
        write_day(tmp_path, crossing(1, NOON + timedelta(days=days)))
    write_segment(tmp_path / "flat.parquet", crossing(1, NOON + timedelta(days=5)))
    day = NOON.date()
    found = find([str(tmp_path)], Days(day, day))
    assert [Path(path).parent.name for path in paths(found)] == [f"date={day}"]
    assert found.outside == 6
    assert len(find([str(tmp_path)], Days(first=day)).segments) == 5
    assert len(find([str(tmp_path)], Days(last=day)).segments) == 3


def test_what_began_before_midnight_is_found_for_the_day_after(find: Finder, tmp_path: Path) -> None:
    before, after = NOON + timedelta(hours=11, minutes=59), NOON + timedelta(hours=12, minutes=1)
    write_day(tmp_path, [record(1, "sent", at=before), record(2, "sent", at=after)])
    tomorrow = date(2026, 2, 1)
    assert len(find([str(tmp_path)], Days(tomorrow, tomorrow)).segments) == 1


def test_days_without_records_are_an_error(find: Finder, tmp_path: Path) -> None:
    write_day(tmp_path, crossing(1))
    with pytest.raises(BadCapturesError, match="none of its 1 segments has records of 2020-01-01"):
        find([str(tmp_path)], Days(date(2020, 1, 1), date(2020, 1, 1)))
