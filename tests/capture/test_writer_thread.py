"""Segments: when they are closed, how they appear, how long they stay, and what happens when the disk refuses."""

from __future__ import annotations

import errno
import logging
import os
import re
import resource
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline import ArgumentError, WireFormat
from hopline.capture import recovery, segment_file, writer_thread
from hopline.capture.crash_scan import scan
from hopline.capture.event_buffer import OVERHEAD, PACK_RECORDS, EventBuffer
from hopline.capture.journal import MAGIC, Journal, content_of
from hopline.capture.naming import name_of, read_name
from hopline.capture.packing import CODES, Details, EventBatch, Packer, Receiver
from hopline.capture.records import CAPTURE_SCHEMA
from hopline.capture.recovery import Recovery, make_segment, recover
from hopline.capture.retention import expendable
from hopline.capture.rows import DAY, Source
from hopline.capture.rows import rows_of as arrow_rows_of
from hopline.capture.segment_files import journals_in, segments_in
from hopline.capture.settings import CaptureSettings
from hopline.capture.summary import next_seq_of, summaries
from hopline.capture.writer_thread import CaptureWriter

from .reading import rows_of, table_of

NOON = 1_800_000_000.0 // DAY * DAY + DAY / 2
STARTED = NOON - 12_345.678  # when the clock of the node was at zero
SIZE = 1_000  # of a batch, as it counts against the buffer


SOURCE = Source("node", "tcp://127.0.0.1:1")
Record = tuple[float, list[bytes]]  # time, frames


def record(time: float = NOON, body: bytes = b"body") -> Record:
    return time, [b"socket", b"", body, b"meta"]


def batch(first: int, *records: Record, details: dict[int, Details] | None = None) -> EventBatch:
    """Return a batch with consecutive numbers."""
    return numbered([first + index for index in range(len(records))], *records, details=details)


def numbered(seqs: list[int], *records: Record, details: dict[int, Details] | None = None) -> EventBatch:
    """Return a batch of records with these numbers."""
    packer = Packer(WireFormat.V6)
    fields: list[Any] = []
    for seq, (when, frames) in zip(seqs, records, strict=True):
        fields += (seq, CODES["sent"], when - STARTED, b"peer", len(frames))
    piece = packer.pack(fields, [frame for _, frames in records for frame in frames], {})
    return EventBatch(
        pieces=[piece],
        peers=packer.take_peers(),
        details=details or {},
        is_ordered=seqs == sorted(seqs),
        size=SIZE,
        epoch=STARTED,
    )


def records_in(journal: Path) -> list[int]:
    """Return the number of records of each batch in a journal."""
    return [rows.num_rows for rows in scan(content_of(journal), 1).batches]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.002)


class Writers:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[CaptureWriter] = []

    def __call__(self, **settings: Any) -> CaptureWriter:
        settings = {"directory": str(self.directory), "retry_time": 0.001, **settings}
        self.started.append(CaptureWriter(CaptureSettings(**settings), SOURCE))
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
        crashed = Journal(writers.directory, name_of("node", NOON, 5), 4)
        crashed.append(arrow_rows_of(batch(5, record()), SOURCE))
        open_files.append(stat.S_IMODE(crashed.path.stat().st_mode))
        crashed.close()
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
    writer.take(numbered([1, 6, 7], record(midnight - 0.001), record(midnight), record(midnight + 0.001)))
    writer.take(batch(8, record(midnight + 0.002)))
    assert writer.end()
    assert [path.parent.name for path in segments_in(writers.directory)] == ["date=2027-01-15", "date=2027-01-16"]
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(1, 0), (6, 4), (7, 0), (8, 0)]


