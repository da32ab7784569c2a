"""Segments: when they are closed, how they appear, how long they stay, and what happens when the disk refuses."""

from __future__ import annotations

import errno
import logging
import os
import resource
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline import LocalError, WireFormat
from hopline.capture import open_segment, segments
from hopline.capture.blocks import Opening
from hopline.capture.journal import Journal, blocks_of
from hopline.capture.listing import summaries
from hopline.capture.naming import journals_in, name_of, read_name, segments_in
from hopline.capture.numbering import next_number
from hopline.capture.open_segment import OpenSegment
from hopline.capture.packing import CODES, DAY, Batch, Extra, Packer
from hopline.capture.recovery import recover
from hopline.capture.retention import expendable
from hopline.capture.room import Room
from hopline.capture.settings import CaptureSettings
from hopline.capture.writer import Writer

from .reading import rows_of, table_of

NOON = 1_800_000_000.0 // DAY * DAY + DAY / 2
STARTED = NOON - 12_345.678  # when the clock of the node was at zero


OPENING = Opening("node", "tcp://127.0.0.1:1")
Record = tuple[float, list[bytes]]  # time, frames


def record(time: float = NOON, body: bytes = b"body") -> Record:
    return time, [b"socket", b"", body, b"meta"]


def batch(first: int, *records: Record, gaps: dict[int, int] | None = None) -> Batch:
    packer = Packer(WireFormat.V6)
    log = [field for time, frames in records for field in (CODES["sent"], time - STARTED, b"peer", len(frames))]
    return Batch(
        first_seq=first,
        pieces=[packer.pack(log, [frame for _, frames in records for frame in frames], {})],
        names=packer.names(),
        extras={},
        gaps=gaps or {},
        has_holes=False,
        size=1_000,
        epoch=STARTED,
    )


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.002)


class Writers:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[Writer] = []

    def __call__(self, **settings: Any) -> Writer:
        settings = {"directory": str(self.directory), "retry_time": 0.001, **settings}
        self.started.append(Writer(CaptureSettings(**settings), OPENING))
        return self.started[-1]


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[Writers]:
    made = Writers(tmp_path / "captures")
    yield made
    for writer in made.started:
        assert writer.end()


def test_a_segment_is_named_after_its_node_its_start_and_its_first_number(writers: Writers) -> None:
    writer = writers()
    writer.take(batch(7, record(NOON + 1.5e-6)))
    assert writer.end()
    (path,) = segments_in(writers.directory)
    assert path.relative_to(writers.directory).as_posix() == "date=2027-01-15/node-20270115T120000.000001Z-7.parquet"
    assert [path.name for path in path.parent.iterdir()] == [path.name]
    (row,) = rows_of(writers.directory)
    assert row["frames"] == [b"", b"body", b"meta"]
    assert (row["seq"], row["node"], row["node_uri"], row["peer"]) == (7, "node", "tcp://127.0.0.1:1", "peer")
    assert row["ts"].timestamp() == pytest.approx(NOON + 1e-6)


def test_nobody_else_may_read_what_is_captured(writers: Writers) -> None:
    before = os.umask(0)
    try:
        writer = writers(flush_time=0.001)
        writer.take(batch(1, record()))
        until(lambda: list(writers.directory.glob("*/.*")))
        open_files = [stat.S_IMODE(path.stat().st_mode) for path in writers.directory.glob("*/.*")]
        assert writer.end()
        name = name_of("node", NOON, 5)
        rows, journal = name.rows(writers.directory), name.journal(writers.directory)
        crashed = OpenSegment(writers.directory, name, OPENING, 1, Room(1_000))  # every batch is a group of rows
        crashed.take(batch(5, record()), 0)
        crashed.save()
        open_files += [stat.S_IMODE(path.stat().st_mode) for path in (rows, journal)]
        crashed.abandon()
        assert [one.records for one in recover(writers.directory)] == [1]
    finally:
        os.umask(before)
    closed = [stat.S_IMODE(path.stat().st_mode) for path in segments_in(writers.directory)]
    assert len(closed) == 2
    assert set(open_files) == set(closed) == {0o600}


