"""Where the event loop leaves its records, which are handed over in batches, and bounded in bytes.

The loop must not feel it: of a record it keeps the frames that were there anyway. Records are numbered as they come;
what finds no room is dropped, and its number with it, and the next record says how many were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from hopline.capture.events import Event
from hopline.capture.packing import CODES, FIELDS, HOLE, Batch, Extra, Frames, Packed, Packer, Receiver, holes
from hopline.capture.time_of_day import epoch_of
from hopline.message import Message, get_logger

# What a record takes in memory beside its frames.
OVERHEAD = 256
# Records are packed while they are in the processor's cache, and enough of them that it pays, but not too many bytes at
# once: what is not packed yet is not counted. How large they are is learned from those before, because to look at every
# body costs more than to keep it. What is packed is no object any more, and may become many records before it is
# handed over.
FIRST_RECORDS = 16
PACK_RECORDS = 256
PIECE_BYTES = 1_024 * 1_024
BATCH_BYTES = 1_024 * 1_024  # less of the loop's time than 4 MiB, as measured; benchmarks/RESULTS.md

log = get_logger("hopline.capture")

Content: TypeAlias = Frames | Message  # frames as they crossed; or what to encode
_SENT, _RECEIVED = CODES[Event.SENT], CODES[Event.RECEIVED]
_NO_FRAMES: Frames = (b"",)


class Sink(Protocol):
    """Takes batches."""

    done: int  # bytes that it has dealt with, and holds no longer

    def take(self, batch: Batch) -> None:
        """Take a batch, without waiting for anything."""
        ...


class Recorder:
    """Numbers and keeps records until they are handed over. It belongs to one event loop.

    `soon` is how it asks that loop to call it in its next turn, and not in the middle of this one.
    """

    def __init__(
        self,
        sink: Sink,
        packer: Packer,
        soon: Callable[[Callable[[], None]], object],
        clock: Callable[[], float],
        *,
        capacity: int,
        next_seq: int = 1,
    ) -> None:
        self.dropped = 0  # since the start
        self._sink = sink
        self._packer = packer
        self._call_soon = soon
        self._clock = clock
        self._capacity = capacity
        self._enough = min(BATCH_BYTES, capacity // 2)  # bytes, to be handed over
        self._first_seq = next_seq
        self._skipped = 0  # numbers since then that have no place
        self._lost = 0  # since the last record that was kept
        self._reserved = 0  # places that are to be filled yet
        self._handed_over = sink.done  # bytes that were ever
        self._has_room = True
        self._log: list[Any] = []  # event, time, peer and number of frames of each record that is not packed yet
        self._frames: list[bytes] = []  # of all of them
        self._messages: dict[int, Message] = {}  # instead of frames, by the record's place in the log
        self._full = self._limit = FIRST_RECORDS * FIELDS  # of the log, at which it is looked at
        self._is_asked = False  # to hand over in the loop's next turn
        self._begin()

    def _begin(self) -> None:
        self._packed: list[Packed] = []
        self._packed_count = 0
        self._extras: dict[int, Extra] = {}
        self._gaps: dict[int, int] = {}
        self._has_holes = False
        self._size = 0  # of what is packed

    @property
    def _place(self) -> int:
        """Where the next record goes in the batch."""
        return self._packed_count + len(self._log) // FIELDS

    @property
    def next_seq(self) -> int:
        """The number of the next record."""
        return self._first_seq + self._place + self._skipped

    # -- the wire ------------------------------------------------------------------------------------------------------

    def sent(self, peer: bytes, frames: Frames, when: float) -> None:
        """Record frames that left for a node, as they left; `when` they were about to, by the recorder's clock."""
        records = self._log
        records += (_SENT, when, peer, len(frames))
        self._frames += frames
        if len(records) >= self._limit:
            self._look()

    def received(self, frames: Frames, message: Message, when: float) -> None:
        """Record frames as they came, by the recorder's clock. Their sender is the last node that they came through."""
        records, routing = self._log, message.routing
        records += (_RECEIVED, when, routing[-1].identity if routing else None, len(frames))
        self._frames += frames
        if len(records) >= self._limit:
            self._look()

    # -- everything else -----------------------------------------------------------------------------------------------

    def add(
        self,
        event: str,
        content: Content,
        *,
        peer: bytes | None = None,
        receiver: Receiver | None = None,
        cause: int | None = None,
        duration: float | None = None,
        reason: str | None = None,
        when: float | None = None,
    ) -> int:
        """Keep a record if there is room, and return its number. It happened now, unless it is said `when`."""
        seq = self.next_seq
        if self._has_room or not self._is_dropped():
            place = self._place
            self._extras[place] = _extra(receiver, cause, duration, reason and _writable(reason))
            frames = self._frames_at(place, content)
            self._log += (CODES[event], self._clock() if when is None else when, peer, len(frames))
            self._frames += frames
            self._look_if_due()
        return seq

    def reserve(self) -> int:
        """Reserve the next number for a record that may follow, and give its place: fill or release it in this turn."""
        place = self._place
        if self._lost:
            self._note_lost()
        self._log += (HOLE, self._clock(), None, len(_NO_FRAMES))
        self._frames += _NO_FRAMES
        self._has_holes = True
        self._reserved += 1
        return place

    def fill(
        self, place: int, event: str, when: float, message: Message, cause: int | None, receiver: Receiver | None = None
    ) -> None:
        """Put a record where room was reserved."""
        self._reserved -= 1
        if not self._has_room and not self._finds_room():
            self.dropped += 1
            if self._remove_last(place):  # else the hole stays
                self._lost += 1
                self._skipped += 1
            return
        self._extras[place] = _extra(receiver, cause)
        at = (place - self._packed_count) * FIELDS
        self._log[at : at + FIELDS] = CODES[event], when, None, len(self._frames_at(place, message))
        self._look_if_due()

    def release(self, place: int) -> None:
        """Take back what was reserved, and its number too, if nothing was recorded since."""
        self._reserved -= 1
        self._remove_last(place)

    def _remove_last(self, place: int) -> bool:
        """Remove a hole, if it is the last."""
        if place != self._place - 1:
            return False
        self._take_last()
        self._lost += self._gaps.pop(place, 0)
        return True

    def _take_last(self) -> tuple[list[Any], list[bytes]]:
        """Take the last record out again, and its frames."""
        last = self._log[-FIELDS:]
        begin = len(self._frames) - last[-1]
        frames = self._frames[begin:]
        del self._log[-FIELDS:], self._frames[begin:]
        return last, frames

    def _frames_at(self, place: int, content: Content) -> Frames:
        """Give the frames of a record; a message has some only when it is packed."""
        if not isinstance(content, Message):
            return content
        self._messages[place - self._packed_count] = content
        return _NO_FRAMES

    def _look_if_due(self) -> None:
        if len(self._log) >= self._limit:
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
        self._limit = self._full if self._has_room else 0

    def _note_lost(self) -> None:
        """Let the next record say what was lost before it."""
        self._gaps[self._place] = self._gaps.get(self._place, 0) + self._lost
        self._lost = 0

    def _look(self) -> None:
        """Pack the records, and see to it that they are handed over if they are enough."""
        if not self._has_room:
            last, frames = self._take_last()
            if self._is_dropped():
                return
            self._log += last
            self._frames += frames
        if self._reserved:  # a message is still to come, in this turn
            return
        self._pack()
        if self._size >= self._enough and not self._is_asked:
            self._is_asked = True
            self._call_soon(self.hand_over)

    def _pack(self) -> None:
        """Copy records into a few pieces of memory, and let go of their objects."""
        records, count = self._log, len(self._log) // FIELDS
        try:
            packed = self._packer.pack(records, self._frames, self._messages)
        except Exception:  # nothing of this may reach the node
            log.exception("%d records cannot be packed", count)
            self.dropped += count - records[0::FIELDS].count(HOLE)
            self._has_holes = True
            packed = holes(count, records[1])
        records.clear()
        self._frames = []
        if self._messages:
            self._messages = {}
        self._packed.append(packed)
        self._packed_count += count
        self._size += OVERHEAD * count + len(packed.data)
        self._learn_from(count, len(packed.data))
        self._see_room()

    def _learn_from(self, count: int, size: int) -> None:
        """Take at most twice as many records for the next piece, and fewer if they are as large as these."""
        fitting = PIECE_BYTES * count // max(size, 1)
        self._full = FIELDS * max(1, min(2 * self._full // FIELDS, fitting, PACK_RECORDS))

    def hand_over(self) -> None:
        """Give what there is to the writer."""
        self._is_asked = False
        if self._log:
            self._pack()
        if not self._packed:
            return
        size, next_seq = self._size, self.next_seq
        names = self._packer.names()
        epoch = epoch_of(self._clock)
        batch = Batch(self._first_seq, self._packed, names, self._extras, self._gaps, self._has_holes, size, epoch)
        self._begin()
        self._first_seq = next_seq - self._lost
        self._skipped = self._lost
        self._handed_over += size
        self._see_room()
        self._sink.take(batch)


def _extra(
    receiver: Receiver | None, cause: int | None, duration: float | None = None, reason: str | None = None
) -> Extra:
    if receiver is None:
        return Extra(None, cause, duration, reason)
    return Extra(receiver.identity, cause, duration, reason, receiver.name, receiver.handler)


def _writable(text: str) -> str:
    """Give a text that any file takes: what an exception says may have halves of characters in it."""
    return text.encode("utf-8", "backslashreplace").decode()
