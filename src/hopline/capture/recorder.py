"""Where the event loop leaves its records, which are handed over in batches, and bounded in bytes.

The loop must not feel it: of a record it keeps the frames that were there anyway. Records are numbered as they come;
what finds no room is dropped, and its number with it, and the next record says how many were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import time_ns
from typing import Any, NamedTuple, Protocol, TypeAlias

from hopline.capture.events import Event
from hopline.message import Message

# What a record takes in memory beside its frames.
OVERHEAD = 512
# Frames are packed while they are in the processor's cache, and before so many of them that the next messages' objects
# find no room there. What is packed is no object any more, and may become many records before it is handed over.
PACK_RECORDS = 64
LARGE_BODY = 4_096  # bytes; a larger one does not wait for others
BATCH_BYTES = 2 * 1_024 * 1_024

_SENT, _RECEIVED = Event.SENT.value, Event.RECEIVED.value

Frames: TypeAlias = Sequence[bytes]  # the first of them a socket's identity, which is not recorded
Content: TypeAlias = Frames | Message  # frames as they crossed; or what to encode
# What only records of the inside have: a receiver, a cause, how many seconds it took, and a reason.
Extra: TypeAlias = tuple["bytes | None", "int | None", "float | None", "str | None"]
HOLE = ""  # instead of an event: a number without a record
_NO_FRAMES: Frames = (b"",)
# One flat list has all records: event, time, peer and frames of each, one after the other.
_FIELDS = 4
_FRAMES = 3


class Packed(NamedTuple):
    """The frames of some records, without the sockets' identities, in one piece of memory each."""

    data: bytes  # all frames, one behind the other
    lengths: bytes  # of each frame, 32 bits
    counts: bytes  # of frames, for each record, 32 bits


class Batch(NamedTuple):
    """Records as they are handed over, column by column, each with its place in all of them.

    There is no list or tuple for each record: a thousand more small objects that are kept wake the garbage collector,
    which then looks at everything else too.
    """

    first_seq: int  # of the first record, or of what was lost before it
    events: list[str]
    times: list[int]  # nanoseconds since 1970
    peers: list[bytes | None]
    frames: list[Packed]  # of all records, in pieces
    extras: dict[int, Extra]  # by the place of the record
    gaps: dict[int, int]  # how many numbers were lost before the record at a place
    has_holes: bool  # or may have
    size: int