def test_what_only_some_records_have_goes_with_them_into_their_day(writers: Writers) -> None:
    writer = writers()
    midnight = NOON // DAY * DAY + DAY
    bodies = [b"one", b"", b"three" * 9, b"four"]
    records = [record(midnight + place - 1.5, body) for place, body in enumerate(bodies)]
    details = {
        5 + place: Details(Receiver(b"receiver", "Stock", f"method_{place}"), 10 + place, None, f"reason {place}")
        for place in (0, 3)
    }
    writer.take(batch(5, *records, details=details))
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
    until(lambda: records_in(path) == [1])
    assert not segments_in(writers.directory)
    writer.close_segment()
    until(lambda: segments_in(writers.directory))
    until(lambda: not journals_in(writers.directory))


def test_numbers_go_on_where_a_node_of_the_same_name_left_off(writers: Writers, tmp_path: Path) -> None:
    assert next_seq_of(writers.directory, "node") == 1
    first = writers()
    first.take(batch(1, *[record()] * 9))
    first.flush()
    until(lambda: next_seq_of(writers.directory, "node") == 10)  # from the open one
    assert first.end()
    assert next_seq_of(writers.directory, "node") == 10
    assert next_seq_of(writers.directory, "another") == 1
    (path,) = segments_in(writers.directory)
    path.write_bytes(b"nonsense")
    assert next_seq_of(writers.directory, "node") == 2


def test_what_was_taken_counts_until_it_is_in_the_journal(writers: Writers) -> None:
    writer = writers()
    for first in range(1, 8):
        writer.take(batch(first, record()))
    until(lambda: writer.done == 7 * SIZE)
    assert writer.records == 7
    (journal,) = journals_in(writers.directory)
    assert records_in(journal) == [1] * 7
    writer.close_segment()
    until(lambda: writer.segments == 1)
    assert [row["seq"] for row in rows_of(writers.directory)] == list(range(1, 8))


def test_a_journal_is_an_arrow_stream_that_anybody_can_read(writers: Writers) -> None:
    writer = writers()
    writer.take(batch(1, record(), record()))
    writer.take(batch(3, record(body=b"another")))
    until(lambda: writer.records == 3)
    (journal,) = journals_in(writers.directory)
    table = pa.ipc.open_stream(content_of(journal)).read_all()
    assert table.schema.equals(CAPTURE_SCHEMA)
    assert writer.end()
    assert table.to_pylist() == rows_of(writers.directory)


def test_a_large_segment_has_several_row_groups(writers: Writers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_file, "_GROUP_ROWS", 2)
    writer = writers()
    for first in range(1, 8):
        writer.take(batch(first, record()))
    assert writer.end()
    (path,) = segments_in(writers.directory)
    assert pq.read_metadata(path).num_row_groups == 4
    assert [row["seq"] for row in rows_of(writers.directory)] == list(range(1, 8))


def test_records_are_written_in_the_order_of_their_numbers(writers: Writers) -> None:
    writer = writers()
    bodies = {seq: b"body of %d" % seq for seq in (3, 1, 2, 6)}
    writer.take(numbered(list(bodies), *[record(body=body) for body in bodies.values()]))
    assert writer.end()
    rows = table_of(writers.directory).to_pylist()
    assert [(row["seq"], row["dropped"]) for row in rows] == [(1, 0), (2, 0), (3, 0), (6, 2)]
    assert [row["frames"][1] for row in rows] == [bodies[seq] for seq in sorted(bodies)]


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


def test_a_full_disk_costs_one_line_and_no_record_as_long_as_there_is_memory(
    writers: Writers, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writers()
    writer.take(batch(1, record()))
    until(lambda: writer.records == 1)
    (journal,) = journals_in(writers.directory)
    before = journal.read_bytes()
    with files_of_at_most(len(before) + 1_000):
        for first in range(2, 12):
            writer.take(batch(first, record(body=os.urandom(4_000))))
        until(lambda: "File too large" in writer.problem)
        writer.flush()
        time.sleep(0.02)  # some more tries
        assert (writer.records, writer.done) == (1, SIZE)  # what waits still counts
        assert journal.read_bytes() == before  # and no half of another batch behind it
    until(lambda: not writer.problem)
    writer.take(batch(12, record(), record()))
    assert writer.end()
    assert (writer.dropped, writer.done) == (0, 12 * SIZE)
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(seq, 0) for seq in range(1, 14)]
    assert [one.levelname for one in caplog.records] == ["ERROR", "WARNING"]