@pytest.mark.parametrize(
    "node", ["node", "a-b-1", "../../etc/passwd", "0xFF00", "_hidden", "", "naïve node", "n" * 255]
)
def test_a_node_s_name_is_no_way_out_of_the_directory(node: str, tmp_path: Path) -> None:
    name = name_of(node, NOON, 3)
    path = name.segment(tmp_path)
    assert path.parent.parent == tmp_path
    assert read_name(path) == read_name(name.journal(tmp_path)) == name
    assert len(path.name) < 255
    assert path.name[0] not in "._"  # which Spark and others leave alone


def test_a_segment_is_closed_when_it_is_large_enough(writers: Writers) -> None:
    writer = writers(segment_bytes=15_000)
    for first in range(1, 101, 10):
        writer.take(batch(first, *[record(body=bytes(400))] * 10))
    until(lambda: writer.segments >= 2)
    assert writer.end()
    assert len(segments_in(writers.directory)) == writer.segments > 2
    assert [row["seq"] for row in rows_of(writers.directory)] == list(range(1, 101))
    assert writer.records == 100


def test_a_segment_is_closed_when_it_is_old_enough(writers: Writers) -> None:
    writer = writers(segment_time=0.05)
    writer.take(batch(1, record()))
    until(lambda: writer.segments == 1)
    writer.take(batch(2, record()))
    until(lambda: writer.segments == 2)


def test_a_segment_has_the_records_of_one_day(writers: Writers) -> None:
    writer = writers()
    midnight = NOON // DAY * DAY + DAY
    writer.take(batch(1, record(midnight - 0.001), record(midnight), record(midnight + 0.001), gaps={1: 4}))
    writer.take(batch(8, record(midnight + 0.002)))
    assert writer.end()
    assert [path.parent.name for path in segments_in(writers.directory)] == ["date=2027-01-15", "date=2027-01-16"]
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(1, 0), (6, 4), (7, 0), (8, 0)]


def test_what_only_some_records_have_goes_with_them_into_their_day(writers: Writers) -> None:
    writer = writers()
    midnight = NOON // DAY * DAY + DAY
    bodies = [b"one", b"", b"three" * 9, b"four"]
    records = [record(midnight + place - 1.5, body) for place, body in enumerate(bodies)]
    extras = {
        place: Extra(b"receiver", 10 + place, None, f"reason {place}", "Stock", f"method_{place}") for place in (0, 3)
    }
    writer.take(batch(5, *records)._replace(extras=extras))
    assert writer.end()
    assert len(segments_in(writers.directory)) == 2
    rows = rows_of(writers.directory)
    assert [row["frames"][1] for row in rows] == bodies
    assert [row["cause"] for row in rows] == [10, None, None, 13]
    assert [row["reason"] for row in rows] == ["reason 0", None, None, "reason 3"]
    assert [row["receiver_name"] for row in rows] == ["Stock", None, None, "Stock"]
    assert [row["handler"] for row in rows] == ["method_0", None, None, "method_3"]


def test_an_open_segment_is_hidden_and_holds_what_was_taken(writers: Writers) -> None:
    writer = writers()
    writer.take(batch(1, record()))
    writer.flush()
    until(lambda: journals_in(writers.directory))
    (path,) = journals_in(writers.directory)
    assert path.name.startswith(".")
    until(lambda: [block.count for block in blocks_of(path)] == [1])
    assert not segments_in(writers.directory)
    writer.close_segment()
    until(lambda: segments_in(writers.directory))
    until(lambda: not journals_in(writers.directory))


