"""One wrong bit, anywhere in a journal, costs the batch that it is in, and nothing is deleted that was not read."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from hopline.capture.crash_scan import scan
from hopline.capture.journal import Journal
from hopline.capture.recovery import Fate, recover
from hopline.capture.rows import rows_of as arrow_rows_of
from hopline.capture.rows import with_dropped

from .reading import Row, rows_of
from .test_recovery import NAME, ROWS
from .test_writer_thread import NOON, SOURCE, Record, batch

PLACES = 40  # that are damaged, each time another bit
BATCHES = 10
SCHEMA_NUMBERS = range(0)


def record(seq: int) -> Record:
    return NOON + seq, [b"socket", b"", b"body of %d" % seq, bytes([seq % 251]) * 40, b"meta"]


class Left(NamedTuple):
    """A journal that a crash left, and which bytes of it hold which records."""

    directory: Path
    journal: Path
    messages: list[tuple[range, range]]  # bytes, and the numbers that are lost with them

    def lost_with(self, place: int) -> range:
        """Return the numbers that damage at an offset costs."""
        return next(numbers for within, numbers in self.messages if place in within)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    directory = tmp_path_factory.mktemp("left")
    journal = Journal(directory, NAME, 0)
    messages = [(range(journal.size), SCHEMA_NUMBERS)]
    for number in range(BATCHES):
        numbers = range(1 + number * ROWS, 1 + (number + 1) * ROWS)
        begin = journal.size
        journal.append(arrow_rows_of(batch(numbers.start, *map(record, numbers)), SOURCE))
        messages.append((range(begin, journal.size), numbers))
    journal.close()
    return Left(directory, journal.path, messages)


def known_missing(lost: range) -> int:
    """Return how many records are known to be missing: that there was a last batch is not."""
    return 0 if BATCHES * ROWS in lost else len(lost)


def check(found: list[Row], lost: range) -> None:
    """Check that exactly these numbers are missing and counted, and that all others are as they were."""
    assert [row["seq"] for row in found] == [seq for seq in range(1, 1 + BATCHES * ROWS) if seq not in lost]
    for row in found:
        assert row["frames"] == record(row["seq"])[1][1:]
        assert row["ts"].timestamp() == pytest.approx(NOON + row["seq"])
        assert (row["node"], row["node_uri"], row["event"], row["peer"]) == ("node", SOURCE.node_uri, "sent", "peer")
    dropped = {row["seq"]: row["dropped"] for row in found if row["dropped"]}
    assert dropped == ({lost.stop: len(lost)} if known_missing(lost) else {})


def test_one_wrong_bit_costs_its_batch_and_nothing_that_was_not_read_is_deleted(left: Left, tmp_path: Path) -> None:
    content = left.journal.read_bytes()
    losses = 0
    for number, place in enumerate(range(0, len(content), len(content) // PLACES)):
        directory = tmp_path / str(number)
        shutil.copytree(left.directory, directory)
        damaged = bytearray(content)
        damaged[place] ^= 1 << number % 8
        copy = directory / left.journal.relative_to(left.directory)
        copy.write_bytes(damaged)
        lost = left.lost_with(place)
        (found,) = recover(directory)
        assert (found.fate, found.missing) == (Fate.RECOVERED, known_missing(lost)), place
        assert found.records == BATCHES * ROWS - len(lost)
        check(rows_of(directory), lost)
        losses += bool(lost)
        assert found.damaged == (copy.with_name(f"{copy.name}.damaged"),)
        assert found.damaged[0].read_bytes() == damaged
        assert len(list(copy.parent.iterdir())) == 2
        assert list(recover(directory)) == []  # and it stays as it is
        shutil.rmtree(directory)
    assert losses >= PLACES // 2


def test_wherever_the_wrong_bit_is_everything_else_is_read(left: Left) -> None:
    content = left.journal.read_bytes()
    for place in range(0, len(content), 11):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        scanned = scan(pa.py_buffer(damaged), 1)
        lost = left.lost_with(place)
        seqs = [seq for rows in scanned.batches for seq in rows["seq"].to_pylist()]
        assert seqs == [seq for seq in range(1, 1 + BATCHES * ROWS) if seq not in lost], place
        assert (scanned.records, scanned.missing) == (len(seqs), known_missing(lost))
        damaged_message = next(within for within, _ in left.messages if place in within)
        assert scanned.unread_bytes == len(damaged_message), place


def test_nothing_is_deleted_of_a_journal_that_nothing_can_be_read_of(left: Left, tmp_path: Path) -> None:
    directory = tmp_path / "captures"
    shutil.copytree(left.directory, directory)
    journal = directory / left.journal.relative_to(left.directory)
    before = bytes(byte ^ 1 for byte in journal.read_bytes())
    journal.write_bytes(before)
    (found,) = recover(directory)
    assert found.fate is Fate.UNREADABLE
    assert found.unread_bytes == len(before)
    assert journal.read_bytes() == before


def test_missing_records_are_counted_by_the_next_one(left: Left, tmp_path: Path) -> None:
    directory = tmp_path / "captures"
    shutil.copytree(left.directory, directory)
    journal = directory / left.journal.relative_to(left.directory)
    content = bytearray(journal.read_bytes())
    lost: list[int] = []
    for number in (1, 4, 5, 9):
        within, numbers = left.messages[number]
        content[within.start + 10] ^= 1
        lost += numbers
    journal.write_bytes(content)
    (found,) = recover(directory)
    assert found.missing == len(lost)
    seqs = [0, *(row["seq"] for row in rows_of(directory))]
    dropped = [row["dropped"] for row in rows_of(directory)]
    assert dropped == [after - before - 1 for before, after in pairwise(seqs)]
    assert sum(dropped) == len(lost)


def test_what_the_node_dropped_is_not_taken_for_missing(tmp_path: Path) -> None:
    journal = Journal(tmp_path, NAME, 0)
    ends = [journal.size]
    for first in (1, 11, 21):  # two of each ten numbers are there
        rows = arrow_rows_of(batch(first, record(first), record(first + 1)), SOURCE)
        journal.append(with_dropped(rows, journal.last_seq))
        ends.append(journal.size)
    journal.close()
    content = bytearray(journal.path.read_bytes())
    content[ends[2] - 1] ^= 1
    journal.path.write_bytes(content)
    (found,) = recover(tmp_path)
    assert [(row["seq"], row["dropped"]) for row in rows_of(tmp_path)] == [(1, 0), (2, 0), (21, 18), (22, 0)]
    assert found.missing == 10  # at most: what the node dropped before the damaged batch is not known any more
