"""Read a journal of which any part may be damaged or missing.

Theory of operation
-------------------
A crash may cut a journal off anywhere, a power failure may leave zeros at its end, and a disk may flip bits. The scan
walks over the messages (`journal.py` describes their format) and decides for each stretch of bytes:

* *Intact message*: header and body match their checksums. Its rows are read as they were written.
* *Damaged body*: the header is intact, so the end of the message is known. The message counts as unread.
* *Damaged header*, or bytes that are no message: everything up to the next intact header counts as unread.

A message is read as it was written or not at all, and each is independent of all others, so damage costs the batch that
it is in, and nothing else. The damaged schema at the beginning costs nothing, because it is known.

What was lost follows from the numbers of the records: before each batch, every number that is missing and that the node
itself has not counted as dropped. The name of the segment has the number of its first record, so this holds for the
first batch too. Only the records of batches at the very end are not known to have existed.

Closing a segment takes the same way: there is one reader of journals, and it runs all the time. The checksums of the
bodies are left out then, because the same process has just written them, and they take a tenth of the writer's time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec
import pyarrow as pa

from hopline.capture.journal import MAGIC, OPENING, header_at, message_before_seal
from hopline.capture.records import CAPTURE_SCHEMA
from hopline.capture.rows import first_seq, last_seq, missing_before, with_dropped

_SEAL = re.compile(re.escape(MAGIC))
_SCHEMA = "schema"


class Stretch(NamedTuple):
    """A message of a journal, or bytes that cannot be read."""

    begin: int
    end: int
    message: pa.ipc.Message | None

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.begin


class CrashScan(msgspec.Struct, frozen=True):
    """What can be read of a journal, and how much cannot."""

    batches: list[pa.RecordBatch]  # in the order of their numbers, as written
    first_seq: int  # of the segment, whether that record can be read or not
    missing: int  # records that were written and cannot be read
    unread_bytes: int
    is_journal: bool  # at least one message, or the beginning of the first one, is there

    @property
    def records(self) -> int:
        """The number of records that can be read."""
        return sum(batch.num_rows for batch in self.batches)

    @property
    def is_damaged(self) -> bool:
        """Whether there was something that cannot be read."""
        return self.missing > 0 or self.unread_bytes > 0

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the records; the first one after missing records counts these in `dropped`."""
        previous_seq = self.first_seq - 1
        for batch in self.batches:
            yield with_dropped(batch, previous_seq)
            previous_seq = last_seq(batch)


def scan(journal: pa.Buffer, segment_seq: int, *, checks_bodies: bool = True) -> CrashScan:
    """Read all that can be read of a journal.

    Args:
        journal: The content of the file.
        segment_seq: The number of the segment's first record, from its name.
        checks_bodies: Compare the bodies of messages with their checksums, and not only the headers.
    """
    batches: list[pa.RecordBatch] = []
    unread_bytes = 0
    is_journal = _is_cut_in_opening(journal)
    if not is_journal:
        for stretch in stretches_in(journal, checks_bodies=checks_bodies):
            if stretch.message is None:
                unread_bytes += stretch.size
                continue
            is_journal = True
            if stretch.message.type != _SCHEMA:
                batches.append(pa.ipc.read_record_batch(stretch.message, CAPTURE_SCHEMA))
    batches.sort(key=first_seq)
    missing = 0
    previous_seq = segment_seq - 1
    for batch in batches:
        missing += missing_before(batch, previous_seq)
        previous_seq = last_seq(batch)
    return CrashScan(batches, segment_seq, missing, unread_bytes, is_journal)


def stretches_in(journal: pa.Buffer, *, checks_bodies: bool = True) -> Iterator[Stretch]:
    """Yield all that is in a journal: its messages, and between them what cannot be read."""
    begin = 0
    while begin < journal.size:
        header = header_at(journal, begin)
        if header is None:
            end = _next_message(journal, begin + 1)
            yield Stretch(begin, end, None)
        else:
            end = min(header.end, journal.size)
            is_intact = end == header.end
            if is_intact and checks_bodies:
                is_intact = crc32(journal[header.body_begin : end]) == header.body_checksum
            message = pa.ipc.read_message(journal[begin:end]) if is_intact else None
            yield Stretch(begin, end, message)
        begin = end


def _next_message(journal: pa.Buffer, begin: int) -> int:
    """Return where the next message with an intact header begins; the end of the journal if there is none."""
    for seal in _SEAL.finditer(journal, begin):
        message_begin = message_before_seal(journal, seal.start())
        if message_begin < begin:
            continue
        header = header_at(journal, message_begin)
        if header is not None:
            return message_begin
    return int(journal.size)


def _is_cut_in_opening(journal: pa.Buffer) -> bool:
    """Return whether a journal was cut off within its first message, so that it never had a record."""
    if journal.size >= len(OPENING):
        return False
    content = journal.to_pybytes()
    return OPENING.startswith(content)