def test_numbers_go_on_where_a_node_of_the_same_name_left_off(writers: Writers, tmp_path: Path) -> None:
    assert next_number(writers.directory, "node") == 1
    first = writers()
    first.take(batch(1, *[record()] * 9))
    first.flush()
    until(lambda: next_number(writers.directory, "node") == 10)  # from the open one
    assert first.end()
    assert next_number(writers.directory, "node") == 10
    assert next_number(writers.directory, "another") == 1
    (path,) = segments_in(writers.directory)
    path.write_bytes(b"nonsense")
    assert next_number(writers.directory, "node") == 2


def test_what_waits_in_memory_counts_until_it_is_among_the_rows(writers: Writers) -> None:
    writer = writers(buffer_bytes=4 * 3_000)
    for first in range(1, 8):
        writer.take(batch(first, record()))
    until(lambda: writer.records == 7)
    until(lambda: writer.done == 6_000)
    (rows,) = writers.directory.glob("*/.*.rows")
    assert rows.stat().st_size > 0
    writer.close_segment()
    until(lambda: writer.done == 7_000)
    assert [row["seq"] for row in rows_of(writers.directory)] == list(range(1, 8))
    (path,) = segments_in(writers.directory)
    assert pq.read_metadata(path).num_row_groups == 3


def test_many_records_never_go_through_the_journal(writers: Writers) -> None:
    writer = writers(buffer_bytes=4 * 3_000)
    for first in range(1, 8):
        writer.take(batch(first, record()))
    writer.flush()
    until(lambda: journals_in(writers.directory))
    (journal,) = journals_in(writers.directory)
    until(lambda: [block.is_mark for block in blocks_of(journal)] == [True] * 3)  # one for each group of rows
    assert next_number(writers.directory, "node") == 8
    until(lambda: writer.done == 7_000)  # also those that were too few, since else they would have been journaled
    writer.take(batch(8, record()))
    writer.flush()
    until(lambda: len(list(blocks_of(journal))) == 4)


# -- the disk refuses --------------------------------------------------------------------------------------------------


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the system refuse to write more than that to any file, as it does when the disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_costs_records_and_one_line_and_writing_goes_on_when_there_is_room(
    writers: Writers, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writers(buffer_bytes=4)  # so that every batch is a group of rows at once
    writer.take(batch(1, record()))
    writer.flush()
    until(lambda: [len(list(blocks_of(journal))) for journal in journals_in(writers.directory)] == [1])
    (rows,) = writers.directory.glob("*/.*.rows")
    with files_of_at_most(rows.stat().st_size + 1_000):
        for first in range(2, 12):
            writer.take(batch(first, record(body=os.urandom(4_000))))
            until(lambda: writer.dropped == first - 1 and time.monotonic() > writer._retry_at)  # noqa: B023
            writer.flush()  # which finds nothing to write, and so nothing out
        assert "File too large" in writer.problem
        until(lambda: writer.done == 11_000)
    until(lambda: time.monotonic() > writer._retry_at)
    writer.take(batch(12, record(), record()))
    until(lambda: not writer.problem)
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(1, 0), (12, 10), (13, 0)]
    assert [one.levelname for one in caplog.records] == ["ERROR", "WARNING"]


def test_what_cannot_be_written_to_the_journal_waits_in_memory(
    writers: Writers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writers()
    writer.take(batch(1, record()))
    writer.flush()
    until(lambda: journals_in(writers.directory))
    (journal,) = journals_in(writers.directory)
    until(lambda: list(blocks_of(journal)))
    is_full = True
    write, write_all = os.write, os.writev

    def take_some(file: int, pieces: list[bytes]) -> int:
        return write(file, b"".join(pieces)[:100]) if is_full else write_all(file, pieces)

    def refuse(file: int, data: memoryview) -> int:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(os, "writev", take_some)
    monkeypatch.setattr(os, "write", refuse)
    writer.take(batch(2, record()))
    writer.flush()
    until(lambda: "No space left" in writer.problem)
    assert [block.count for block in blocks_of(journal)] == [1]  # and no half of another one behind it
    is_full = False
    until(lambda: time.monotonic() > writer._retry_at)
    writer.flush()
    until(lambda: not writer.problem)
    assert [block.count for block in blocks_of(journal)] == [1, 1]
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(1, 0), (2, 0)]
    assert [one.levelname for one in caplog.records] == ["ERROR", "WARNING"]


