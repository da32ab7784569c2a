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

from hopline.capture.journal import convert
from hopline.capture.naming import DAY, SEGMENT, UNFINISHED, journals_in, read_name
from hopline.capture.records import SCHEMA

_HEADER = SCHEMA.serialize().to_pybytes()


class Fate(StrEnum):
    """What became of a journal."""

    RECOVERED = "recovered"  # its whole batches are a segment now
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
    lost_bytes: int = 0  # of a batch that was not wholly written


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
    size, name = journal.stat().st_size, read_name(journal)
    has_begun = not _HEADER.startswith(journal.read_bytes()) if size <= len(_HEADER) else True
    records, whole = _whole(journal) if has_begun else (0, size)
    if name is None or (has_begun and not whole):
        return Recovery(journal, Fate.UNREADABLE, lost_bytes=size)
    segment = name.segment(directory)
    if not records:
        fate, saved = Fate.EMPTY, None
    elif segment.exists() and pq.read_metadata(segment).num_rows >= records:
        fate, saved = Fate.SAVED_BEFORE, segment
    else:
        fate, saved = Fate.RECOVERED, convert(journal, directory, limit=whole)
    journal.unlink()
    return Recovery(journal, fate, saved, records, size - whole)


def _whole(journal: Path) -> tuple[int, int]:
    """Count the records of the batches that are whole, and the bytes up to there; no bytes if it is no journal."""
    records = whole = 0
    with pa.memory_map(str(journal)) as file:
        try:
            with pa.ipc.open_stream(file) as reader:
                whole = file.tell() if reader.schema.equals(SCHEMA) else 0
                for batch in reader if whole else ():
                    batch.validate(full=True)
                    records += batch.num_rows
                    whole = file.tell()
        except (OSError, pa.ArrowException):  # where the crash cut it off
            pass
    return records, whole
