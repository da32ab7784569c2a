"""Records on the event loop: numbered, bounded, handed over, and never lost without being counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline import Message, WireFormat
from hopline.capture.blocks import Opening, block_bytes, block_of, blocks_in
from hopline.capture.columns import rows_of as rows_of_block
from hopline.capture.columns import runs_of
from hopline.capture.packing import Batch, Packer, Receiver
from hopline.capture.recorder import BATCH_BYTES, FIRST_RECORDS, OVERHEAD, PACK_RECORDS, PIECE_BYTES, Recorder
from hopline.capture.time_of_day import epoch_of
from hopline.wire import encode

FRAMES = [b"socket", b"", b"body", b"meta"]
MESSAGE = Message(b"Ask", bodies=(b"body",))


class SlowSink:
    """Keeps batches until it is told that they were dealt with."""

    def __init__(self) -> None:
        self.done = 0
        self.batches: list[Batch] = []
        self._open = 0

    def take(self, batch: Batch) -> None:
        self.batches.append(batch)
        self._open += batch.size

    def catch_up(self) -> None:
        self.done += self._open
        self._open = 0


class Turns:
    """A loop that turns when it is told."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def recording(sink: SlowSink, turns: Turns, *, capacity: int, next_seq: int = 1) -> Recorder:
    return Recorder(sink, Packer(WireFormat.V6), turns.soon, time.monotonic, capacity=capacity, next_seq=next_seq)


def written(batches: list[Batch]) -> list[dict[str, Any]]:
    """Give the rows of batches, as a journal has them."""
    opening, rows, lost = Opening("node", "tcp://127.0.0.1:1"), [], 0
    for batch in batches:
        (block,) = blocks_in(pa.py_buffer(b"".join(block_bytes(block_of(batch, lost)))))
        lost = batch.lost_at_end if batch.records else lost + batch.span
        rows += rows_of_block(opening, [block]).to_pylist()
    return rows


def rows_of(batches: list[Batch]) -> list[tuple[int, int, str]]:
    return [(row["seq"], row["dropped"], row["event"]) for row in written(batches)]


def frames_of(batch: Batch) -> list[list[bytes]]:
    return [row["frames"] for row in written([batch])]