def test_a_directory_that_cannot_be_made_stops_nothing_but_the_capture(
    writers: Writers, caplog: pytest.LogCaptureFixture
) -> None:
    writers.directory.write_text("a file is in the way")
    writer = writers()
    for first in range(1, 4):
        writer.take(batch(first, record()))
    until(lambda: writer.dropped == 3)
    assert writer.problem
    writers.directory.unlink()
    until(lambda: time.monotonic() > writer._retry_at)
    writer.take(batch(4, record()))
    until(lambda: writer.records == 1)
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(4, 3)]
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1


def test_a_directory_that_is_removed_is_noticed_and_what_was_in_it_counted(
    writers: Writers, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writers()
    writer.take(batch(1, record(), record()))
    until(lambda: writer.records == 2)
    shutil.rmtree(writers.directory)
    writer.take(batch(3, record()))
    until(lambda: writer.dropped == 2)
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(3, 2)]
    assert [one.levelname for one in caplog.records] == ["ERROR"]


def test_a_segment_that_cannot_be_closed_is_tried_again(
    writers: Writers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writers()
    writer.take(batch(1, record()))
    until(lambda: writer.records == 1)
    sync_folder, tries = segments.sync_folder, 0

    def refuse(folder: Path) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        sync_folder(folder)

    monkeypatch.setattr(open_segment, "sync_folder", refuse)
    writer.close_segment()
    taken = 1
    while not writer.segments:
        taken += 1
        writer.take(batch(taken, record()))
        until(lambda: writer.records + writer.dropped == taken)  # noqa: B023
    until(lambda: time.monotonic() > writer._retry_at)
    writer.take(batch(taken + 1, record()))
    assert writer.end()
    rows = [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)]
    assert rows[0] == (1, 0)
    assert rows[-1][0] == taken + 1 == len(rows) + sum(dropped for _, dropped in rows)
    assert not journals_in(writers.directory)
    assert caplog.records


def test_two_segments_at_once_do_not_share_their_room(writers: Writers, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = writers()
    midnight = NOON // DAY * DAY + DAY
    write_group = OpenSegment._write_group
    refused: list[OpenSegment] = []

    def refuse_first(segment: OpenSegment) -> None:
        if not refused:
            refused.append(segment)
            raise OSError(errno.ENOSPC, "No space left on device")
        write_group(segment)

    monkeypatch.setattr(OpenSegment, "_write_group", refuse_first)
    bodies = [bytes([number]) * size for number, size in enumerate((50, 50, 500))]
    writer.take(batch(1, record(midnight - 1, bodies[0])))
    writer.take(batch(2, record(midnight + 1, bodies[1])))
    until(lambda: writer.records == 2)
    until(lambda: time.monotonic() > writer._retry_at)
    writer.take(batch(3, record(midnight + 2, bodies[2])))  # before it the first day's is closed, and its room cleared
    assert writer.end()
    assert refused
    assert [row["frames"][1] for row in rows_of(writers.directory)] == bodies


def test_a_segment_that_no_batch_found_room_in_does_not_appear(writers: Writers) -> None:
    writer = writers(buffer_bytes=4)
    with files_of_at_most(1_000):
        writer.take(batch(1, record(body=os.urandom(4_000))))
        until(lambda: writer.dropped == 1)
        assert writer.end()
    assert (writer.segments, list(writers.directory.glob("*/*"))) == (0, [])


@pytest.mark.parametrize("what", ["rows", "everything"])
def test_what_is_taken_away_while_it_is_written_is_counted_and_stops_nothing(what: str, writers: Writers) -> None:
    writer = writers(buffer_bytes=4)
    writer.take(batch(1, record(), record()))
    until(lambda: writer.records == 2)
    if what == "rows":
        for rows in writers.directory.glob("*/.*.rows"):
            rows.unlink()
    else:
        writers.directory.rename(writers.directory.with_name("moved"))
    writer.close_segment()
    until(lambda: writer.dropped == 2)
    writer.take(batch(3, record()))
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(3, 2)]


