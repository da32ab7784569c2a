"""What a crash left of open segments, made into segments. Nothing is deleted that was not read."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import count
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.journal import locked
from hopline.capture.naming import (
    DAMAGED,
    DAY,
    JOURNAL,
    ROWS,
    SEGMENT,
    UNFINISHED,
    SegmentName,
    journals_in,
    read_name,
)
from hopline.capture.remains import Remains, remains_of
from hopline.capture.segments import sync_folder, write_segment


class Fate(StrEnum):
    """What became of an open segment."""

    RECOVERED = "recovered"  # what could be read is a segment now
    EMPTY = "empty"  # there was nothing in it, and it is gone
    SAVED_BEFORE = "saved before"  # its segment was there already, and it is gone
    DAMAGED = "damaged"  # no record of it could be read
    IN_USE = "in use"  # its node runs
    UNREADABLE = "unreadable"  # it is no journal of ours, and stays as it is


class Recovery(msgspec.Struct, frozen=True):
    """One open segment, what could be read of it, and what could not."""

    journal: Path
    fate: Fate
    segment: Path | None = None
    records: int = 0
    missing: int = 0  # records that could not be read, as far as the numbers of the others tell
    unread_bytes: int = 0
    damaged: tuple[Path, ...] = ()  # where the files are now that have these bytes


def recover(directory: Path) -> Iterator[Recovery]:
    """Make segments of whatever crashed nodes left open below a directory. Those of nodes that run are left alone.

    A file that could not be read to its last byte is kept, with `.damaged` behind its name.
    """
    for journal in journals_in(directory):
        with locked(journal) as is_ours:
            yield _recover(journal, directory) if is_ours else Recovery(journal, Fate.IN_USE)
    for rows in sorted(directory.glob(f"{DAY}*/.*{ROWS}")):
        journal = rows.with_name(f"{rows.name.removesuffix(ROWS)}{JOURNAL}")
        if read_name(journal) is not None and not journal.exists():  # else its node is at work on it
            recovery = _recover(journal, directory)
            if recovery.fate is not Fate.EMPTY:
                yield recovery
    for unfinished in directory.glob(f"{DAY}*/.*{SEGMENT}{UNFINISHED}"):  # by a recovery that was interrupted
        journal = unfinished.with_name(f"{unfinished.name.removesuffix(f'{SEGMENT}{UNFINISHED}')}{JOURNAL}")
        if read_name(journal) is not None and not journal.exists():
            unfinished.unlink(missing_ok=True)


def _recover(journal: Path, directory: Path) -> Recovery:
    name = read_name(journal)
    if name is None:
        return Recovery(journal, Fate.UNREADABLE, unread_bytes=journal.stat().st_size)
    rows = name.rows(directory)
    remains = remains_of(journal, rows, name.seq)
    unread = remains.unread_journal + remains.unread_rows
    if not remains.is_segment and journal.exists():
        return Recovery(journal, Fate.UNREADABLE, unread_bytes=unread)
    fate, damaged = _save(name, remains, directory)
    for path, unread_of_it in ((rows, remains.unread_rows), (journal, remains.unread_journal)):
        if unread_of_it:
            damaged.append(_set_aside(path))
        else:
            path.unlink(missing_ok=True)
    segment = name.segment(directory) if remains.records else None
    return Recovery(journal, fate, segment, remains.records, remains.missing, unread, tuple(damaged))


def _save(name: SegmentName, remains: Remains, directory: Path) -> tuple[Fate, list[Path]]:
    """Write the segment, unless it is there, and return what was done and the damaged segment in its place, if any."""
    if not remains.records:
        return Fate.DAMAGED if remains.is_damaged else Fate.EMPTY, []
    segment = name.segment(directory)
    damaged: list[Path] = []
    if segment.exists():
        records = _records_in(segment)
        if records is None:
            damaged.append(_set_aside(segment))
        elif records >= remains.records:
            return Fate.SAVED_BEFORE, []
    write_segment(segment, remains.tables())
    return Fate.RECOVERED, damaged


def _records_in(segment: Path) -> int | None:
    """Count the records of a segment, after reading all of it; None if it cannot be read."""
    try:
        with pq.ParquetFile(segment, page_checksum_verification=True) as file:
            return sum(len(file.read_row_group(group)) for group in range(file.num_row_groups))
    except (OSError, pa.ArrowException):
        return None


def _set_aside(path: Path) -> Path:
    """Rename a file so that no reader takes it for a segment, and return its new path."""
    hidden = path.with_name(f".{path.name.removeprefix('.')}{DAMAGED}")
    aside = next(
        one
        for number in count(1)
        if not (one := hidden if number == 1 else hidden.with_name(f"{hidden.name}.{number}")).exists()
    )
    path.rename(aside)
    sync_folder(aside.parent)
    return aside
