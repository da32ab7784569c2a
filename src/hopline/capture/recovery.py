"""What a crash left of open segments, made into segments."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hopline.capture.blocks import blocks_in, read_opening, was_begun
from hopline.capture.columns import rows_of
from hopline.capture.journal import convert, mapped
from hopline.capture.naming import DAY, SEGMENT, UNFINISHED, journals_in, read_name


class Fate(StrEnum):
    """What became of a journal."""

    RECOVERED = "recovered"  # its whole blocks are a segment now
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
    lost_bytes: int = 0  # of a block that was not wholly written


def recover(directory: Path) -> Iterator[Recovery]:
    """Make segments of whatever crashed nodes left open below a directory. Those of nodes that run are left alone."""
    for journal in journals_in(directory):
        with _locked(journal) as is_ours:
            yield _recover(journal, directory) if is_ours else Recovery(journal, Fate.IN_USE)
    for unfinished in directory.glob(f"{DAY}*/.*{SEGMENT}{UNFINISHED}"):
        stem = unfinished.name.removeprefix(".").removesuffix(f"{SEGMENT}{UNFINISHED}")
        name = read_name(unfinished.with_name(f"{stem}{SEGMENT}"))
        if name is not None and not name.journal(directory).exists():  # else its node is at work on it
            unfinished.unlink(missing_ok=True)


@contextmanager
def _locked(journal: Path) -> Iterator[bool]:
    file = os.open(journal, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(file)


def _recover(journal: Path, directory: Path) -> Recovery:
    size, name, sound = journal.stat().st_size, read_name(journal), _sound(journal)
    if name is None or sound is None:
        return Recovery(journal, Fate.UNREADABLE, lost_bytes=size)
    records, whole = sound
    segment = name.segment(directory)
    if not records:
        fate, saved = Fate.EMPTY, None
    elif segment.exists() and pq.read_metadata(segment).num_rows >= records:
        fate, saved = Fate.SAVED_BEFORE, segment
    else:
        fate, saved = Fate.RECOVERED, convert(journal, directory, limit=whole)
    journal.unlink()
    return Recovery(journal, fate, saved, records, size - whole)


def _sound(journal: Path) -> tuple[int, int] | None:
    """Count the records of the blocks that are whole, and the bytes up to there; None if it is no journal."""
    content = mapped(journal)
    opened = read_opening(content)
    if opened is None:
        return (0, 0) if was_begun(content) else None
    opening, whole = opened
    records = 0
    for block, end in blocks_in(content, whole):
        try:
            rows = rows_of(opening, [block])
            rows.validate(full=True)
        except (ValueError, pa.ArrowException):
            break
        records += rows.num_rows
        whole = end
    return records, whole