def test_a_segment_that_can_never_be_closed_stops_none_of_the_next(
    writers: Writers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    writer = writers()
    monkeypatch.setattr(OpenSegment, "_write_group", fail)
    writer.take(batch(1, record()))
    writer.close_segment()
    until(lambda: [one.is_left for one in summaries(writers.directory)] == [True])
    monkeypatch.setattr(Journal, "write", fail)
    writer.take(batch(2, record()))
    writer.close_segment()
    until(lambda: writer.dropped == 1)  # which not even the journal has
    assert writer.records == 1
    monkeypatch.undo()
    writer.take(batch(3, record()))
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in table_of(writers.directory).to_pylist()] == [(3, 1)]
    assert [one.records for one in recover(writers.directory)] == [1, 0]
    assert [row["seq"] for row in table_of(writers.directory).to_pylist()] == [1, 3]
    assert "cannot be closed" in caplog.text


# -- retention ---------------------------------------------------------------------------------------------------------


def test_old_segments_go_when_all_of_them_take_too_much_room(writers: Writers) -> None:
    first = writers()
    for number in range(1, 4):
        first.take(batch(number, record(NOON + number)))
        first.close_segment()
    until(lambda: first.segments == 3)
    sizes = [path.stat().st_size for path in segments_in(writers.directory)]
    second = writers(keep_bytes=sum(sizes[1:]) + 10)
    second.take(batch(4, record(NOON + 4)))
    until(lambda: second.records == 1)
    second.close_segment()
    until(lambda: [name.seq for path in segments_in(writers.directory) if (name := read_name(path))] == [3, 4])


def test_old_segments_go_when_their_time_is_over_but_never_the_open_one(writers: Writers) -> None:
    first = writers()
    first.take(batch(1, record()))
    assert first.end()
    (old,) = segments_in(writers.directory)
    os.utime(old, (1, 1))
    foreign = old.with_name("notes.parquet")
    foreign.write_text("not ours")
    os.utime(foreign, (1, 1))
    second = writers(keep_time=3_600.0)
    second.take(batch(2, record()))
    until(lambda: not old.exists())
    assert journals_in(writers.directory)
    assert foreign.exists()


SEGMENTS = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 50)), max_size=12)


@given(SEGMENTS, st.integers(0, 120), st.integers(0, 300))
def test_what_is_kept_is_the_newest_and_within_the_limits(
    segments: list[tuple[float, int]], keep_time: int, keep_bytes: int
) -> None:
    seen = [(Path(str(number)), closed_at, size) for number, (closed_at, size) in enumerate(sorted(segments))]
    gone = set(expendable(seen, 110.0, keep_time=keep_time, keep_bytes=keep_bytes))
    kept = [one for one in seen if one[0] not in gone]
    assert kept == seen[len(gone) :]
    assert not keep_bytes or sum(size for _, _, size in kept) <= keep_bytes
    assert not keep_time or all(closed_at >= 110.0 - keep_time for _, closed_at, _ in kept)
    if not keep_bytes:
        assert all(keep_time and closed_at < 110.0 - keep_time for path, closed_at, _ in seen if path in gone)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("directory", ""), ("segment_bytes", 0), ("segment_time", -1.0), ("keep_bytes", -1), ("flush_time", 0.0)],
        ("buffer_bytes", 1 << 31),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: Any) -> None:
    with pytest.raises(LocalError, match=name):
        CaptureSettings(**{"directory": "captures", name: value})
