"""Records on the event loop: numbered, bounded, handed over, and never lost without being counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline import Message, WireFormat
from hopline.capture.event_buffer import (
    BATCH_BYTES,
    FIRST_RECORDS,
    OVERHEAD,
    PACK_RECORDS,
    PIECE_BYTES,
    EventBuffer,
    epoch_of,
)
from hopline.capture.packing import EventBatch, Packer, Receiver
from hopline.capture.rows import Source, last_seq, with_dropped
from hopline.capture.rows import rows_of as rows_of_batch
from hopline.wire import encode

FRAMES = [b"socket", b"", b"body", b"meta"]
MESSAGE = Message(b"Ask", bodies=(b"body",))


class SlowWriter:
    """Keeps batches until `catch_up` is called."""

    def __init__(self) -> None:
        self.done = 0
        self.batches: list[EventBatch] = []
        self._open = 0

    def take(self, batch: EventBatch) -> None:
        self.batches.append(batch)
        self._open += batch.size

    def catch_up(self) -> None:
        self.done += self._open
        self._open = 0


class Turns:
    """A loop that turns when `turn` is called."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def buffered(writer: SlowWriter, turns: Turns, *, capacity: int, next_seq: int = 1) -> EventBuffer:
    return EventBuffer(
        writer, Packer(WireFormat.V6), turns.call_soon, time.monotonic, capacity=capacity, next_seq=next_seq
    )


def written(batches: list[EventBatch], next_seq: int = 1) -> list[dict[str, Any]]:
    """Return the rows of batches as a writer writes them."""
    rows: list[dict[str, Any]] = []
    previous_seq = next_seq - 1
    for batch in batches:
        table = with_dropped(rows_of_batch(batch, Source("node", "tcp://127.0.0.1:1")), previous_seq)
        table.validate(full=True)
        rows += table.to_pylist()
        previous_seq = last_seq(table)
    return rows


def rows_of(batches: list[EventBatch], next_seq: int = 1) -> list[tuple[int, int, str]]:
    return [(row["seq"], row["dropped"], row["event"]) for row in written(batches, next_seq)]


def frames_of(batch: EventBatch) -> list[list[bytes]]:
    return [row["frames"] for row in written([batch])]


