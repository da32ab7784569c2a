"""What a crash left of open segments, made into segments."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from hopline.capture.journal import locked
from hopline.capture.naming import DAY, JOURNAL, ROWS, SEGMENT, UNFINISHED, journals_in, read_name
from hopline.capture.remains import remains_of
from hopline.capture.segments import write_segment


class Fate(StrEnum):
    """What became of a journal."""

    RECOVERED = "recovered"  # what was wholly written is a segment now
    EMPTY = "empty"  # there was nothing in it, and it is gone
    SAVED_BEFORE = "saved before"  # its segment was there already, and it is gone
    IN_USE = "in use"  # its node runs
    UNREADABLE = "unreadable"  # it is no journal of ours, and stays as it is


class Recovery(msgspec.Struct, frozen=True):
    """One journal, what could be saved of it, and what could not."""

    journal: Path
    fate: Fate
    segment: Path | None = None
    records: int = 0
    lost_bytes: int = 0  # that were not wholly written


def recover(directory: Path) -> Iterator[Recovery]:
    """Make segments of whatever crashed nodes left open below a directory. Those of nodes that run are left alone."""
    for journal in journals_in(directory):
        with locked(journal) as is_ours:
            yield _recover(journal, directory) if is_ours else Recovery(journal, Fate.IN_USE)
    for kind in (ROWS, f"{SEGMENT}{UNFINISHED}"):
        for left in directory.glob(f"{DAY}*/.*{kind}"):
            journal = left.with_name(f"{left.name.removesuffix(kind)}{JOURNAL}")
            if read_name(journal) is not None and not journal.exists():  # else its node is at work on it
                left.unlink(missing_ok=True)


def _recover(journal: Path, directory: Path) -> Recovery:
    size, name = journal.stat().st_size, read_name(journal)
    remains = None if name is None else remains_of(journal, name.rows(directory))
    if name is None or remains is None:
        return Recovery(journal, Fate.UNREADABLE, lost_bytes=size)
    segment, records = name.segment(directory), remains.records
    if not records:
        fate, saved = Fate.EMPTY, None
    elif segment.exists() and pq.read_metadata(segment).num_rows >= records:
        fate, saved = Fate.SAVED_BEFORE, segment
    else:
        fate, saved = Fate.RECOVERED, segment
        write_segment(segment, remains.tables())
    name.rows(directory).unlink(missing_ok=True)
    journal.unlink()
    return Recovery(journal, fate, saved, records, remains.lost_bytes)
