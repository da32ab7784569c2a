"""What a crash leaves: everything that was wholly written becomes a segment, and nothing else changes.

`test_damage` is about single bits.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopline.capture import listing
from hopline.capture.blocks import block_of
from hopline.capture.listing import summaries
from hopline.capture.naming import journals_in, name_of, segments_in
from hopline.capture.open_segment import OpenSegment
from hopline.capture.recovery import Fate, recover
from hopline.capture.room import Room

from .reading import rows_of, table_of
from .test_writer import NOON, OPENING, batch, files_of_at_most, record

BATCHES = 3
ROWS = 4
NAME = name_of("node", NOON, 1)
MUCH = 1 << 30


def opened(directory: Path, group_bytes: int = MUCH) -> OpenSegment:
    return OpenSegment(directory, NAME, OPENING, group_bytes, Room(2_000))  # which not everything finds room in


def take(segment: OpenSegment, number: int) -> None:
    segment.take(batch(1 + number * ROWS, *[record()] * ROWS), 0)


def crashed(directory: Path) -> tuple[Path, list[int]]:
    """Flush a segment after each of some batches, and leave it; give its journal, with its size after each of them."""
    segment = opened(directory)
    journal = segment.journal_path
    sizes = [journal.stat().st_size]
    for number in range(BATCHES):
        take(segment, number)
        segment.flush()
        sizes.append(journal.stat().st_size)
    segment.abandon()
    return journal, sizes


@pytest.mark.parametrize("missing", [0, 1])
def test_whole_batches_are_saved_and_what_is_torn_is_told(missing: int, tmp_path: Path) -> None:
    path, sizes = crashed(tmp_path)
    path.write_bytes(path.read_bytes()[: sizes[-1] - missing])
    (found,) = recover(tmp_path)
    saved = BATCHES - missing
    assert (found.fate, found.records) == (Fate.RECOVERED, saved * ROWS)
    opening = sizes[0]  # of which there is a copy before each block
    assert found.unread_bytes == (0 if not missing else sizes[-1] - sizes[-2] - opening - missing)
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
        cut = data.draw(st.integers(0, sizes[-1]))
        tail = data.draw(st.sampled_from([b"", bytes(64)]))  # after a power cut a file may end in zeros
        path.write_bytes(path.read_bytes()[:cut] + (tail if cut >= sizes[0] else b""))
        (found,) = recover(directory)
        whole = sum(size <= cut for size in sizes[1:])
        assert found.records == whole * ROWS
        is_whole = cut in (sizes[0], *(size + sizes[0] for size in sizes[:-1]), *sizes) and not tail
        without_records = Fate.EMPTY if cut < sizes[0] or is_whole else Fate.DAMAGED
        assert found.fate is (Fate.RECOVERED if whole else without_records)
        assert [one.exists() for one in found.damaged] == ([] if is_whole or cut < sizes[0] else [True])
        assert len(rows_of(directory)) == whole * ROWS
        assert not journals_in(directory)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=8))
def test_whatever_is_wrong_in_it_recovery_ends_and_leaves_what_can_be_read(changes: list[tuple[int, int]]) -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        path, sizes = crashed(directory)
        content = bytearray(path.read_bytes())
        for place, change in changes:
            content[place % len(content)] ^= change
        path.write_bytes(content)
        (found,) = recover(directory)
        damaged = {place % len(content) for place, _ in changes}
        whole = [
            begin + sizes[0] <= end and damaged.isdisjoint(range(begin + sizes[0], end))
            for begin, end in pairwise(sizes)
        ]
        openings = [range(begin, begin + sizes[0]) for begin in (0, *sizes[:-1])]
        if any(damaged.isdisjoint(opening) for opening in openings):
            assert found.records >= sum(whole) * ROWS
        assert len(table_of(directory)) == found.records
        assert path.exists() is (found.fate is Fate.UNREADABLE)


def test_the_segment_of_a_node_that_runs_is_left_alone(tmp_path: Path) -> None:
    segment = opened(tmp_path, group_bytes=1)
    take(segment, 0)
    assert [one.fate for one in recover(tmp_path)] == [Fate.IN_USE]
    (listed,) = summaries(tmp_path)
    assert (listed.state, listed.size > NAME.rows(tmp_path).stat().st_size > 0) == ("open", True)
    take(segment, 1)
    segment.close()
    assert len(rows_of(tmp_path)) == 2 * ROWS
    segment = opened(tmp_path / "other")
    segment.abandon()
    assert [one.state for one in summaries(tmp_path / "other")] == ["left by a crash: hopline capture recover"]
    assert [one.fate for one in recover(tmp_path / "other")] == [Fate.EMPTY]


def test_a_segment_that_is_just_being_created_was_not_left_by_a_crash(tmp_path: Path) -> None:
    opened(tmp_path).abandon()
    (journal,) = journals_in(tmp_path)
    journal.write_bytes(b"")  # as it is before its node has locked it
    assert [one.state for one in summaries(tmp_path)] == ["open"]


def test_a_crash_after_the_segment_appeared_doubles_nothing(tmp_path: Path) -> None:
    segment = opened(tmp_path)
    for number in range(BATCHES):
        take(segment, number)
        segment.flush()
    journal = segment.journal_path.read_bytes()
    segment.close()
    segment.journal_path.write_bytes(journal)
    (found,) = recover(tmp_path)
    assert found.fate is Fate.SAVED_BEFORE
    assert len(rows_of(tmp_path)) == BATCHES * ROWS
    assert not journals_in(tmp_path)


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=12), st.sampled_from([1, 1_500, 2_500, 6_000, MUCH]))
def test_whenever_it_crashed_everything_is_there_that_was_flushed_and_nothing_twice(
    flushes: list[bool], group_bytes: int
) -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        segment = opened(directory, group_bytes)
        flushed = 0
        for number, is_flushed in enumerate(flushes):
            take(segment, number)
            if is_flushed:
                segment.flush()
                flushed = number + 1
        segment.abandon()
        (found,) = recover(directory)
        rows = rows_of(directory)
        assert [row["seq"] for row in rows] == list(range(1, 1 + len(rows)))
        assert len(rows) == found.records >= flushed * ROWS  # a group of rows outlives a process, flushed or not
        assert (found.missing, found.unread_bytes, found.damaged) == (0, 0, ())
        assert [path.name for path in directory.glob("*/.*")] == []


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=4), st.booleans())
def test_whatever_is_wrong_with_the_groups_of_rows_all_others_are_saved(
    changes: list[tuple[int, int]], is_cut: bool
) -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        segment, ends = opened(directory, group_bytes=1), [4]
        rows_path = NAME.rows(directory)
        for number in range(BATCHES):
            take(segment, number)
            assert segment._rows is not None
            ends.append(segment._rows.end)
        segment.abandon()
        content = bytearray(rows_path.read_bytes())
        places = [place % len(content) for place, _ in changes]
        for place, (_, change) in zip(places, changes, strict=True):
            content[place] ^= change
        changed = content[: min(places)] if is_cut else content
        wrong = {
            place
            for place, (now, before) in enumerate(zip(changed, rows_path.read_bytes(), strict=False))
            if now != before
        }
        wrong |= set(range(len(changed), len(content)))
        rows_path.write_bytes(changed)
        (found,) = recover(directory)
        whole = [number for number, (begin, end) in enumerate(pairwise(ends)) if wrong.isdisjoint(range(begin, end))]
        rows = table_of(directory).to_pylist()
        assert [row["seq"] for row in rows] == [1 + number * ROWS + at for number in whole for at in range(ROWS)]
        assert all(row["frames"] == record()[1][1:] and row["peer"] == "peer" for row in rows)
        assert found.missing == (BATCHES - len(whole)) * ROWS
        assert sum(1 + row["dropped"] for row in rows) == (rows[-1]["seq"] if rows else 0)
        is_whole = len(changed) in (*range(4), *ends, len(content))
        has_unread_bytes = not is_whole or any(4 <= place < len(changed) for place in wrong)
        assert bool(found.damaged) is (found.unread_bytes > 0)
        assert (found.unread_bytes > 0) is has_unread_bytes


def groups(directory: Path, count: int) -> tuple[Path, Path, list[int]]:
    """Leave a segment of some groups of rows; give its journal, its rows, and where each mark in the journal ends."""
    segment, ends = opened(directory, group_bytes=1), []
    for number in range(count):
        take(segment, number)
        segment.flush()
        ends.append(segment.journal_path.stat().st_size)
    segment.abandon()
    return segment.journal_path, NAME.rows(directory), ends


def test_a_footer_that_is_damaged_in_the_journal_is_read_behind_the_groups(tmp_path: Path) -> None:
    journal, _, ends = groups(tmp_path, 5)
    content = bytearray(journal.read_bytes())
    content[ends[-1] - 400 : ends[-1] - 100] = bytes(300)
    journal.write_bytes(content)
    (found,) = recover(tmp_path)
    assert (found.fate, found.records, found.missing) == (Fate.RECOVERED, 5 * ROWS, 0)
    assert [row["seq"] for row in rows_of(tmp_path)] == list(range(1, 1 + 5 * ROWS))


def test_groups_of_rows_whose_journal_is_gone_are_saved(tmp_path: Path) -> None:
    journal, rows, _ = groups(tmp_path, 3)
    journal.unlink()
    (found,) = recover(tmp_path)
    assert (found.fate, found.records, found.damaged) == (Fate.RECOVERED, 3 * ROWS, ())
    assert len(rows_of(tmp_path)) == 3 * ROWS
    assert not rows.exists()


def test_a_segment_that_is_damaged_is_no_reason_to_delete_what_it_was_made_of(tmp_path: Path) -> None:
    segment = opened(tmp_path)
    take(segment, 0)
    segment.flush()
    journal = segment.journal_path.read_bytes()
    segment.close()
    content = bytearray(segment.path.read_bytes())
    content[100] ^= 1
    segment.path.write_bytes(content)
    segment.journal_path.write_bytes(journal)
    (found,) = recover(tmp_path)
    assert (found.fate, found.records) == (Fate.RECOVERED, ROWS)
    assert [path.read_bytes() for path in found.damaged] == [bytes(content)]
    assert len(rows_of(tmp_path)) == ROWS


def test_what_a_crash_while_closing_left_is_no_damage(tmp_path: Path) -> None:
    segment = opened(tmp_path, group_bytes=1)
    take(segment, 0)
    assert segment._rows is not None
    segment._rows.finish()
    segment.abandon()
    (found,) = recover(tmp_path)
    assert (found.fate, found.records, found.damaged) == (Fate.RECOVERED, ROWS, ())


@pytest.mark.parametrize("is_grouped", [True, False])
def test_a_block_that_is_damaged_costs_its_own_records_if_they_are_nowhere_else(
    is_grouped: bool, tmp_path: Path
) -> None:
    segment = opened(tmp_path, group_bytes=3_500 if is_grouped else MUCH)
    take(segment, 0)
    take(segment, 1)
    take(segment, 2)
    sizes = [segment.journal_path.stat().st_size]
    segment._group_bytes, group_bytes = MUCH, segment._group_bytes
    segment.flush()
    sizes.append(segment.journal_path.stat().st_size)
    segment._group_bytes = group_bytes
    take(segment, 3)
    segment.flush()
    segment.abandon()
    content = bytearray(segment.journal_path.read_bytes())
    block = (sizes[1] - sizes[0]) // 3
    content[sizes[0] + 2 * block - 80] ^= 0x7F  # the length of the first frame of the second of three blocks
    segment.journal_path.write_bytes(content)
    (found,) = recover(tmp_path)
    missing = [] if is_grouped else range(1 + ROWS, 1 + 2 * ROWS)
    assert [row["seq"] for row in table_of(tmp_path).to_pylist()] == [
        seq for seq in range(1, 1 + 4 * ROWS) if seq not in missing
    ]
    assert found.missing == len(missing)
    assert [path.suffix for path in found.damaged] == [".damaged"]


def test_a_disk_that_refuses_leaves_everything_for_another_time(tmp_path: Path) -> None:
    journal, rows, _ = groups(tmp_path, 3)
    before = journal.read_bytes(), rows.read_bytes()
    with files_of_at_most(500), pytest.raises(OSError, match="File too large"):
        list(recover(tmp_path))
    assert (journal.read_bytes(), rows.read_bytes()) == before
    assert [path.name for path in tmp_path.glob("*/*") if path not in (journal, rows)] == []
    assert [one.records for one in recover(tmp_path)] == [3 * ROWS]


def test_a_block_whose_records_are_gone_is_no_reason_to_stop(tmp_path: Path) -> None:
    segment = opened(tmp_path)
    one = batch(1, *[record()] * ROWS)
    piece = one.pieces[0]._replace(events=bytes(ROWS))
    segment._journal.write(block_of(one._replace(pieces=[piece], has_holes=True), 0))
    take(segment, 1)
    segment.flush()
    segment.abandon()
    assert [one.records for one in recover(tmp_path)] == [ROWS]


def test_a_journal_that_may_not_be_read_is_listed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, _, _ = groups(tmp_path, 1)

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(listing, "is_left", refuse)
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
    segment = opened(tmp_path)
    assert not segment.is_lost
    take(segment, 0)
    segment.close()
    assert len(rows_of(tmp_path)) == ROWS


def test_half_a_segment_of_a_crash_is_swept_up(tmp_path: Path) -> None:
    path, _ = crashed(tmp_path)
    halves = [path.with_name(f"{path.name.removesuffix('.open')}.{kind}") for kind in ("parquet.tmp", "rows")]
    for half in halves:
        half.write_bytes(b"PAR1")
    assert [one.fate for one in recover(tmp_path)] == [Fate.RECOVERED]
    assert not any(half.exists() for half in halves)
    for half in halves:
        half.write_bytes(b"PAR1")
    assert not list(recover(tmp_path))
    assert not any(half.exists() for half in halves)


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