def test_records_are_handed_over_in_the_loop_s_next_turn_once_there_are_many() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1 << 30)
    for _ in range(BATCH_BYTES // OVERHEAD + 5):
        buffer.sent(b"peer", FRAMES, 0.0)
    assert not writer.batches
    turns.turn()
    assert [batch.records for batch in writer.batches] == [BATCH_BYTES // OVERHEAD + 5]
    buffer.hand_over()
    assert len(writer.batches) == 1


def test_a_record_has_the_time_of_day_whatever_the_clock_of_the_node_shows() -> None:
    writer, shown = SlowWriter(), [5.0]
    buffer = EventBuffer(writer, Packer(WireFormat.V6), Turns().call_soon, lambda: shown[-1], capacity=1 << 30)
    buffer.sent(b"peer", FRAMES, 1.0)
    buffer.received(FRAMES, MESSAGE, 2.0)
    shown.append(6.0)
    buffer.add("handled", MESSAGE)
    buffer.add("submitted", MESSAGE, when=1.5, seq=buffer.take_number())
    shown.append(8.0)
    before = time.time()
    buffer.hand_over()
    after = time.time()
    for row, noted in zip(written(writer.batches), (1.0, 2.0, 6.0, 1.5), strict=True):
        assert before - 1e-5 < row["ts"].timestamp() + 8.0 - noted < after + 1e-5


def test_an_interruption_between_two_clocks_is_not_taken_for_what_is_between_them() -> None:
    late = iter([100.0, 100.9, 200.0, 200.0, 300.0, 301.0])
    early = time.time()
    assert early - 200.0 <= epoch_of(lambda: next(late)) <= time.time() - 200.0


def send_bodies(buffer: EventBuffer, count: int, size: int) -> None:
    body = bytes(size)
    for _ in range(count):
        buffer.sent(b"peer", [b"socket", b"", body], 0.0)


def test_large_bodies_are_not_kept_for_company() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1 << 30)
    send_bodies(buffer, FIRST_RECORDS, PIECE_BYTES)
    turns.turn()
    send_bodies(buffer, BATCH_BYTES // PIECE_BYTES, PIECE_BYTES)
    turns.turn()
    assert [batch.records for batch in writer.batches] == [FIRST_RECORDS, BATCH_BYTES // PIECE_BYTES]


def test_large_bodies_take_no_more_room_than_there_is() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=2 * FIRST_RECORDS * PIECE_BYTES)
    send_bodies(buffer, PACK_RECORDS, PIECE_BYTES)
    buffer.hand_over()
    kept = 2 * FIRST_RECORDS * PIECE_BYTES // (PIECE_BYTES + OVERHEAD) + 1
    assert writer.batches[0].records == kept
    assert buffer.dropped == PACK_RECORDS - kept


def test_bodies_that_become_large_take_at_most_one_piece_of_them_more() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=BATCH_BYTES)
    for _ in range(10):
        send_bodies(buffer, PACK_RECORDS, 1)
        buffer.hand_over()
        writer.catch_up()
    send_bodies(buffer, 3 * PACK_RECORDS, BATCH_BYTES // PACK_RECORDS)
    buffer.hand_over()
    assert writer.batches[-1].records == PACK_RECORDS
    assert buffer.dropped == 2 * PACK_RECORDS


def test_a_small_buffer_is_handed_over_before_it_is_full() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=BATCH_BYTES // 2)
    for _ in range(BATCH_BYTES // OVERHEAD):
        buffer.sent(b"peer", FRAMES, 0.0)
        turns.turn()
        writer.catch_up()
    assert buffer.dropped == 0


def test_what_finds_no_room_is_dropped_and_the_next_record_says_so() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=3 * OVERHEAD)
    for _ in range(3):
        buffer.add("delivered", MESSAGE)
        buffer.hand_over()
    for _ in range(2):
        buffer.sent(b"peer", FRAMES, 0.0)
    buffer.add("submitted", MESSAGE, seq=buffer.take_number())
    writer.catch_up()
    assert buffer.add("handled", MESSAGE) == 7
    buffer.hand_over()
    assert buffer.dropped == 3
    assert rows_of(writer.batches)[-2:] == [(3, 0, "delivered"), (7, 3, "handled")]


def test_every_record_has_its_own_frames_however_many_were_packed_before() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1 << 30)
    expected: list[list[bytes]] = []
    for number in range(3 * PACK_RECORDS):
        frames = [b"socket", b"", *[b"%d" % number] * (number % 4)]
        buffer.received(frames, MESSAGE, 0.0)
        expected.append(frames[1:])
    buffer.add("rejected", [b"socket", b"?"], reason="not readable")
    buffer.add("expired", MESSAGE)
    seq = buffer.take_number()
    for _ in range(PACK_RECORDS):  # some are packed before the record of the number that was taken before
        buffer.sent(b"peer", FRAMES, 0.0)
    buffer.add("submitted", MESSAGE, seq=seq)
    written = encode(MESSAGE, WireFormat.V6)[1:]
    expected += [[b"?"], written, written, *[FRAMES[1:]] * (PACK_RECORDS)]
    buffer.hand_over()
    (batch,) = writer.batches
    assert len(batch.pieces) > 3
    assert frames_of(batch) == expected


def test_frames_that_are_all_packed_are_the_same_too() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1 << 30)
    count = 2 * PACK_RECORDS + 3
    for number in range(count):
        buffer.sent(b"peer", [b"socket", b"", b"%d" % number], 0.0)
    buffer.hand_over()
    assert frames_of(writer.batches[0]) == [[b"", b"%d" % number] for number in range(count)]


def test_a_record_that_cannot_be_packed_is_counted_and_the_next_ones_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1 << 30)
    strange: Any = [b"socket", 5]
    buffer.sent(b"peer", strange, 0.0)
    buffer.hand_over()
    buffer.sent(b"peer", FRAMES, 0.0)
    buffer.hand_over()
    assert buffer.dropped == 1
    assert rows_of(writer.batches) == [(2, 1, "sent")]
    assert len(caplog.records) == 1


def test_a_message_that_no_format_has_words_for_is_recorded_without_frames() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1 << 30)
    buffer.add("failed", Message(b"Ask", hops=1 << 40), reason="too much")
    buffer.hand_over()
    (row,) = written(writer.batches)
    assert (row["frames"], row["reason"], row["peer"]) == ([], "too much", None)


def test_every_record_has_its_own_peer_and_receiver() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1 << 30)
    peers = [b"peer", b"another", None, b"\xff", b"0xFF", b"peer"]  # two of them are the same text
    for _ in range(2):
        for peer in peers:
            buffer.add("rejected", FRAMES, peer=peer, receiver=None if peer is None else Receiver(peer))
        buffer.hand_over()
    rows = written(writer.batches)
    assert [row["peer"] for row in rows] == ["peer", "another", None, "0xFF", "0xFF", "peer"] * 2
    assert [row["receiver"] for row in rows] == [row["peer"] for row in rows]