class Sink(Protocol):
    """Takes batches."""

    done: int  # bytes that it has dealt with, and holds no longer

    def pack(self, frames: list[Frames], messages: Mapping[int, Message]) -> Packed:
        """Copy the frames of records, or those of the messages that are in their places."""
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
        self._skipped = 0  # numbers since then that have no place in the log
        self._lost = 0  # since the last record that was kept
        self._reserved = 0  # places that are to be filled yet
        self._handed_over = sink.done  # bytes that were ever
        self._has_room = True
        self._limit = PACK_RECORDS * _FIELDS  # of the log, at which it is looked at
        self._is_asked = False  # to hand over in the loop's next turn
        self._begin()

    def _begin(self) -> None:
        self._log: list[Any] = []
        self._packed: list[Packed] = []
        self._unpacked_from = 0  # in the log
        self._messages: dict[int, Message] = {}  # that are not packed yet, by their record's place
        self._extras: dict[int, Extra] = {}
        self._gaps: dict[int, int] = {}
        self._has_holes = False
        self._size = 0  # of what is packed

    @property
    def _place(self) -> int:
        """Where the next record goes."""
        return len(self._log) // _FIELDS

    @property
    def next_seq(self) -> int:
        """The number of the next record."""
        return self._first_seq + self._place + self._skipped

    # -- the wire ------------------------------------------------------------------------------------------------------

    def sent(self, peer: bytes, frames: Frames, message: Message) -> None:
        """Record frames that left for a node, as they left."""
        log, bodies = self._log, message.bodies
        log.extend((_SENT, time_ns(), peer, frames))
        if len(log) >= self._limit or len(bodies) != 1 or len(bodies[0]) > LARGE_BODY:
            self._look()

    def received(self, frames: Frames, message: Message) -> None:
        """Record frames as they came. Their sender is the last node that they came through."""
        log, bodies, routing = self._log, message.bodies, message.routing
        log.extend((_RECEIVED, time_ns(), routing[-1].identity if routing else None, frames))
        if len(log) >= self._limit or len(bodies) != 1 or len(bodies[0]) > LARGE_BODY:
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
            place = self._place
            self._extras[place] = receiver, cause, duration, reason
            self._log.extend((event, time_ns(), peer, self._frames_at(place, content)))
            self._look_if_due(content)
        return seq

    def reserve(self) -> int:
        """Reserve the next number for a record that may follow, and give its place: fill or release it in this turn."""
        place = self._place
        if self._lost:
            self._note_lost()
        self._log.extend((HOLE, 0, None, _NO_FRAMES))
        self._has_holes = True
        self._reserved += 1
        return place

    def fill(self, place: int, event: str, time: int, message: Message, cause: int | None) -> None:
        """Put a record where room was reserved."""
        self._reserved -= 1
        if not self._has_room and not self._finds_room():
            self.dropped += 1
            if self._remove_last(place):  # else the hole stays
                self._lost += 1
                self._skipped += 1
            return
        self._extras[place] = None, cause, None, None
        self._log[place * _FIELDS : (place + 1) * _FIELDS] = event, time, None, self._frames_at(place, message)
        self._look_if_due(message)

    def release(self, place: int) -> None:
        """Take back what was reserved, and its number too, if nothing was recorded since."""
        self._reserved -= 1
        self._remove_last(place)

    def _remove_last(self, place: int) -> bool:
        """Remove a hole, if it is the last."""
        if place != self._place - 1:
            return False
        del self._log[-_FIELDS:]
        self._lost += self._gaps.pop(place, 0)
        return True

    def _frames_at(self, place: int, content: Content) -> Frames:
        """Give the frames of a record; a message has some only when it is packed."""
        if not isinstance(content, Message):
            return content
        self._messages[place] = content
        return _NO_FRAMES

    def _look_if_due(self, content: Content) -> None:
        parts = content.bodies if isinstance(content, Message) else content
        if len(self._log) >= self._limit or sum(map(len, parts)) > LARGE_BODY:
            self._look()

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
        self._see_room()
        if self._has_room and self._lost:
            self._note_lost()
        return self._has_room

    def _see_room(self) -> None:
        """See whether there is room; as long as there is none, every record is looked at."""
        self._has_room = self._handed_over + self._size - self._sink.done <= self._capacity
        self._limit = self._unpacked_from + PACK_RECORDS * _FIELDS if self._has_room else 0

    def _note_lost(self) -> None:
        """Let the next record say what was lost before it."""
        self._gaps[self._place] = self._gaps.get(self._place, 0) + self._lost
        self._lost = 0

    def _look(self) -> None:
        """Pack the frames, and see to it that the records are handed over if they are enough."""
        if not self._has_room:
            last = self._log[-_FIELDS:]
            del self._log[-_FIELDS:]
            if self._is_dropped():
                return
            self._log += last
        if self._reserved:  # a message is still to come, in this turn
            return
        self._pack()
        if self._size >= BATCH_BYTES and not self._is_asked:
            self._is_asked = True
            self._call_soon(self.hand_over)

    def _pack(self) -> None:
        """Copy frames into one piece of memory, and let go of their objects."""
        log, start = self._log, self._unpacked_from
        unpacked = slice(start + _FRAMES, None, _FIELDS)
        frames, messages = log[unpacked], self._messages
        if messages:
            messages = {place - start // _FIELDS: message for place, message in messages.items()}
            self._messages = {}
        packed = self._sink.pack(frames, messages)
        log[unpacked] = [None] * len(frames)
        self._packed.append(packed)
        self._unpacked_from = len(log)
        self._size += OVERHEAD * len(frames) + len(packed.data)
        self._see_room()

    def hand_over(self) -> None:
        """Give what there is to the writer."""
        self._is_asked = False
        log = self._log
        if not log:
            return
        if self._unpacked_from < len(log):
            self._pack()
        size, next_seq = self._size, self.next_seq
        columns = log[0::_FIELDS], log[1::_FIELDS], log[2::_FIELDS], self._packed
        batch = Batch(self._first_seq, *columns, self._extras, self._gaps, self._has_holes, size)
        self._begin()
        self._first_seq = next_seq - self._lost
        self._skipped = self._lost
        self._handed_over += size
        self._see_room()
        self._sink.take(batch)
