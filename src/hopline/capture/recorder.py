"""Where the event loop leaves its records: a list that is handed over in batches, and bounded in bytes.

The loop must not feel it: a record is a tuple with the frames that were there anyway. Records are numbered as they
come; what finds no room is dropped, and its number with it, and the next record says how many were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time_ns
from typing import NamedTuple, Protocol, TypeAlias

from hopline.capture.events import Event
from hopline.message import Message

# What a record takes in memory beside its body: most messages are small, and made of many small objects.
OVERHEAD = 2_048
BATCH_BYTES = 512 * OVERHEAD  # what is handed over at once; so little that it is still in the processor's cache

_SENT, _RECEIVED = Event.SENT.value, Event.RECEIVED.value

Content: TypeAlias = "Sequence[bytes] | Message"  # frames, the first of them a socket's identity; or what to encode
# Plain tuples: making them is most of what recording costs. What went over the wire has an event, the time in
# nanoseconds since 1970, frames and a peer; other records also have a receiver, a cause, how many seconds it took, and
# a reason.
WireRecord: TypeAlias = tuple[str, int, Content, "bytes | None"]
FullRecord: TypeAlias = tuple[
    str, int, Content, "bytes | None", "bytes | None", "int | None", "float | None", "str | None"
]
Record: TypeAlias = WireRecord | FullRecord


class Batch(NamedTuple):
    """Records as they are handed over. A number stands for so many that are not there."""

    first_seq: int  # of the first of them, there or not
    records: list[Record | int]
    size: int
    is_plain: bool  # nothing but what went over the wire, and no gaps


class Sink(Protocol):
    """Takes batches."""

    done: int  # bytes that it has dealt with, and holds no longer

    def take(self, batch: Batch) -> None:
        """Take a batch, now."""
        ...


class Recorder:
    """Numbers and keeps records until they are handed over. It belongs to one event loop.

    `soon` is how it asks that loop to call it in its next turn, and not in the middle of this one.
    """

    def __init__(
        self, sink: Sink, soon: Callable[[Callable[[], None]], object], *, capacity: int, next_seq: int = 1
    ) -> None:
        self.dropped = 0  # since the start
        self._sink = sink
        self._call_soon = soon
        self._capacity = capacity
        self._records: list[Record | int] = []
        self._first_seq = next_seq
        self._skipped = 0  # numbers since then that have no place in the list
        self._lost = 0  # since the last record that was kept
        self._handed_over = sink.done  # bytes that were ever
        self._size = 0  # of the records in the list
        self._limit = BATCH_BYTES  # at which the list is handed over
        self._is_asked = False  # to hand over in the loop's next turn
        self._has_room = True
        self._is_plain = True

    @property
    def next_seq(self) -> int:
        """The number of the next record."""
        return self._first_seq + len(self._records) + self._skipped

    # -- the wire ------------------------------------------------------------------------------------------------------

    def sent(self, peer: bytes, frames: Sequence[bytes], message: Message) -> None:
        """Record frames that left for a node, as they left."""
        if not self._has_room and self._is_dropped():
            return
        bodies = message.bodies
        self._size += OVERHEAD + (len(bodies[0]) if len(bodies) == 1 else sum(map(len, bodies)))
        self._records.append((_SENT, time_ns(), frames, peer))
        if self._size >= self._limit:
            self._hand_over_soon()

    def received(self, peer: bytes | None, frames: Sequence[bytes], message: Message) -> None:
        """Record frames that came from a node, as they came."""
        if not self._has_room and self._is_dropped():
            return
        bodies = message.bodies
        self._size += OVERHEAD + (len(bodies[0]) if len(bodies) == 1 else sum(map(len, bodies)))
        self._records.append((_RECEIVED, time_ns(), frames, peer))
        if self._size >= self._limit:
            self._hand_over_soon()

    # -- everything else -----------------------------------------------------------------------------------------------

    def add(
        self,
        event: str,
        content: Content,
        *,
        peer: bytes | None = None,
        receiver: bytes | None = None,
        cause: int | None = None,
        duration: float | None = None,
        reason: str | None = None,
    ) -> int:
        """Keep a record if there is room, and give its number."""
        seq = self.next_seq
        if self._has_room or not self._is_dropped():
            self._size += _size(content)
            self._is_plain = False
            self._records.append((event, time_ns(), content, peer, receiver, cause, duration, reason))
            if self._size >= self._limit:
                self._hand_over_soon()
        return seq

    def reserve(self) -> int:
        """Reserve the next number for a record that may follow, and give its place: fill or release it in this turn."""
        records = self._records
        if self._lost:
            self._put_lost()
        records.append(1)
        return len(records) - 1

    def fill(self, place: int, event: str, time: int, message: Message, cause: int | None) -> None:
        """Put a record where room was reserved."""
        if not self._has_room and not self._finds_room():
            self.dropped += 1
            if place == len(self._records) - 1:  # else it stays, as a number without a record
                self._records.pop()
                self._skipped += 1
                self._lost += 1
                self._take_lost()
            return
        self._size += _size(message)
        self._is_plain = False
        self._records[place] = (event, time, message, None, None, cause, None, None)
        if self._size >= self._limit:
            self._hand_over_soon()

    def release(self, place: int) -> None:
        """Take back what was reserved, and its number too, if nothing was recorded since."""
        if place == len(self._records) - 1:
            self._records.pop()
            self._take_lost()
        else:
            self._is_plain = False

    # -- losing and handing over ---------------------------------------------------------------------------------------

    def _is_dropped(self) -> bool:
        """Drop a record, unless there is room again."""
        if self._finds_room():
            return False
        self.dropped += 1
        self._lost += 1
        self._skipped += 1
        return True

    def _finds_room(self) -> bool:
        self._has_room = self._handed_over + self._size - self._sink.done <= self._capacity
        if self._has_room and self._lost:
            self._put_lost()
        return self._has_room

    def _put_lost(self) -> None:
        """Let a number in the list stand for what was lost."""
        self._records.append(self._lost)
        self._skipped -= 1
        self._lost = 0
        self._is_plain = False

    def _take_lost(self) -> None:
        """Count together what was lost, so that the list does not grow while there is no room."""
        records = self._records
        if not self._has_room and records and isinstance(lost := records[-1], int):
            records.pop()
            self._skipped += 1
            self._lost += lost

    def _hand_over_soon(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._call_soon(self.hand_over)
        self._limit = self._size + BATCH_BYTES
        self._has_room = self._handed_over + self._size - self._sink.done <= self._capacity

    def hand_over(self) -> None:
        """Give what there is to the writer."""
        records, size = self._records, self._size
        self._is_asked = False
        if records:
            batch = Batch(self._first_seq, records, size, self._is_plain)
            self._first_seq = self.next_seq - self._lost
            self._skipped = self._lost
            self._records = []
            self._handed_over += size
            self._size = 0
            self._is_plain = True
            self._limit = BATCH_BYTES
            self._has_room = self._handed_over - self._sink.done <= self._capacity
            self._sink.take(batch)


def _size(content: Content) -> int:
    return OVERHEAD + sum(map(len, content.bodies if isinstance(content, Message) else content))
