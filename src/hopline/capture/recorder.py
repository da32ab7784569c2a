"""Where the event loop leaves its records: columns that are handed over in batches, and bounded in bytes.

The loop must not feel it: of a record it keeps the frames that were there anyway. Records are numbered as they come;
what finds no room is dropped, and its number with it, and the next record says how many were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time_ns
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from hopline.capture.events import Event
from hopline.message import Message

if TYPE_CHECKING:
    import pyarrow as pa

# What a record takes in memory beside its body: most messages are small, and made of many small objects.
OVERHEAD = 2_048
# Frames are packed while they are in the processor's cache, and before so many of them that the next messages' objects
# find no room there. What is packed is no object any more, and may become many records before it is handed over.
PACK_BYTES = 64 * OVERHEAD
BATCH_BYTES = 2_048 * OVERHEAD
# Messages are encoded when they are handed over, and kept until then.
MESSAGES_BYTES = 256 * OVERHEAD

_SENT, _RECEIVED = Event.SENT.value, Event.RECEIVED.value
_BEHIND_IDENTITY = slice(1, None)

Content: TypeAlias = "Sequence[bytes] | Message"  # frames, the first of them a socket's identity; or what to encode
# What only records of the inside have: a receiver, a cause, how many seconds it took, and a reason.
Extra: TypeAlias = tuple["bytes | None", "int | None", "float | None", "str | None"]
Frames: TypeAlias = "pa.BinaryArray | list[bytes]"  # of many records, packed or not
HOLE = ""  # instead of an event: a number without a record


class Batch(NamedTuple):
    """Records as they are handed over, column by column, each with its place in all of them.

    There is no list or tuple for each record: a thousand more small objects that are kept wake the garbage collector,
    which then looks at everything else too.
    """

    first_seq: int  # of the first record, or of what was lost before it
    events: list[str]
    times: list[int]  # nanoseconds since 1970
    peers: list[bytes | None]
    frames: list[Frames]  # of all records, without the sockets' identities, in pieces
    counts: list[int]  # 0, and then how many frames each record has
    messages: dict[int, Message]  # to be encoded, by the place of the record, which has no frames
    extras: dict[int, Extra]  # by the place of the record
    gaps: dict[int, int]  # how many numbers were lost before the record at a place
    has_holes: bool  # or may have
    size: int


class Sink(Protocol):
    """Takes batches."""

    done: int  # bytes that it has dealt with, and holds no longer

    def pack(self, frames: list[bytes]) -> Frames:
        """Give frames in a form that takes less to keep."""
        ...

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
        self._times: list[int] = []
        self._peers: list[bytes | None] = []
        self._frames: list[bytes] = []
        self._packed: list[Frames] = []  # before them
        self._counts = [0]
        self._messages: dict[int, Message] = {}
        self._extras: dict[int, Extra] = {}
        self._gaps: dict[int, int] = {}
        self._has_holes = False
        self._size = 0
        self._limit = PACK_BYTES  # at which they are looked at

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
        self._size = size = self._size + OVERHEAD + (len(bodies[0]) if len(bodies) == 1 else sum(map(len, bodies)))
        self._events.append(_SENT)
        self._times.append(time_ns())
        self._peers.append(peer)
        self._frames.extend(frames[_BEHIND_IDENTITY])
        self._counts.append(len(frames) - 1)
        if size >= self._limit:
            self._look()

    def received(self, peer: bytes | None, frames: Sequence[bytes], message: Message) -> None:
        """Record frames that came from a node, as they came."""
        if not self._has_room and self._is_dropped():
            return
        bodies = message.bodies
        self._size = size = self._size + OVERHEAD + (len(bodies[0]) if len(bodies) == 1 else sum(map(len, bodies)))
        self._events.append(_RECEIVED)
        self._times.append(time_ns())
        self._peers.append(peer)
        self._frames.extend(frames[_BEHIND_IDENTITY])
        self._counts.append(len(frames) - 1)
        if size >= self._limit:
            self._look()

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
                count = 0
            else:
                self._frames.extend(content[_BEHIND_IDENTITY])
                count = len(content) - 1
            self._append(event, time_ns(), peer, count)
            if self._size >= self._limit:
                self._look()
        return seq

    def reserve(self) -> int:
        """Reserve the next number for a record that may follow, and give its place: fill or release it in this turn."""
        place = len(self._events)
        if self._lost:
            self._note_lost()
        self._append(HOLE, 0, None, 0)
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
            self._look()

    def release(self, place: int) -> None:
        """Take back what was reserved, and its number too, if nothing was recorded since."""
        if place == len(self._events) - 1:
            self._remove_last()

    def _append(self, event: str, time: int, peer: bytes | None, count: int) -> None:
        self._events.append(event)
        self._times.append(time)
        self._peers.append(peer)
        self._counts.append(count)

    def _remove_last(self) -> None:
        """Remove a hole."""
        for column in (self._events, self._times, self._peers, self._counts):
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

    def _look(self) -> None:
        """Pack the frames, and see to it that the records are handed over if they are enough."""
        enough = BATCH_BYTES
        if self._messages:
            enough = MESSAGES_BYTES
        else:
            self._packed.append(self._sink.pack(self._frames))
            self._frames = []
        if self._size >= enough and not self._is_asked:
            self._is_asked = True
            self._call_soon(self.hand_over)
        self._limit = self._size + PACK_BYTES
        self._has_room = self._handed_over + self._size - self._sink.done <= self._capacity

    def hand_over(self) -> None:
        """Give what there is to the writer."""
        self._is_asked = False
        if not self._events:
            return
        size, next_seq = self._size, self.next_seq
        frames = [*self._packed, self._frames]
        columns = self._events, self._times, self._peers, frames, self._counts, self._messages
        batch = Batch(self._first_seq, *columns, self._extras, self._gaps, self._has_holes, size)
        self._begin()
        self._first_seq = next_seq - self._lost
        self._skipped = self._lost
        self._handed_over += size
        self._has_room = self._handed_over - self._sink.done <= self._capacity
        self._sink.take(batch)


def _size(content: Content) -> int:
    return OVERHEAD + sum(map(len, content.bodies if isinstance(content, Message) else content))