def test_records_are_handed_over_in_the_loop_s_next_turn_once_there_are_many() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=1 << 30)
    for _ in range(BATCH_BYTES // OVERHEAD + 5):
        recorder.sent(b"peer", FRAMES, 0.0)
    assert not sink.batches
    turns.turn()
    assert [batch.places for batch in sink.batches] == [BATCH_BYTES // OVERHEAD + 5]
    recorder.hand_over()
    assert len(sink.batches) == 1


def test_a_record_has_the_time_of_day_whatever_the_clock_of_the_node_shows() -> None:
    sink, shown = SlowSink(), [5.0]
    recorder = Recorder(sink, Packer(WireFormat.V6), Turns().soon, lambda: shown[-1], capacity=1 << 30)
    recorder.sent(b"peer", FRAMES, 1.0)
    recorder.received(FRAMES, MESSAGE, 2.0)
    shown.append(6.0)
    recorder.add("handled", MESSAGE)
    recorder.fill(recorder.reserve(), "submitted", 1.5, MESSAGE, None)
    shown.append(8.0)
    before = time.time()
    recorder.hand_over()
    after = time.time()
    for row, noted in zip(written(sink.batches), (1.0, 2.0, 6.0, 1.5), strict=True):
        assert before - 1e-5 < row["ts"].timestamp() + 8.0 - noted < after + 1e-5


def test_an_interruption_between_two_clocks_is_not_taken_for_what_is_between_them() -> None:
    late = iter([100.0, 100.9, 200.0, 200.0, 300.0, 301.0])
    early = time.time()
    assert early - 200.0 <= epoch_of(lambda: next(late)) <= time.time() - 200.0


def send_bodies(recorder: Recorder, count: int, size: int) -> None:
    body = bytes(size)
    for _ in range(count):
        recorder.sent(b"peer", [b"socket", b"", body], 0.0)


def test_large_bodies_are_not_kept_for_company() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=1 << 30)
    send_bodies(recorder, FIRST_RECORDS, PIECE_BYTES)
    turns.turn()
    send_bodies(recorder, BATCH_BYTES // PIECE_BYTES, PIECE_BYTES)
    turns.turn()
    assert [batch.places for batch in sink.batches] == [FIRST_RECORDS, BATCH_BYTES // PIECE_BYTES]


def test_large_bodies_take_no_more_room_than_there_is() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=2 * FIRST_RECORDS * PIECE_BYTES)
    send_bodies(recorder, PACK_RECORDS, PIECE_BYTES)
    recorder.hand_over()
    kept = 2 * FIRST_RECORDS * PIECE_BYTES // (PIECE_BYTES + OVERHEAD) + 1
    assert sink.batches[0].places == kept
    assert recorder.dropped == PACK_RECORDS - kept


def test_bodies_that_become_large_take_at_most_one_piece_of_them_more() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=BATCH_BYTES)
    for _ in range(10):
        send_bodies(recorder, PACK_RECORDS, 1)
        recorder.hand_over()
        sink.catch_up()
    send_bodies(recorder, 3 * PACK_RECORDS, BATCH_BYTES // PACK_RECORDS)
    recorder.hand_over()
    assert sink.batches[-1].places == PACK_RECORDS
    assert recorder.dropped == 2 * PACK_RECORDS


def test_a_small_buffer_is_handed_over_before_it_is_full() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=BATCH_BYTES // 2)
    for _ in range(BATCH_BYTES // OVERHEAD):
        recorder.sent(b"peer", FRAMES, 0.0)
        turns.turn()
        sink.catch_up()
    assert recorder.dropped == 0


def test_what_finds_no_room_is_dropped_and_the_next_record_says_so() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=3 * OVERHEAD)
    for _ in range(3):
        recorder.add("delivered", MESSAGE)
        recorder.hand_over()
    for _ in range(2):
        recorder.sent(b"peer", FRAMES, 0.0)
    place = recorder.reserve()
    recorder.fill(place, "submitted", 1, MESSAGE, None)
    sink.catch_up()
    assert recorder.add("handled", MESSAGE) == 7
    recorder.hand_over()
    assert recorder.dropped == 3
    assert rows_of(sink.batches)[-2:] == [(3, 0, "delivered"), (7, 3, "handled")]


def test_every_record_has_its_own_frames_however_many_were_packed_before() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=1 << 30)
    expected: list[list[bytes]] = []
    for number in range(3 * PACK_RECORDS):
        frames = [b"socket", b"", *[b"%d" % number] * (number % 4)]
        recorder.received(frames, MESSAGE, 0.0)
        expected.append(frames[1:])
    recorder.add("rejected", [b"socket", b"?"], reason="not readable")
    recorder.add("expired", MESSAGE)
    place = recorder.reserve()
    for _ in range(PACK_RECORDS):  # which are not packed before what is yet to come
        recorder.sent(b"peer", FRAMES, 0.0)
    recorder.fill(place, "submitted", 1, MESSAGE, None)
    written = encode(MESSAGE, WireFormat.V6)[1:]
    expected += [[b"?"], written, written, *[FRAMES[1:]] * (PACK_RECORDS)]
    recorder.hand_over()
    (batch,) = sink.batches
    assert len(batch.pieces) > 3
    assert frames_of(batch) == expected


def test_frames_that_are_all_packed_are_the_same_too() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=1 << 30)
    count = 2 * PACK_RECORDS + 3
    for number in range(count):
        recorder.sent(b"peer", [b"socket", b"", b"%d" % number], 0.0)
    recorder.hand_over()
    assert frames_of(sink.batches[0]) == [[b"", b"%d" % number] for number in range(count)]


def test_a_record_that_cannot_be_packed_is_counted_and_the_next_ones_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=1 << 30)
    strange: Any = [b"socket", 5]
    recorder.sent(b"peer", strange, 0.0)
    recorder.hand_over()
    recorder.sent(b"peer", FRAMES, 0.0)
    recorder.hand_over()
    assert recorder.dropped == 1
    assert rows_of(sink.batches) == [(2, 1, "sent")]
    assert len(caplog.records) == 1


def test_a_message_that_no_format_has_words_for_is_recorded_without_frames() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=1 << 30)
    recorder.add("failed", Message(b"Ask", hops=1 << 40), reason="too much")
    recorder.hand_over()
    (row,) = written(sink.batches)
    assert (row["frames"], row["reason"], row["peer"]) == ([], "too much", None)


def test_every_record_has_its_own_peer_and_receiver() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=1 << 30)
    peers = [b"peer", b"another", None, b"\xff", b"0xFF", b"peer"]  # two of them are the same text
    for _ in range(2):
        for peer in peers:
            recorder.add("rejected", FRAMES, peer=peer, receiver=None if peer is None else Receiver(peer))
        recorder.hand_over()
    rows = written(sink.batches)
    assert [row["peer"] for row in rows] == ["peer", "another", None, "0xFF", "0xFF", "peer"] * 2
    assert [row["receiver"] for row in rows] == [row["peer"] for row in rows]