def test_a_receiver_has_the_names_that_it_was_recorded_with() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1 << 30)
    labels = [("Stock", "reserve"), ("Stock", "note"), (None, None), ("Bank", None)]
    for _ in range(2):
        for name, method in labels:
            buffer.add("delivered", MESSAGE, receiver=Receiver(b"actor", name, method))
        buffer.add("rejected", FRAMES)
        buffer.hand_over()
    rows = written(writer.batches)
    assert [(row["receiver_name"], row["handler"]) for row in rows] == [*labels, (None, None)] * 2


def test_a_number_that_is_given_up_is_used_for_the_next_record() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1 << 20)
    buffer.give_up_number(buffer.take_number())
    seq = buffer.take_number()
    assert buffer.next_seq == 2
    buffer.add("delivered", MESSAGE)
    buffer.add("submitted", MESSAGE, seq=seq)
    buffer.hand_over()
    assert rows_of(writer.batches) == [(1, 0, "submitted"), (2, 0, "delivered")]


def test_a_number_that_is_given_up_too_late_counts_as_dropped() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1 << 20)
    seq = buffer.take_number()
    buffer.add("delivered", MESSAGE)
    buffer.give_up_number(seq)
    buffer.add("handled", MESSAGE)
    buffer.hand_over()
    assert rows_of(writer.batches) == [(2, 1, "delivered"), (3, 0, "handled")]


def test_a_record_that_is_dropped_leaves_nothing_behind() -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=1)
    buffer.add("delivered", MESSAGE, reason="kept")
    buffer.hand_over()
    for _ in range(3):
        buffer.add("failed", MESSAGE, reason="dropped")
        buffer.sent(b"peer", FRAMES, 0.0)
    writer.catch_up()
    buffer.add("handled", MESSAGE, reason="kept")
    buffer.hand_over()
    assert [row["reason"] for row in written(writer.batches)] == ["kept", "kept"]
    assert list(writer.batches[-1].details) == [8]
    assert buffer.dropped == 6


ACTIONS = st.lists(
    st.sampled_from(["sent", "received", "add", "late", "give up", "nested", "turn", "flush", "catch up"]), max_size=60
)


@given(ACTIONS, st.integers(1, 12))
def test_numbers_have_no_gap_that_is_not_accounted_for(actions: list[str], room: int) -> None:
    writer, turns = SlowWriter(), Turns()
    buffer = buffered(writer, turns, capacity=room * OVERHEAD, next_seq=100)
    promised: dict[int, str] = {}  # the numbers that were given out, and what for
    for action in actions:
        if action == "sent":
            buffer.sent(b"peer", FRAMES, 0.0)
        elif action == "received":
            buffer.received(FRAMES, MESSAGE, 0.0)
        elif action == "add":
            promised[buffer.add("delivered", MESSAGE)] = "delivered"
        elif action == "give up":
            buffer.give_up_number(buffer.take_number())
        elif action in ("late", "nested"):
            seq = buffer.take_number()
            promised[seq] = "submitted"
            if action == "nested":
                promised[buffer.add("delivered", MESSAGE)] = "delivered"
            buffer.add("submitted", MESSAGE, seq=seq)
        elif action == "turn":
            turns.turn()
        elif action == "flush":
            buffer.hand_over()
        else:
            writer.catch_up()
    buffer.hand_over()
    writer.catch_up()
    last = buffer.add("handled", MESSAGE)
    buffer.hand_over()
    rows = rows_of(writer.batches, next_seq=100)
    expected = 100
    for seq, dropped, event in rows:
        expected += dropped
        assert seq == expected
        assert promised.get(seq, event) == event
        expected += 1
    assert rows[-1][0] == last
    assert sum(dropped for _, dropped, _ in rows) == buffer.dropped


def test_whatever_an_exception_says_can_be_written() -> None:
    writer = SlowWriter()
    buffer = buffered(writer, Turns(), capacity=1 << 30)
    buffer.add("handled", MESSAGE, reason="half a character: \ud800")
    buffer.add("handled", MESSAGE, reason="naïve")
    buffer.hand_over()
    assert [row["reason"] for row in written(writer.batches)] == ["half a character: \\ud800", "naïve"]