def test_a_full_disk_costs_no_more_memory_than_allowed_and_every_record_beyond_it_is_counted(writers: Writers) -> None:
    writer = writers()
    capacity = 20_000
    buffer = EventBuffer(writer, Packer(WireFormat.V6), lambda call: call(), time.monotonic, capacity=capacity)
    writers.directory.write_text("a file is in the way")
    for _ in range(1_000):
        buffer.sent(b"peer", [b"socket", b"", bytes(100)], 0.0)
        assert buffer._handed_over - writer.done <= capacity + PACK_RECORDS * (OVERHEAD + 100)
    buffer.hand_over()
    assert 1_000 - PACK_RECORDS < buffer.dropped < 1_000
    writers.directory.unlink()
    until(lambda: writer.done == buffer._handed_over)
    buffer.sent(b"peer", [b"socket", b"", bytes(100)], 0.0)
    buffer.hand_over()
    assert writer.end()
    rows = rows_of(writers.directory)
    assert sum(row["dropped"] for row in rows) == buffer.dropped
    assert len(rows) + buffer.dropped == rows[-1]["seq"] == 1_001


def test_a_write_that_the_disk_takes_half_of_is_taken_back(
    writers: Writers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writers()
    writer.take(batch(1, record()))
    writer.flush()
    until(lambda: writer.records == 1)
    (journal,) = journals_in(writers.directory)
    before = journal.read_bytes()
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
    until(lambda: journal.read_bytes() == before)
    is_full = False
    until(lambda: not writer.problem)
    assert records_in(journal) == [1, 1]
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(1, 0), (2, 0)]
    assert [one.levelname for one in caplog.records] == ["ERROR", "WARNING"]


def test_a_disk_that_refuses_only_when_it_is_synced_is_noticed(
    writers: Writers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_full = True
    sync = os.fdatasync

    def refuse(file: int) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(file)

    monkeypatch.setattr(os, "fdatasync", refuse)
    writer = writers()
    writer.take(batch(1, record()))
    writer.flush()
    until(lambda: "No space left" in writer.problem)
    writer.take(batch(2, record()))
    until(lambda: writer.records == 2)
    assert writer.problem  # the system took it, the disk did not
    is_full = False
    writer.flush()
    until(lambda: not writer.problem)
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
    until(lambda: writer.problem)
    writers.directory.unlink()
    until(lambda: writer.records == 3)
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(1, 0), (2, 0), (3, 0)]
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1


def test_what_the_disk_refuses_until_the_end_is_counted(writers: Writers, caplog: pytest.LogCaptureFixture) -> None:
    writers.directory.write_text("a file is in the way")
    writer = writers(retry_time=3_600.0)  # the end does not wait for the next try
    for first in range(1, 7, 2):
        writer.take(batch(first, record(), record()))
    until(lambda: writer.problem)
    assert writer.end()
    assert (writer.records, writer.dropped, writer.done) == (0, 6, 3 * SIZE)
    assert "dropped 6 records that the disk refused" in caplog.text
    assert len(caplog.records) == 2


