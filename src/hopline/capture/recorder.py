"""Where the event loop leaves its records: columns that are handed over in batches, and bounded in bytes.

The loop must not feel it: of a record it keeps the frames that were there anyway. Records are numbered as they come;
what finds no room is dropped, and its number with it, and the next record says how many were.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from time import time_ns
from typing import NamedTuple, Protocol, TypeAlias

from hopline.capture.events import Event
from hopline.message import Message

# What a record takes in memory beside its body: most messages are small, and made of many small objects.
OVERHEAD = 2_048
BATCH_BYTES = 512 * OVERHEAD  # handed over at once: still in the processor's cache, and too few to wake the collector

_SENT, _RECEIVED = Event.SENT.value, Event.RECEIVED.value

Content: TypeAlias = "Sequence[bytes] | Message"  # frames, the first of them a socket's identity; or what to encode
# What only records of the inside have: a receiver, a cause, how many seconds it took, and a reason.
Extra: TypeAlias = tuple["bytes | None", "int | None", "float | None", "str | None"]
HOLE = ""  # instead of an event: a number without a record


class Batch(NamedTuple):
    """Records as they are handed over, column by column, each with its place in all of them.

    One list of all frames, and no list or tuple for each record: a thousand more small objects that are kept wake the
    garbage collector, which then looks at everything else too. Numbers are kept as Arrow wants them.
    """

    first_seq: int  # of the first record, or of what was lost before it
    events: list[str]
    times: array[int]  # nanoseconds since 1970
    peers: list[bytes | None]
    frames: list[bytes]  # of all records, without the sockets' identities
    ends: array[int]  # 0, and then for every record how many frames there are up to its end
    messages: dict[int, Message]  # to be encoded, by the place of the record, which has no frames
    extras: dict[int, Extra]  # by the place of the record
    gaps: dict[int, int]  # how many numbers were lost before the record at a place
    has_holes: bool  # or may have
    size: int


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
        self._first_seq = next_seq
        self._skipped = 0  # numbers since then that have no place in the lists
        self._lost = 0  # since the last record that was kept
        self._handed_over = sink.done  # bytes that were ever
        self._has_room = True
        self._is_asked = False  # to hand over in the loop's next turn
        self._begin()

    def _begin(self) -> None:
        self._events: list[str] = []
        self._times = array("q")
        self._peers: list[bytes | None] = []
        self._frames: list[bytes] = []
        self._ends = array("i", (0,))
        self._messages: dict[int, Message] = {}
        self._extras: dict[int, Extra] = {}
        self._gaps: dict[int, int] = {}
        self._has_holes = False
        self._size = 0
        self._limit = BATCH_BYTES  # at which the records are handed over

    @property
    def next_seq(self) -> int:
        """The number of the next record."""
        return self._first_seq + len(self._events) + self._skipped

    # -- the wire ------------------------------------------------------------------------------------------------------

    def sent(self, peer: bytes, frames: Sequence[bytes], message: Message) -> None:
        """Record frames that left for a node, as they left."""
        if not self._has_room and self._is_dropped():
            return
        bodies = message.bodies
        self._size += OVERHEAD + (len(bodies[0]) if len(bodies) == 1 else sum(map(len, bodies)))
        self._events.append(_SENT)
        self._times.append(time_ns())
        self._peers.append(peer)
        kept = self._frames
        kept += frames[1:]
        self._ends.append(len(kept))
        if self._size >= self._limit:
            self._hand_over_soon()

    def received(self, peer: bytes | None, frames: Sequence[bytes], message: Message) -> None:
        """Record frames that came from a node, as they came."""
        if not self._has_room and self._is_dropped():
            return
        bodies = message.bodies
        self._size += OVERHEAD + (len(bodies[0]) if len(bodies) == 1 else sum(map(len, bodies)))
        self._events.append(_RECEIVED)
        self._times.append(time_ns())
        self._peers.append(peer)
        kept = self._frames
        kept += frames[1:]
        self._ends.append(len(kept))
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
            place = len(self._events)
            self._extras[place] = receiver, cause, duration, reason
            if isinstance(content, Message):
                self._messages[place] = content
            else:
                self._frames += content[1:]
            self._append(event, time_ns(), peer)
            if self._size >= self._limit:
                self._hand_over_soon()
        return seq

    def reserve(self) -> int:
        """Reserve the next number for a record that may follow, and give its place: fill or release it in this turn."""
        place = len(self._events)
        if self._lost:
            self._note_lost()
        self._append(HOLE, 0, None)
        self._has_holes = True
        return place

    def fill(self, place: int, event: str, time: int, message: Message, cause: int | None) -> None:
        """Put a record where room was reserved."""
        if not self._has_room and not self._finds_room():
            self.dropped += 1
            if place == len(self._events) - 1:  # else the hole stays
                self._remove_last()
                self._lost += 1
                self._skipped += 1
            return
        self._size += _size(message)
        self._events[place] = event
        self._times[place] = time
        self._messages[place] = message
        self._extras[place] = None, cause, None, None
        if self._size >= self._limit:
            self._hand_over_soon()

    def release(self, place: int) -> None:
        """Take back what was reserved, and its number too, if nothing was recorded since."""
        if place == len(self._events) - 1:
            self._remove_last()

    def _append(self, event: str, time: int, peer: bytes | None) -> None:
        self._events.append(event)
        self._times.append(time)
        self._peers.append(peer)
        self._ends.append(len(self._frames))

    def _remove_last(self) -> None:
        """Remove a hole."""
        for column in (self._events, self._times, self._peers, self._ends):
            column.pop()
        self._lost += self._gaps.pop(len(self._events), 0)

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
            self._note_lost()
        return self._has_room

    def _note_lost(self) -> None:
        """Let the next record say what was lost before it."""
        place = len(self._events)
        self._gaps[place] = self._gaps.get(place, 0) + self._lost
        self._lost = 0

    def _hand_over_soon(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._call_soon(self.hand_over)
        self._limit = self._size + BATCH_BYTES
        self._has_room = self._handed_over + self._size - self._sink.done <= self._capacity

    def hand_over(self) -> None:
        """Give what there is to the writer."""
        self._is_asked = False
        if not self._events:
            return
        size, next_seq = self._size, self.next_seq
        columns = self._events, self._times, self._peers, self._frames, self._ends, self._messages
        batch = Batch(self._first_seq, *columns, self._extras, self._gaps, self._has_holes, size)
        self._begin()
        self._first_seq = next_seq - self._lost
        self._skipped = self._lost
        self._handed_over += size
        self._has_room = self._handed_over - self._sink.done <= self._capacity
        self._sink.take(batch)


def _size(content: Content) -> int:
    return OVERHEAD + sum(map(len, content.bodies if isinstance(content, Message) else content))
