"""One wrong bit, anywhere in an open segment, costs the group or block that it is in, and nothing is deleted."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from hopline.capture.blocks import Block, stretches_in
from hopline.capture.journal import mapped
from hopline.capture.open_segment import OpenSegment
from hopline.capture.recovery import Fate, recover
from hopline.capture.remains import remains_of
from hopline.capture.room import Room

from .reading import Row, rows_of
from .test_recovery import MUCH, NAME, ROWS
from .test_writer import NOON, OPENING, Record, batch

PLACES = 40  # of each file that are damaged, each time another bit
BATCHES = 10


def record(seq: int) -> Record:
    return NOON + seq, [b"socket", b"", b"body of %d" % seq, bytes([seq % 251]) * 40, b"meta"]


class Left(NamedTuple):
    """An open segment that a crash left, and which numbers the bytes of its files hold that are nowhere else."""

    directory: Path
    journal: Path
    rows: Path
    numbers: dict[Path, list[tuple[range, range]]]  # bytes, and the numbers that are lost with them


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """Leave four groups of rows, the second of which is in the journal as well, and two blocks that are in no group."""
    directory = tmp_path_factory.mktemp("left")
    segment = OpenSegment(directory, NAME, OPENING, MUCH, Room(20_000))
    only_in_group: list[tuple[range, range]] = []
    begin = 4
    for number, is_grouped, is_flushed in [
        (0, False, False),
        (1, True, False),
        (2, False, True),  # to the journal
        (3, True, False),
        (4, True, True),
        (5, False, False),
        (6, False, False),
        (7, True, False),  # never flushed
    ]:
        first = 1 + number * ROWS
        segment.take(batch(first, *map(record, range(first, first + ROWS))), 0)
        if is_flushed and not is_grouped:
            segment.save()
        if is_grouped:
            in_journal = {seq for block in segment._waiting[: segment._journaled] for seq in _numbers(block)}
            waiting = [seq for block in segment._waiting for seq in _numbers(block) if seq not in in_journal]
            segment._write_group()
            assert segment._rows is not None
            only_in_group.append((range(begin, segment._rows.end), range(waiting[0], waiting[-1] + 1)))
            begin = segment._rows.end
    for number in (8, 9):
        first = 1 + number * ROWS
        segment.take(batch(first, *map(record, range(first, first + ROWS))), 0)
        segment.save()
    segment.abandon()
    journal, rows = NAME.journal(directory), NAME.rows(directory)
    only_in_journal = [
        (range(one.begin, one.end), range(one.content.head.first_seq, one.content.last_seq + 1))
        for one in stretches_in(mapped(journal))
        if isinstance(one.content, Block) and not one.content.is_mark and one.content.head.first_seq > 8 * ROWS
    ]
    assert (len(only_in_group), len(only_in_journal)) == (4, 2)
    return Left(directory, journal, rows, {rows: only_in_group, journal: only_in_journal})


def _numbers(block: Block) -> range:
    return range(block.head.first_seq, block.last_seq + 1)


def known_missing(lost: range) -> int:
    """Count what is missing: how many the last block had is not to be known."""
    return 0 if BATCHES * ROWS in lost else len(lost)


def check(found: list[Row], lost: range) -> None:
    """Check that exactly these numbers are missing, that what is missing is counted, and that the rest is as it was."""
    assert [row["seq"] for row in found] == [seq for seq in range(1, 1 + BATCHES * ROWS) if seq not in lost]
    for row in found:
        assert row["frames"] == record(row["seq"])[1][1:]
        assert row["ts"].timestamp() == pytest.approx(NOON + row["seq"])
        assert (row["node"], row["node_uri"], row["event"], row["peer"]) == ("node", OPENING.node_uri, "sent", "peer")
    if 1 in lost:
        assert found[0]["dropped"] == len(lost)


@pytest.mark.parametrize("kind", ["rows", "journal"])
def test_one_wrong_bit_costs_what_it_is_in_and_nothing_that_was_not_read_is_deleted(
    kind: str, left: Left, tmp_path: Path
) -> None:
    path: Path = getattr(left, kind)
    content = path.read_bytes()
    places = range(0, len(content), len(content) // PLACES)
    losses = 0
    for number, place in enumerate(places):
        directory = tmp_path / str(number)
        shutil.copytree(left.directory, directory)
        damaged = bytearray(content)
        damaged[place] ^= 1 << number % 8
        copy = directory / path.relative_to(left.directory)
        copy.write_bytes(damaged)
        (found,) = recover(directory)
        lost = next((numbers for within, numbers in left.numbers[path] if place in within), range(0))
        assert (found.fate, found.missing) == (Fate.RECOVERED, known_missing(lost)), place
        assert found.records == BATCHES * ROWS - len(lost)
        check(rows_of(directory), lost)
        losses += bool(lost)
        if kind == "rows" and place < 4:  # which a segment begins with, and which was written anew
            assert found.damaged == ()
        else:
            assert found.damaged == (copy.with_name(f"{copy.name}.damaged"),)
            assert found.damaged[0].read_bytes() == damaged
            assert found.unread_bytes > 0
        assert len(list(copy.parent.iterdir())) == 1 + len(found.damaged)
        assert list(recover(directory)) == []  # and it stays as it is
        shutil.rmtree(directory)
    assert losses >= 3


@pytest.mark.parametrize("kind", ["rows", "journal"])
def test_wherever_the_wrong_bit_is_everything_else_is_read(kind: str, left: Left, tmp_path: Path) -> None:
    path: Path = getattr(left, kind)
    copies = {one: tmp_path / one.name for one in (left.rows, left.journal)}
    for one, copy in copies.items():
        shutil.copyfile(one, copy)
    content = path.read_bytes()
    for number, place in enumerate(range(0, len(content), 61)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << number % 8
        copies[path].write_bytes(damaged)
        remains = remains_of(copies[left.journal], copies[left.rows], 1)
        lost = next((numbers for within, numbers in left.numbers[path] if place in within), range(0))
        seqs = [seq for piece in remains.pieces for seq in range(piece.first_seq, piece.last_seq + 1)]
        assert seqs == [seq for seq in range(1, 1 + BATCHES * ROWS) if seq not in lost], place
        assert (remains.records, remains.missing) == (len(seqs), known_missing(lost))
        assert remains.is_damaged is not (kind == "rows" and place < 4)


def test_nothing_is_deleted_of_a_segment_that_nothing_can_be_read_of(left: Left, tmp_path: Path) -> None:
    directory = tmp_path / "captures"
    shutil.copytree(left.directory, directory)
    files = [directory / path.relative_to(left.directory) for path in (left.journal, left.rows)]
    for path in files:
        path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
    before = [path.read_bytes() for path in files]
    (found,) = recover(directory)
    assert found.fate is Fate.UNREADABLE
    assert found.unread_bytes == sum(map(len, before)) - 4
    assert [path.read_bytes() for path in files] == before


def test_a_hole_between_records_is_counted_by_the_next_one(left: Left, tmp_path: Path) -> None:
    directory = tmp_path / "captures"
    shutil.copytree(left.directory, directory)
    rows = directory / left.rows.relative_to(left.directory)
    content = bytearray(rows.read_bytes())
    lost = []
    for within, numbers in left.numbers[left.rows][::2]:
        content[within.start + 10] ^= 1
        lost += list(numbers)
    rows.write_bytes(content)
    (found,) = recover(directory)
    assert found.missing == len(lost)
    seqs = [0, *(row["seq"] for row in rows_of(directory))]
    dropped = [row["dropped"] for row in rows_of(directory)]
    assert dropped == [after - before - 1 for before, after in pairwise(seqs)]
    assert sum(dropped) == len(lost)
