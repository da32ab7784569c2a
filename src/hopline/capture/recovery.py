"""Make segments of journals: of those that a crash left behind, and of each one that its node closes.

There is no second way to close a segment, so that what must work after a crash is what works every minute. Nothing is
deleted before it was read and its rows are in a segment on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import count
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.crash_scan import CrashScan, scan
from hopline.capture.journal import content_of, locked
from hopline.capture.naming import DAMAGED, DAY, JOURNAL, SEGMENT, UNFINISHED, read_name
from hopline.capture.segment_file import sync_folder, write_segment
from hopline.capture.segment_files import journals_in


class Fate(StrEnum):
    """What became of a journal."""

    RECOVERED = "recovered"  # what could be read is a segment now
    EMPTY = "empty"  # it had no records, and is deleted
    SAVED_BEFORE = "saved before"  # its segment existed already, and it is deleted
    DAMAGED = "damaged"  # no record could be read
    IN_USE = "in use"  # its node is running
    UNREADABLE = "unreadable"  # it is no journal of Hopline's, and was not touched


class Recovery(msgspec.Struct, frozen=True):
    """What became of one journal: what could be read of it, and what could not."""

    journal: Path
    fate: Fate
    segment: Path | None = None
    records: int = 0
    missing: int = 0  # records that could not be read, as far as the numbers of the others tell
    unread_bytes: int = 0
    damaged: tuple[Path, ...] = ()  # the files that were renamed because of unread bytes


def recover(directory: Path) -> Iterator[Recovery]:
    """Make segments of all journals below a directory that crashed nodes left behind.

    Journals of running nodes are left alone. A file that could not be read to its last byte is kept, renamed to end in
    `.damaged`.

    Raises:
        OSError: A file cannot be read or written. What was recovered before stays recovered, and nothing is lost.
    """
    for journal in journals_in(directory):
        with locked(journal) as is_locked:
            yield make_segment(journal, directory) if is_locked else Recovery(journal, Fate.IN_USE)
    _delete_unfinished(directory)


def make_segment(journal: Path, directory: Path, *, checks_bodies: bool = True) -> Recovery:
    """Make the segment of a journal that the caller has locked, and delete the journal once it is not needed any more.

    Args:
        journal: The file.
        directory: The capture directory.
        checks_bodies: See `crash_scan.scan`; not needed by the process that has written the journal.

    Raises:
        FileNotFoundError: The journal does not exist any more.
        OSError: The disk refused. The journal is as it was.
    """
    name = read_name(journal)
    content = content_of(journal)
    if name is None:
        return Recovery(journal, Fate.UNREADABLE, unread_bytes=content.size)
    scanned = scan(content, name.seq, checks_bodies=checks_bodies)
    if not scanned.is_journal:
        return Recovery(journal, Fate.UNREADABLE, unread_bytes=scanned.unread_bytes)
    segment = name.segment(directory)
    fate, damaged = _save(segment, scanned)
    if scanned.unread_bytes:
        damaged.append(_set_aside(journal))
    else:
        journal.unlink(missing_ok=True)
    return Recovery(
        journal,
        fate,
        segment if scanned.records else None,
        scanned.records,
        scanned.missing,
        scanned.unread_bytes,
        tuple(damaged),
    )


def _save(segment: Path, scanned: CrashScan) -> tuple[Fate, list[Path]]:
    """Write the segment unless it exists; return what was done, and the damaged segment that was in its place."""
    if not scanned.records:
        fate = Fate.DAMAGED if scanned.is_damaged else Fate.EMPTY
        return fate, []
    damaged: list[Path] = []
    if segment.exists():
        records = _intact_records(segment)
        if records is None:
            damaged.append(_set_aside(segment))
        elif records >= scanned.records:
            sync_folder(segment.parent)  # the crash may have come before this
            return Fate.SAVED_BEFORE, []
    write_segment(segment, scanned.rows())
    return Fate.RECOVERED, damaged


def _intact_records(segment: Path) -> int | None:
    """Return the number of records of a segment after reading all of it, or None if it is damaged."""
    records = 0
    try:
        with pq.ParquetFile(segment, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                records += len(file.read_row_group(group))
    except (OSError, pa.ArrowException):
        return None
    return records


def _set_aside(path: Path) -> Path:
    """Rename a file so that no reader takes it for a segment, and return its new path."""
    hidden = f".{path.name.removeprefix('.')}{DAMAGED}"
    names = (hidden if number == 1 else f"{hidden}.{number}" for number in count(1))
    aside = next(candidate for name in names if not (candidate := path.with_name(name)).exists())
    path.rename(aside)
    sync_folder(aside.parent)
    return aside


def _delete_unfinished(directory: Path) -> None:
    """Delete what interrupted recoveries left, unless the journal is still there: then one may be running."""
    ending = f"{SEGMENT}{UNFINISHED}"
    for unfinished in directory.glob(f"{DAY}*/.*{ending}"):
        stem = unfinished.name.removesuffix(ending)
        journal = unfinished.with_name(f"{stem}{JOURNAL}")
        if read_name(journal) is not None and not journal.exists():
            unfinished.unlink(missing_ok=True)