def test_a_receiver_has_the_names_that_it_was_recorded_with() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=1 << 30)
    labels = [("Stock", "reserve"), ("Stock", "note"), (None, None), ("Bank", None)]
    for _ in range(2):
        for name, method in labels:
            recorder.add("delivered", MESSAGE, receiver=Receiver(b"actor", name, method))
        recorder.add("rejected", FRAMES)
        recorder.hand_over()
    rows = written(sink.batches)
    assert [(row["receiver_name"], row["handler"]) for row in rows] == [*labels, (None, None)] * 2


def test_a_message_that_was_not_taken_leaves_no_number_behind() -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=1 << 20)
    recorder.release(recorder.reserve())
    place = recorder.reserve()
    assert recorder.next_seq == 2
    recorder.add("delivered", MESSAGE)
    recorder.fill(place, "submitted", 1, MESSAGE, None)
    recorder.hand_over()
    assert rows_of(sink.batches) == [(1, 0, "submitted"), (2, 0, "delivered")]


ACTIONS = st.lists(
    st.sampled_from(["sent", "received", "add", "fill", "release", "nested", "turn", "flush", "catch up"]), max_size=60
)


@given(ACTIONS, st.integers(1, 12))
def test_numbers_have_no_gap_that_is_not_accounted_for(actions: list[str], room: int) -> None:
    sink, turns = SlowSink(), Turns()
    recorder = recording(sink, turns, capacity=room * OVERHEAD, next_seq=100)
    promised: dict[int, str] = {}  # the numbers that were given out, and what for
    for action in actions:
        if action == "sent":
            recorder.sent(b"peer", FRAMES, 0.0)
        elif action == "received":
            recorder.received(FRAMES, MESSAGE, 0.0)
        elif action == "add":
            promised[recorder.add("delivered", MESSAGE)] = "delivered"
        elif action in ("fill", "release", "nested"):
            place = recorder.reserve()
            seq = recorder.next_seq - 1
            if action != "release":
                promised[seq] = "submitted"
            if action == "nested":
                promised[recorder.add("delivered", MESSAGE)] = "delivered"
            if action == "release":
                recorder.release(place)
            else:
                recorder.fill(place, "submitted", 1, MESSAGE, None)
        elif action == "turn":
            turns.turn()
        elif action == "flush":
            recorder.hand_over()
        else:
            sink.catch_up()
    recorder.hand_over()
    sink.catch_up()
    last = recorder.add("handled", MESSAGE)
    recorder.hand_over()
    rows = rows_of(sink.batches)
    expected = 100
    for seq, dropped, event in rows:
        expected += dropped
        assert seq == expected
        assert promised.get(seq, event) == event
        expected += 1
    assert rows[-1][0] == last
    assert sum(dropped for _, dropped, _ in rows) == recorder.dropped


def test_whatever_an_exception_says_can_be_written() -> None:
    sink = SlowSink()
    recorder = recording(sink, Turns(), capacity=1 << 30)
    recorder.add("handled", MESSAGE, reason="half a character: \ud800")
    recorder.add("handled", MESSAGE, reason="naïve")
    recorder.hand_over()
    assert [row["reason"] for row in written(sink.batches)] == ["half a character: \\ud800", "naïve"]


def test_blocks_that_follow_each_other_give_the_rows_that_each_of_them_gives() -> None:
    sink, shown = SlowSink(), [0.0]
    recorder = Recorder(sink, Packer(WireFormat.V6), Turns().soon, lambda: shown[0], capacity=1 << 30)
    for number, peer in enumerate((b"a", b"a", b"a", b"b", b"b")):
        shown[0] += 1_000.0  # so each has an epoch of its own
        for count in range(1, 3 + number):
            recorder.sent(peer, [b"socket", b"", *[b"%d" % number] * count], 0.0)
        if number == 1:
            recorder.add("failed", MESSAGE, reason="nobody knows why")
        recorder.hand_over()
    opening = Opening("node", "tcp://127.0.0.1:1")
    journal = pa.py_buffer(b"".join(part for batch in sink.batches for part in block_bytes(block_of(batch, 0))))
    blocks = list(blocks_in(journal))
    runs = list(runs_of(blocks, 100))
    assert [len(run) for run in runs] == [1, 1, 1, 2]  # one has a reason, and then the peers are others
    assert [len(run) for run in runs_of(blocks, 10)] == [1, 1, 1, 1, 1]  # 5 and 6 rows are too many together
    rows = [row for run in runs for row in rows_of_block(opening, run).to_pylist()]
    assert rows == written(sink.batches)
    assert [row["seq"] for row in rows] == list(range(1, 22))