def test_a_batch_that_makes_no_sense_is_dropped_and_counted_by_the_next_record(
    writers: Writers, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writers()
    writer.take(batch(1, record()))
    torn = batch(2, record(), record())
    writer.take(torn._replace(pieces=[torn.pieces[0]._replace(seqs=b"torn")]))
    writer.take(batch(4, record()))
    until(lambda: writer.done == 3 * SIZE)
    assert writer.end()
    assert writer.dropped == 2
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(1, 0), (4, 2)]
    assert len(caplog.records) == 1


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
    sync_folder, tries = segment_file.sync_folder, 0

    def refuse(folder: Path) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        sync_folder(folder)

    monkeypatch.setattr(segment_file, "sync_folder", refuse)
    monkeypatch.setattr(recovery, "sync_folder", refuse)
    writer.close_segment()
    until(lambda: "Too many open files" in writer.problem)
    taken = 1
    while not writer.segments:
        taken += 1
        writer.take(batch(taken, record()))
        until(lambda: writer.records == taken)  # noqa: B023
    until(lambda: not writer.problem)
    writer.take(batch(taken + 1, record()))
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [
        (seq, 0) for seq in range(1, taken + 2)
    ]
    assert not journals_in(writers.directory)
    assert [one.levelname for one in caplog.records] == ["ERROR", "WARNING"]


def test_while_a_segment_cannot_be_closed_the_next_one_grows(writers: Writers, monkeypatch: pytest.MonkeyPatch) -> None:
    is_full = True

    def refuse(journal: Path, directory: Path, **options: bool) -> Recovery:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return make_segment(journal, directory, **options)

    monkeypatch.setattr(writer_thread, "make_segment", refuse)
    writer = writers(segment_bytes=1)
    for first in range(1, 6):
        writer.take(batch(first, record()))
    until(lambda: writer.records == 5)
    assert len(journals_in(writers.directory)) == 2
    is_full = False
    until(lambda: writer.segments >= 1)
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(seq, 0) for seq in range(1, 6)]


def test_a_segment_that_no_batch_found_room_in_does_not_appear(writers: Writers) -> None:
    writer = writers()
    with files_of_at_most(4_000):
        writer.take(batch(1, record(body=os.urandom(4_000))))
        until(lambda: writer.problem)
        assert writer.end()
        assert writer.dropped == 1
    assert (writer.segments, list(writers.directory.glob("*/*"))) == (0, [])


@pytest.mark.parametrize("what", ["journal", "everything"])
def test_what_is_taken_away_while_it_is_written_is_counted_and_stops_nothing(what: str, writers: Writers) -> None:
    writer = writers()
    writer.take(batch(1, record(), record()))
    until(lambda: writer.records == 2)
    if what == "journal":
        for journal in journals_in(writers.directory):
            journal.unlink()
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
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    writer = writers()
    monkeypatch.setattr(writer_thread, "make_segment", fail)
    writer.take(batch(1, record()))
    writer.close_segment()
    until(lambda: [one.is_left for one in summaries(writers.directory)] == [True])
    monkeypatch.undo()
    writer.take(batch(2, record()))
    assert writer.end()
    assert [row["seq"] for row in table_of(writers.directory).to_pylist()] == [2]
    assert [one.records for one in recover(writers.directory)] == [1]
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(1, 0), (2, 0)]
    assert "cannot be closed" in caplog.text


def test_a_journal_that_is_damaged_before_it_is_closed_costs_one_batch_which_is_counted(
    writers: Writers, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writers()
    for first in (1, 3, 5):
        writer.take(batch(first, record(), record()))
    until(lambda: writer.records == 6)
    (journal,) = journals_in(writers.directory)
    content = journal.read_bytes()
    seals = [found.start() for found in re.finditer(re.escape(MAGIC), content)]
    with journal.open("r+b") as file:
        file.seek(seals[2] - 8)  # in the header of the second batch, which follows the schema and the first
        file.write(bytes(byte ^ 1 for byte in content[seals[2] - 8 : seals[2]]))
    assert writer.end()
    assert [(row["seq"], row["dropped"]) for row in rows_of(writers.directory)] == [(1, 0), (2, 0), (5, 2), (6, 0)]
    assert (writer.records, writer.dropped) == (4, 2)
    assert "lost at least 2 records" in caplog.text
    assert [path.suffix for path in journal.parent.glob(".*")] == [".damaged"]


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
    with pytest.raises(ArgumentError, match=name):
        CaptureSettings(**{"directory": "captures", name: value})
