"""The event loop's side of capture: number records, keep them for a moment, and hand them to the writer in batches.

Theory of operation
-------------------
Each event gets the next number (`seq`) when it happens, and its record carries that number from then on. Nothing after
this file depends on a record's position: where records are missing, for whatever reason, the numbers of their
neighbours show how many. So dropping a record is merely not keeping it.

A record passes through two stages here:

1. **Fields.** `sent` and `received` run for every message, so they only append to two flat lists. A record of an event
   inside the node (`add`) may have a `Message` instead of frames; it is encoded in the next stage.
2. **Packed.** After some hundred records, `Packer` turns the lists into a few `bytes` objects. That happens on the loop
   while the frames are still in the processor's cache, and releases the objects of the messages early.

Packed records are handed to the writer once they amount to `BATCH_BYTES`, and whenever `hand_over` is called. That
happens in the loop's next turn and not in the middle of this one, so that the numbers of one turn end up in one batch.

The bound: `capacity` covers what is packed here and what the writer has not dealt with yet. Above it, every new record
is checked and dropped until the writer catches up. Records that are not packed yet are not counted, because looking at
the size of every body costs more than keeping it. Their number is limited instead, by the size of the records before
them: at most `PACK_RECORDS`, and fewer where these were large.

Numbers may be taken before their record is added (`take_number`): what a message causes while it is being submitted
must have higher numbers than its `submitted` record, which is only added if the message is accepted. Records are
therefore not always in the order of their numbers; the batch tells, and the writer sorts it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import Any, Protocol, TypeAlias

from hopline.capture.events import Event
from hopline.capture.packing import (
    CODES,
    FIELDS,
    FRAME_COUNT,
    SEQ,
    Details,
    EventBatch,
    Frames,
    PackedRecords,
    Packer,
    Receiver,
)
from hopline.message import Message, get_logger

OVERHEAD = 256  # bytes of memory that a record takes besides its frames
FIRST_RECORDS = 16  # packed at once before anything is known of their size
PACK_RECORDS = 256  # packed at once, at the most
PIECE_BYTES = 1_024 * 1_024  # packed at once, if the records are as large as those before
BATCH_BYTES = 2 * 1_024 * 1_024  # each batch costs the writer some 0.3 to 0.6 ms, whatever its size

log = get_logger("hopline.capture")

Content: TypeAlias = Frames | Message  # frames as they crossed the wire, or a message that is yet to be encoded
_SENT = CODES[Event.SENT]
_RECEIVED = CODES[Event.RECEIVED]
_PLACEHOLDER: Frames = (b"",)
_CLOCK_READINGS = 3


class BatchWriter(Protocol):
    """What the buffer hands its batches to."""

    done: int  # bytes of the batches that no longer take memory

    def take(self, batch: EventBatch) -> None:
        """Take a batch without blocking."""
        ...


class EventBuffer:
    """Numbers records and buffers them until they are handed to a writer. Belongs to one event loop.

    Args:
        writer: Takes the batches.
        packer: Packs the records of this node.
        call_soon: Schedules a call in the loop's next turn.
        clock: The node's clock.
        capacity: Bytes that may wait here and in the writer. Records beyond that are dropped.
        next_seq: The number of the first record.
    """

    def __init__(
        self,
        writer: BatchWriter,
        packer: Packer,
        call_soon: Callable[[Callable[[], None]], object],
        clock: Callable[[], float],
        *,
        capacity: int,
        next_seq: int = 1,
    ) -> None:
        self.next_seq = next_seq
        self.dropped = 0  # records, since the start
        self._writer = writer
        self._packer = packer
        self._call_soon = call_soon
        self._clock = clock
        self._capacity = capacity
        self._hand_over_bytes = min(BATCH_BYTES, capacity // 2)
        self._handed_over = writer.done  # bytes, since the start
        self._is_full = False
        self._is_scheduled = False  # the hand-over, in the loop's next turn
        self._records: list[Any] = []  # not packed yet: the fields of all records, flat
        self._frames: list[bytes] = []  # of all of these
        self._messages: dict[int, Message] = {}  # by number, for records that have a placeholder among the frames
        self._pack_length = FIRST_RECORDS * FIELDS  # of the list of records
        self._check_length = self._pack_length  # the same, or 0 while the buffer is full
        self._start_batch()

    def _start_batch(self) -> None:
        self._packed: list[PackedRecords] = []
        self._packed_size = 0
        self._details: dict[int, Details] = {}
        self._is_ordered = True

    # -- the wire: for every message -----------------------------------------------------------------------------------

    def sent(self, peer: bytes, frames: Frames, when: float) -> None:
        """Record frames that left for a peer; `when` is the node's time just before that."""
        seq = self.next_seq
        self.next_seq = seq + 1
        records = self._records
        records += (seq, _SENT, when, peer, len(frames))
        self._frames += frames
        if len(records) >= self._check_length:
            self._check()

    def received(self, frames: Frames, message: Message, when: float) -> None:
        """Record frames that arrived, `when` by the node's clock. The peer is the last node in the routing."""
        seq = self.next_seq
        self.next_seq = seq + 1
        routing = message.routing
        records = self._records
        records += (seq, _RECEIVED, when, routing[-1].identity if routing else None, len(frames))
        self._frames += frames
        if len(records) >= self._check_length:
            self._check()

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
        seq: int | None = None,
    ) -> int:
        """Add a record, unless the buffer is full, and return its number.

        Args:
            event: What happened.
            content: The frames, or the message to encode.
            peer: The other node.
            receiver: The local actor or hub.
            cause: The number of the record that led to this event.
            duration: In seconds.
            reason: Why the message ended or its handler failed.
            when: The node's time of the event; now by default.
            seq: A number from `take_number`; the next one by default.
        """
        if seq is None:
            seq = self.take_number()
        elif seq != self.next_seq - 1:
            self._is_ordered = False
        self._details[seq] = Details(receiver, cause, duration, reason and _as_utf8(reason))
        if isinstance(content, Message):
            self._messages[seq] = content
            content = _PLACEHOLDER
        self._records += (seq, CODES[event], self._clock() if when is None else when, peer, len(content))
        self._frames += content
        if len(self._records) >= self._check_length:
            self._check()
        return seq

    def take_number(self) -> int:
        """Return the next number, for a record that is added or given up in this turn of the loop."""
        seq = self.next_seq
        self.next_seq = seq + 1
        return seq

    def give_up_number(self, seq: int) -> None:
        """Use a number for the next record instead. If later numbers are in use already, it counts as dropped."""
        if seq == self.next_seq - 1:
            self.next_seq = seq

    # -- bounding, packing, handing over -------------------------------------------------------------------------------

    def _check(self) -> None:
        """Drop the last record if the buffer is full; otherwise pack all records."""
        if self._is_full:
            self._update_is_full()
            if self._is_full:
                self._drop_last()
                return
        self._pack()
        if self._packed_size >= self._hand_over_bytes and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self.hand_over)

    def _update_is_full(self) -> None:
        waiting = self._packed_size + self._handed_over - self._writer.done
        self._is_full = waiting > self._capacity
        self._check_length = 0 if self._is_full else self._pack_length

    def _drop_last(self) -> None:
        record = self._records[-FIELDS:]
        first_frame = len(self._frames) - record[FRAME_COUNT]
        del self._records[-FIELDS:]
        del self._frames[first_frame:]
        self._messages.pop(record[SEQ], None)
        self._details.pop(record[SEQ], None)
        self.dropped += 1

    def _pack(self) -> None:
        records = self._records
        count = len(records) // FIELDS
        try:
            piece = self._packer.pack(records, self._frames, self._messages)
        except Exception:  # an error of capture must not become one of the node
            log.exception("capture dropped %d records that cannot be packed", count)
            self.dropped += count
        else:
            size = len(piece.data)
            self._packed.append(piece)
            self._packed_size += OVERHEAD * count + size
            self._adapt_pack_length(count, size)
        records.clear()
        self._frames = []
        if self._messages:
            self._messages = {}
        self._update_is_full()

    def _adapt_pack_length(self, count: int, size: int) -> None:
        """Pack at most twice as many records next time, and fewer if records of this size would exceed a piece."""
        fitting = PIECE_BYTES * count // max(size, 1)
        doubled = 2 * self._pack_length // FIELDS
        self._pack_length = FIELDS * max(1, min(doubled, fitting, PACK_RECORDS))

    def hand_over(self) -> None:
        """Hand all records to the writer."""
        self._is_scheduled = False
        if self._records:
            self._pack()
        if not self._packed:
            return
        batch = EventBatch(
            pieces=self._packed,
            peers=self._packer.take_peers(),
            details=self._details,
            is_ordered=self._is_ordered,
            size=self._packed_size,
            epoch=epoch_of(self._clock),
        )
        self._start_batch()
        self._handed_over += batch.size
        self._update_is_full()
        self._writer.take(batch)


def epoch_of(clock: Callable[[], float]) -> float:
    """Return the seconds to add to a reading of this clock to get seconds since 1970.

    Two clocks cannot be read at once. Of several attempts the quickest is the most exact: it was interrupted least.
    """
    readings = [_read_both(clock) for _ in range(_CLOCK_READINGS)]
    _, difference = min(readings)
    return difference


def _read_both(clock: Callable[[], float]) -> tuple[float, float]:
    """Return how long it took to read both clocks, and the difference between them."""
    before = clock()
    now = time()
    after = clock()
    return after - before, now - (before + after) / 2


def _as_utf8(text: str) -> str:
    """Return a text that can be encoded: the text of an exception may contain lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()
