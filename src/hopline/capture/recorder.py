"""Where the event loop leaves its records: a list that is handed over in batches, and bounded in bytes.

Nothing here encodes, looks into frames or touches a file: the loop must not feel it. Records are numbered as they come;
what finds no room is dropped, and its number with it, and the next record says how many were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from hopline.message import Message

BATCH = 1_000  # records that are handed over at once
BATCH_BYTES = 1 << 24  # or so much
_NEVER = 1 << 62
# What a record takes in memory beside its body: most messages are small, and made of many small objects.
OVERHEAD = 2_048

# event, nanoseconds since 1970, frames behind a socket's identity or a message to encode, peer, receiver, cause,
# seconds that it took, reason, records lost before it. A plain tuple: making it is most of what recording costs.
Record: TypeAlias = tuple[
    str,
    int,
    "Sequence[bytes] | Message",
    "bytes | None",
    "bytes | None",
    "int | None",
    "float | None",
    "str | None",
    int,
]


class Batch(NamedTuple):
    """Records as they are handed over. A number stands for so many that are not there."""

    first_seq: int  # of the first of them, there or not
    records: list[Record | int]
    size: int


class Sink(Protocol):
    """Takes batches, in another thread."""

    done: int  # bytes that it has dealt with, and holds no longer

    def take(self, batch: Batch) -> None:
        """Take a batch, now."""
        ...


class CallLater(Protocol):
    """What is needed of an event loop."""

    def call_soon(self, callback: Callable[[], None]) -> object:
        """Call it in the next turn."""
        ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Call it after so many seconds."""
        ...


class Recorder:
    """Numbers and keeps records until they are handed over. It belongs to one event loop."""

    def __init__(
        self,
        sink: Sink,
        loop: CallLater,
        *,
        capacity: int,
        flush_time: float,
        next_seq: int = 1,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.now = now
        self.next_seq = next_seq
        self.dropped = 0  # since the start
        self._sink = sink
        self._loop = loop
        self._capacity = capacity
        self._flush_time = flush_time
        self._records: list[Record | int] = []
        self._first_seq = next_seq
        self._lost = 0  # since the last record that was kept
        self._taken = sink.done  # bytes that were ever kept
        self._size = 0  # of the records in the list
        self._soon = BATCH_BYTES  # the size at which the loop is asked to hand over in its next turn

    def add(self, record: Record, size: int) -> int:
        """Keep a record if there is room, and give its number."""
        seq = self.next_seq
        self.next_seq = seq + 1
        size += OVERHEAD
        taken = self._taken + size
        if taken - self._sink.done > self._capacity:
            self._lost += 1
            self.dropped += 1
            return seq
        self._taken = taken
        self._size += size
        if self._lost:
            record = (*record[:-1], self._lost)
            self._lost = 0
        records = self._records
        records.append(record)
        count = len(records)
        if count == 1:
            self._loop.call_later(self._flush_time, self.hand_over)
        elif count == BATCH or self._size >= self._soon:
            self._soon = _NEVER
            self._loop.call_soon(self.hand_over)
        return seq

    def reserve(self) -> int:
        """Reserve a number for a record that may follow, and give its place: fill or release it before the loop turns.

        The number is the one before `next_seq`.
        """
        records = self._records
        if not records:
            self._loop.call_later(self._flush_time, self.hand_over)
        if self._lost:
            records.append(self._lost)
            self._lost = 0
        records.append(1)
        self.next_seq += 1
        return len(records) - 1

    def fill(self, place: int, record: Record, size: int) -> None:
        """Put the record where room was reserved."""
        size += OVERHEAD
        taken = self._taken + size
        if taken - self._sink.done <= self._capacity:
            self._taken = taken
            self._size += size
            self._records[place] = record
            return
        self.dropped += 1
        if place == len(self._records) - 1:  # else it stays, as a number without a record
            self._records.pop()
            self._lost += 1
            self._keep_short()

    def release(self, place: int) -> None:
        """Take back what was reserved, and its number too, if nothing was recorded since."""
        if place == len(self._records) - 1:
            self._records.pop()
            self.next_seq -= 1
            self._keep_short()

    def _keep_short(self) -> None:
        """Count together what was lost, so that the list does not grow while there is no room."""
        records = self._records
        if records and isinstance(lost := records[-1], int):
            self._lost += lost
            records.pop()

    def hand_over(self) -> None:
        """Give what there is to the writer."""
        records = self._records
        if records:
            self._sink.take(Batch(self._first_seq, records, self._size))
            self._records = []
            self._first_seq = self.next_seq - self._lost
            self._size = 0
            self._soon = BATCH_BYTES
