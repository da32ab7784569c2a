from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from hopline.pipeline.days import Days
from hopline.pipeline.failures import LISTED_FILES, BadCapturesError
from hopline.pipeline.inputs import find_captures
from tests.pipeline.captures import NOON, crossing, frames, record, write_day, write_segment

ALL = Days()


def problem_of(*places: Path | str) -> str:
    with pytest.raises(BadCapturesError) as caught:
        find_captures([str(place) for place in places], ALL)
    return str(caught.value)


def test_segments_are_found_by_folder_file_and_pattern_and_read_once(tmp_path: Path) -> None:
    one = write_day(tmp_path, crossing(1))
    other = write_day(tmp_path, crossing(2), "b-1-1.parquet")
    found = find_captures([str(tmp_path), str(one), f"{tmp_path}/**/b-*.parquet"], ALL)
    assert [segment.path for segment in found.segments] == [str(one), str(other)]
    assert (found.rows, found.bytes) == (4, one.stat().st_size + other.stat().st_size)


def test_the_order_in_which_captures_are_named_does_not_matter(tmp_path: Path) -> None:
    names = [str(write_segment(tmp_path / f"{name}.parquet", crossing(1))) for name in "cab"]
    assert find_captures(names, ALL) == find_captures(sorted(names), ALL)


def test_open_segments_and_hidden_files_are_left_alone_and_the_open_ones_counted(tmp_path: Path) -> None:
    write_day(tmp_path, crossing(1))
    for name in (
        "date=2026-01-31/.a-1-2.open",
        ".hidden.parquet",
        "_notes.parquet",
        ".a.parquet.crc",
        "notes.txt",
    ):
        (tmp_path / name).write_bytes(b"no Parquet")
    found = find_captures([str(tmp_path)], ALL)
    assert (len(found.segments), found.unfinished) == (1, 1)


def test_a_capture_may_have_only_time_and_frames(tmp_path: Path) -> None:
    schema = pa.schema(
        [("ts", pa.timestamp("us")), ("frames", pa.large_list(pa.large_binary())), ("colour", pa.string())]
    )
    write_segment(tmp_path / "wire.parquet", [{"ts": NOON.replace(tzinfo=None), "frames": frames()}], schema)
    assert find_captures([str(tmp_path)], ALL).rows == 1


def test_what_is_not_there_is_said_by_name(tmp_path: Path) -> None:
    assert problem_of(tmp_path / "nowhere") == f"{tmp_path}/nowhere: no such file or folder"
    assert problem_of(tmp_path / "*.parquet") == f"{tmp_path}/*.parquet: nothing matches"
    assert "no segments in it, expected files *.parquet" in problem_of(tmp_path)
    (tmp_path / ".a-1-1.open").touch()
    assert "1 are not closed yet" in problem_of(tmp_path)


def test_storage_that_this_machine_cannot_open_is_refused() -> None:
    assert "only files that this machine can open" in problem_of("s3a://bucket/captures")


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
def test_a_foreign_schema_is_told_from_a_capture(tmp_path: Path, columns: dict[str, pa.DataType], told: str) -> None:
    write_segment(tmp_path / "foreign.parquet", [], pa.schema(columns.items()))
    assert f"foreign.parquet: is no capture: {told}" in problem_of(tmp_path)


def damaged(tmp_path: Path) -> list[Path]:
    good = write_day(tmp_path, crossing(1)).read_bytes()
    contents = {"truncated": good[:-100], "empty": b"", "text": b"once upon a time"}
    paths = [tmp_path / f"{name}.parquet" for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_bytes(content)
    return paths


def test_damaged_files_stop_the_run_and_all_are_listed_with_the_way_out(tmp_path: Path) -> None:
    damaged(tmp_path)
    told = problem_of(tmp_path).splitlines()
    assert told[0] == "3 of the captures cannot be read; --skip-bad-files goes on with the other 1:"
    assert told[1] == f"  {tmp_path}/empty.parquet: is empty: 0 bytes"
    assert told[2].startswith(f"  {tmp_path}/text.parquet: is no whole Parquet file (truncated?)")
    assert told[3].startswith(f"  {tmp_path}/truncated.parquet: is no whole Parquet file (truncated?)")


def test_damaged_files_can_be_left_out_and_are_listed(tmp_path: Path) -> None:
    paths = damaged(tmp_path)
    found = find_captures([str(tmp_path), str(tmp_path / "nowhere")], ALL, skip_bad_files=True)
    assert found.rows == 2
    assert {bad.path for bad in found.bad} == {*map(str, paths), f"{tmp_path}/nowhere"}


def test_it_is_an_error_when_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").touch()
    with pytest.raises(BadCapturesError, match="0 bytes"):
        find_captures([str(tmp_path)], ALL, skip_bad_files=True)


def test_a_long_list_of_bad_files_is_cut(tmp_path: Path) -> None:
    for number in range(LISTED_FILES + 2):
        (tmp_path / f"{number}.parquet").touch()
    assert problem_of(tmp_path).splitlines()[-1] == "  and 2 more"


def test_other_days_are_left_out_by_their_folder_and_by_the_times_in_the_file(tmp_path: Path) -> None:
    for days in (-9, -2, 0, 1, 2, 9):
        write_day(tmp_path, crossing(1, NOON + timedelta(days=days)))
    write_segment(tmp_path / "flat.parquet", crossing(1, NOON + timedelta(days=5)))
    day = NOON.date()
    found = find_captures([str(tmp_path)], Days(day, day))
    assert [Path(segment.path).parent.name for segment in found.segments] == [f"date={day}"]
    assert found.outside == 6
    assert len(find_captures([str(tmp_path)], Days(first=day)).segments) == 5
    assert len(find_captures([str(tmp_path)], Days(last=day)).segments) == 3


def test_what_began_before_midnight_is_found_for_the_day_after(tmp_path: Path) -> None:
    before, after = NOON + timedelta(hours=11, minutes=59), NOON + timedelta(hours=12, minutes=1)
    write_day(tmp_path, [record(1, "sent", at=before), record(2, "sent", at=after)])
    tomorrow = date(2026, 2, 1)
    assert len(find_captures([str(tmp_path)], Days(tomorrow, tomorrow)).segments) == 1


def test_days_without_records_are_an_error(tmp_path: Path) -> None:
    write_day(tmp_path, crossing(1))
    with pytest.raises(BadCapturesError, match="none of its 1 segments has records of 2020-01-01"):
        find_captures([str(tmp_path)], Days(date(2020, 1, 1), date(2020, 1, 1)))
