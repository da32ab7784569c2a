"""What a crash leaves: everything that was wholly written becomes a segment, and nothing else changes.

`test_damage` is about single bits.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopline.capture import recovery, summary
from hopline.capture.journal import OPENING, Journal
from hopline.capture.naming import name_of
from hopline.capture.recovery import Fate, make_segment, recover
from hopline.capture.rows import rows_of as arrow_rows_of
from hopline.capture.segment_files import journals_in, segments_in
from hopline.capture.summary import next_seq_of, summaries

from .reading import rows_of, table_of
from .test_writer_thread import NOON, SOURCE, batch, files_of_at_most, record

BATCHES = 3
ROWS = 4
NAME = name_of("node", NOON, 1)


def opened(directory: Path) -> Journal:
    return Journal(directory, NAME, 0)


def append(journal: Journal, number: int) -> None:
    journal.append(arrow_rows_of(batch(1 + number * ROWS, *[record()] * ROWS), SOURCE))


def crashed(directory: Path) -> tuple[Path, list[int]]:
    """Leave a journal of some batches; return it, with its size before and after each of them."""
    journal = opened(directory)
    sizes = [journal.size]
    for number in range(BATCHES):
        append(journal, number)
        sizes.append(journal.size)
    journal.close()
    assert sizes[-1] == journal.path.stat().st_size
    return journal.path, sizes


@pytest.mark.parametrize("missing", [0, 1])
def test_whole_batches_are_saved_and_what_is_torn_is_reported(missing: int, tmp_path: Path) -> None:
    path, sizes = crashed(tmp_path)
    path.write_bytes(path.read_bytes()[: sizes[-1] - missing])
    (found,) = recover(tmp_path)
    saved = BATCHES - missing
    assert (found.fate, found.records) == (Fate.RECOVERED, saved * ROWS)
    assert found.unread_bytes == (0 if not missing else sizes[-1] - sizes[-2] - missing)
    assert [one.name for one in found.damaged] == ([f"{path.name}.damaged"] if missing else [])
    assert segments_in(tmp_path) == [found.segment]
    assert [row["seq"] for row in rows_of(tmp_path)] == list(range(1, 1 + saved * ROWS))
    assert not journals_in(tmp_path)
    assert not list(recover(tmp_path))


@settings(deadline=None)
@given(st.data())
def test_wherever_it_was_cut_nothing_whole_is_lost(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        path, sizes = crashed(directory)
        cut = data.draw(st.one_of(st.integers(0, sizes[-1]), st.sampled_from(sizes)))
        tail = data.draw(st.sampled_from([b"", bytes(64)]))  # after a power cut a file may end in zeros
        content = path.read_bytes()[:cut] + (tail if cut >= sizes[0] else b"")
        path.write_bytes(content)
        (found,) = recover(directory)
        whole = sum(size <= cut for size in sizes[1:])
        is_whole = cut <= sizes[0] or cut in sizes
        has_unread_bytes = not is_whole or (bool(tail) and cut >= sizes[0])
        without_records = Fate.DAMAGED if has_unread_bytes else Fate.EMPTY
        assert (found.records, found.missing) == (whole * ROWS, 0)
        assert found.fate is (Fate.RECOVERED if whole else without_records)
        assert found.unread_bytes == (len(content) - sizes[whole] if has_unread_bytes else 0)
        assert [one.read_bytes() for one in found.damaged] == ([content] if has_unread_bytes else [])
        assert len(rows_of(directory)) == whole * ROWS
        assert not journals_in(directory)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=8))
def test_whatever_is_wrong_exactly_the_damaged_batches_are_missing(changes: list[tuple[int, int]]) -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        path, sizes = crashed(directory)
        original = path.read_bytes()
        content = bytearray(original)
        for place, change in changes:
            content[place % len(content)] ^= change
        path.write_bytes(content)
        damaged = {place for place, byte in enumerate(content) if byte != original[place]}
        messages = [range(begin, end) for begin, end in pairwise((0, *sizes))]
        is_whole = [damaged.isdisjoint(message) for message in messages]
        whole = [number for number, intact in enumerate(is_whole[1:]) if intact]
        (found,) = recover(directory)
        rows = table_of(directory).to_pylist()
        assert [row["seq"] for row in rows] == [1 + number * ROWS + at for number in whole for at in range(ROWS)]
        assert all(row["frames"] == record()[1][1:] and row["peer"] == "peer" for row in rows)
        assert sum(1 + row["dropped"] for row in rows) == (rows[-1]["seq"] if rows else 0)
        assert found.records == len(rows)
        assert found.missing == (rows[-1]["seq"] - len(rows) if rows else 0)
        unread = [message for message, intact in zip(messages, is_whole, strict=True) if not intact]
        assert found.unread_bytes == sum(map(len, unread))
        if found.fate is Fate.UNREADABLE:
            assert not any(is_whole)
            assert path.read_bytes() == content
        else:
            assert [one.read_bytes() for one in found.damaged] == ([content] if damaged else [])


@settings(deadline=None)
@given(st.integers(0, BATCHES), st.binary(max_size=200))
def test_bytes_between_messages_cost_nothing(place: int, foreign: bytes) -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        path, sizes = crashed(directory)
        content = path.read_bytes()
        path.write_bytes(content[: sizes[place]] + foreign + content[sizes[place] :])
        (found,) = recover(directory)
        assert (found.records, found.missing, found.unread_bytes) == (BATCHES * ROWS, 0, len(foreign))


def test_a_body_that_looks_like_a_batch_is_not_taken_for_one(tmp_path: Path) -> None:
    other, sizes = crashed(tmp_path / "other")
    forged = other.read_bytes()[sizes[0] : sizes[1]]
    journal = opened(tmp_path / "captures")
    for first in (101, 102, 103):
        journal.append(arrow_rows_of(batch(first, record(body=forged)), SOURCE))
    journal.close()
    content = bytearray(journal.path.read_bytes())
    second = content.index(forged, content.index(forged) + 1)
    content[second + len(forged) - 1] ^= 1  # in the body: where the batch ends is still known
    journal.path.write_bytes(content)
    (found,) = recover(tmp_path / "captures")
    assert [row["seq"] for row in table_of(tmp_path / "captures").to_pylist()] == [101, 103]
    assert found.records == 2


def test_the_segment_of_a_node_that_runs_is_left_alone(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    append(journal, 0)
    assert [one.fate for one in recover(tmp_path)] == [Fate.IN_USE]
    (listed,) = summaries(tmp_path)
    assert (listed.state, listed.size) == ("open", journal.size)
    append(journal, 1)
    make_segment(journal.path, tmp_path)
    journal.close()
    assert len(rows_of(tmp_path)) == 2 * ROWS
    opened(tmp_path / "other").close()
    assert [one.state for one in summaries(tmp_path / "other")] == ["left by a crash: hopline capture recover"]
    assert [one.fate for one in recover(tmp_path / "other")] == [Fate.EMPTY]


def test_a_segment_that_is_just_being_created_was_not_left_by_a_crash(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (journal,) = journals_in(tmp_path)
    journal.write_bytes(b"")  # as it is before its node has locked it
    assert [one.state for one in summaries(tmp_path)] == ["open"]


@pytest.mark.parametrize("size", [0, 1, 8, len(OPENING) - 1])
def test_a_journal_that_is_cut_in_its_schema_was_empty(size: int, tmp_path: Path) -> None:
    opened(tmp_path).close()
    (journal,) = journals_in(tmp_path)
    journal.write_bytes(OPENING[:size])
    (found,) = recover(tmp_path)
    assert (found.fate, found.unread_bytes, found.damaged) == (Fate.EMPTY, 0, ())
    assert not journal.exists()


def test_a_crash_after_the_segment_appeared_doubles_nothing(tmp_path: Path) -> None:
    path, _ = crashed(tmp_path)
    content = path.read_bytes()
    make_segment(path, tmp_path)
    path.write_bytes(content)
    (found,) = recover(tmp_path)
    assert found.fate is Fate.SAVED_BEFORE
    assert len(rows_of(tmp_path)) == BATCHES * ROWS
    assert not journals_in(tmp_path)


@pytest.mark.parametrize("step", ["write_segment", "sync_folder", "rename", "unlink"])
def test_wherever_closing_is_interrupted_nothing_is_lost_and_nothing_is_doubled(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = crashed(tmp_path)

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path if step in ("rename", "unlink") else recovery, step, crash)
    if step == "sync_folder":
        monkeypatch.setattr("hopline.capture.segment_file.sync_folder", crash)
    with pytest.raises(KeyboardInterrupt):
        make_segment(path, tmp_path)
    assert path.exists()
    monkeypatch.undo()
    (found,) = recover(tmp_path)
    assert found.records == BATCHES * ROWS
    assert len(rows_of(tmp_path)) == BATCHES * ROWS
    assert [file.name for file in path.parent.iterdir()] == [NAME.segment(tmp_path).name]


def test_nothing_is_deleted_before_the_segment_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = crashed(tmp_path)
    synced: list[str] = []
    fsync, unlink = os.fsync, Path.unlink

    def note_sync(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
        fsync(file)

    def note_deletion(file: Path, missing_ok: bool = False) -> None:
        synced.append(f"deleted {file.name}")
        unlink(file, missing_ok=missing_ok)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "unlink", note_deletion)
    make_segment(path, tmp_path)
    segment = NAME.segment(tmp_path)
    assert synced == [f".{segment.name}.tmp", segment.parent.name, f"deleted {path.name}"]


def test_a_segment_that_is_damaged_is_no_reason_to_delete_what_it_was_made_of(tmp_path: Path) -> None:
    path, _ = crashed(tmp_path)
    journal = path.read_bytes()
    segment = make_segment(path, tmp_path).segment
    assert segment is not None
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    path.write_bytes(journal)
    (found,) = recover(tmp_path)
    assert (found.fate, found.records) == (Fate.RECOVERED, BATCHES * ROWS)
    assert [path.read_bytes() for path in found.damaged] == [bytes(content)]
    assert len(rows_of(tmp_path)) == BATCHES * ROWS


def test_damaged_files_never_overwrite_each_other(tmp_path: Path) -> None:
    kept: list[Path] = []
    for tail in (b"first", b"second", b"third"):
        path, _ = crashed(tmp_path)
        with path.open("ab") as file:
            file.write(tail)
        (found,) = recover(tmp_path)
        kept += found.damaged
    assert [path.read_bytes()[-5:] for path in kept] == [b"first", b"econd", b"third"]
    assert len(rows_of(tmp_path)) == BATCHES * ROWS


def test_a_disk_that_refuses_leaves_everything_for_another_time(tmp_path: Path) -> None:
    path, _ = crashed(tmp_path)
    before = path.read_bytes()
    with files_of_at_most(500), pytest.raises(OSError, match="File too large"):
        list(recover(tmp_path))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.glob("*/*") if file != path] == []
    assert [one.records for one in recover(tmp_path)] == [BATCHES * ROWS]


def test_a_journal_that_may_not_be_read_is_listed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, _ = crashed(tmp_path)

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(summary, "is_abandoned", refuse)
    (found,) = summaries(tmp_path)
    assert (found.path, found.is_open) == (journal, True)
    assert "Permission denied" in found.problem


def test_a_journal_that_is_taken_for_left_over_before_it_is_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, path = fcntl.flock, NAME.journal(tmp_path)

    def late(file: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        path.unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    journal = opened(tmp_path)
    assert not journal.is_deleted
    append(journal, 0)
    make_segment(journal.path, tmp_path)
    journal.close()
    assert len(rows_of(tmp_path)) == ROWS


def test_half_a_segment_of_a_crash_is_deleted(tmp_path: Path) -> None:
    path, _ = crashed(tmp_path)
    half = path.with_name(f"{path.name.removesuffix('.open')}.parquet.tmp")
    half.write_bytes(b"PAR1")
    assert [one.fate for one in recover(tmp_path)] == [Fate.RECOVERED]
    assert not half.exists()
    half.write_bytes(b"PAR1")
    assert not list(recover(tmp_path))
    assert not half.exists()


def other_schema() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("a", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch([pa.array([1])], names=["a"]))
    return bytes(sink.getvalue())


@pytest.mark.parametrize("content", [lambda: b"nonsense" * 1_000, other_schema])
def test_what_is_no_segment_stays_as_it_is(content: Callable[[], bytes], tmp_path: Path) -> None:
    path = NAME.journal(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(content())
    assert [one.fate for one in recover(tmp_path)] == [Fate.UNREADABLE]
    assert path.read_bytes() == content()


def test_a_journal_never_overwrites_another(tmp_path: Path) -> None:
    crashed(tmp_path)
    with pytest.raises(FileExistsError):
        opened(tmp_path)
    assert [one.records for one in recover(tmp_path)] == [BATCHES * ROWS]


@pytest.mark.parametrize("moment", ["between the listings", "before the file is read"])
def test_a_node_that_starts_during_a_recovery_goes_on_after_the_recovered_records(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed(tmp_path)

    def recovering(function: Callable[[Path], object]) -> Callable[[Path], object]:
        def call(path: Path) -> object:
            monkeypatch.undo()
            result = function(path) if moment == "between the listings" else None
            assert [each.fate for each in recover(tmp_path)] == [Fate.RECOVERED]
            return function(path) if result is None else result

        return call

    name = "segments_in" if moment == "between the listings" else "content_of"
    monkeypatch.setattr(summary, name, recovering(getattr(summary, name)))
    assert next_seq_of(tmp_path, "node") == BATCHES * ROWS + 1
