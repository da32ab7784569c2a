"""Batches of packed records to Arrow: the rows of a capture, as journals and segments have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.packing import EVENTS, Details, EventBatch
from hopline.capture.records import CAPTURE_SCHEMA, shown

DAY = 86_400  # seconds
_MICROSECONDS = 1_000_000  # per second
_TIME = CAPTURE_SCHEMA.field("ts").type
_FRAMES = CAPTURE_SCHEMA.field("frames").type
_DROPPED = CAPTURE_SCHEMA.get_field_index("dropped")
_INT32 = pa.int32()
_INT64 = pa.int64()
_STRING = pa.string()
_EVENT_NAMES = pa.array(EVENTS, _STRING)
_FIRST_OFFSET = bytes(4)  # 0, in 32 bits
_NO_DETAILS = Details()
_NONE_DROPPED = pa.scalar(0, _INT32)


class Source(msgspec.Struct, frozen=True):
    """The node that recorded: the same for all records of a writer."""

    node: str
    node_uri: str


def rows_of(batch: EventBatch, source: Source) -> pa.RecordBatch:
    """Return the rows of a batch, in the order of their numbers.

    `dropped` counts the numbers that are missing within the batch. What is missing before its first record only the
    writer knows: see `with_dropped`.
    """
    seqs, times, events, peers, frame_counts, frame_lengths, data = zip(*batch.pieces, strict=True)
    count = batch.records
    numbers = _numbers(_INT64, seqs)
    event_codes = _numbers(pa.int8(), events)
    peer_indexes = _numbers(_INT32, peers)
    rows = pa.RecordBatch.from_arrays(
        [
            _timestamps(times, batch.epoch),
            numbers,
            pa.repeat(source.node, count),
            pa.repeat(source.node_uri, count),
            _EVENT_NAMES.take(event_codes),
            _names(batch.peers).take(peer_indexes),
            *_detail_columns(batch, numbers),
            pa.repeat(_NONE_DROPPED, count),
            _frames(frame_counts, frame_lengths, data),
        ],
        schema=CAPTURE_SCHEMA,
    )
    if not batch.is_ordered:
        order = pc.sort_indices(rows["seq"])
        rows = rows.take(order)
    return _with_dropped_inside(rows)


def first_seq(rows: pa.RecordBatch) -> int:
    """Return the number of the first record."""
    seq: int = rows["seq"][0].as_py()
    return seq


def last_seq(rows: pa.RecordBatch) -> int:
    """Return the number of the last record."""
    seq: int = rows["seq"][-1].as_py()
    return seq


def first_time(rows: pa.RecordBatch) -> float:
    """Return the time of the first record, in seconds since 1970."""
    return _seconds(rows["ts"][0])


def missing_before(rows: pa.RecordBatch, previous_seq: int) -> int:
    """Return how many numbers are missing between `previous_seq` and the first record that it does not count yet."""
    counted: int = rows["dropped"][0].as_py()
    expected_seq = previous_seq + 1
    gap = first_seq(rows) - expected_seq
    return max(0, gap - counted)


def with_dropped(rows: pa.RecordBatch, previous_seq: int) -> pa.RecordBatch:
    """Return the rows with all numbers that are missing after `previous_seq` counted in the first one's `dropped`."""
    missing = missing_before(rows, previous_seq)
    if not missing:
        return rows
    dropped = rows["dropped"]
    first_dropped = dropped[0].as_py() + missing
    return _set_dropped(rows, first_dropped, dropped[1:])


def by_day(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split rows where a day ends (UTC), if they begin and end on different days."""
    midnight = midnight_after(first_time(rows))
    while _seconds(rows["ts"][-1]) >= midnight:
        midnight_us = round(midnight * _MICROSECONDS)
        next_day = pa.scalar(midnight_us, _INT64).cast(_TIME)
        is_later = pc.greater_equal(rows["ts"], next_day)
        day_end = pc.index(is_later, value=True).as_py()
        yield rows.slice(0, day_end)
        rows = rows.slice(day_end)
        midnight = midnight_after(first_time(rows))
    yield rows


def midnight_after(seconds: float) -> float:
    """Return when the day of a time ends (UTC), both in seconds since 1970."""
    day = seconds // DAY
    return (day + 1) * DAY


def _seconds(time: pa.TimestampScalar) -> float:
    microseconds: int = time.value
    return microseconds / _MICROSECONDS


def _joined(pieces: Sequence[bytes]) -> pa.Buffer:
    return pa.py_buffer(b"".join(pieces))


def _numbers(kind: pa.DataType, pieces: Sequence[bytes]) -> pa.Array:
    data = _joined(pieces)
    length = data.size * 8 // kind.bit_width
    return pa.Array.from_buffers(kind, length, [None, data])


def _timestamps(times: Sequence[bytes], epoch: float) -> pa.TimestampArray:
    seconds = pc.add(_numbers(pa.float64(), times), epoch)
    microseconds = pc.multiply(seconds, float(_MICROSECONDS))
    rounded = microseconds.cast(_INT64, safe=False)
    return rounded.view(_TIME)


def _names(identities: Sequence[bytes | None]) -> pa.StringArray:
    names: list[str | None] = []
    for identity in identities:
        name = None if identity is None else shown(identity)
        names.append(name)
    return pa.array(names, _STRING)


def _detail_columns(batch: EventBatch, seqs: pa.Int64Array) -> list[pa.Array]:
    """Return receiver, receiver_name, handler, cause, duration_us and reason."""
    if not batch.details:
        count = len(seqs)
        no_text = pa.nulls(count, _STRING)
        no_number = pa.nulls(count, _INT64)
        return [no_text, no_text, no_text, no_number, no_number, no_text]
    details = [batch.details.get(seq, _NO_DETAILS) for seq in seqs.to_pylist()]
    identities: list[bytes | None] = []
    names: list[str | None] = []
    handlers: list[str | None] = []
    for detail in details:
        receiver = detail.receiver
        identities.append(None if receiver is None else receiver.identity)
        names.append(None if receiver is None else receiver.name)
        handlers.append(None if receiver is None else receiver.handler)
    causes = [detail.cause for detail in details]
    durations = [_duration_us(detail) for detail in details]
    reasons = [detail.reason for detail in details]
    return [
        _names(identities),
        pa.array(names, _STRING),
        pa.array(handlers, _STRING),
        pa.array(causes, _INT64),
        pa.array(durations, _INT64),
        pa.array(reasons, _STRING),
    ]


def _duration_us(detail: Details) -> int | None:
    if detail.duration is None:
        return None
    return round(detail.duration * _MICROSECONDS)


def _frames(
    frame_counts: Sequence[bytes],
    frame_lengths: Sequence[bytes],
    data: Sequence[bytes],
) -> pa.ListArray:
    frame_offsets = _offsets(frame_lengths)
    frame_count = len(frame_offsets) - 1
    _, offsets = frame_offsets.buffers()
    buffers = [None, offsets, _joined(data)]
    frames = pa.Array.from_buffers(pa.binary(), frame_count, buffers)
    return pa.ListArray.from_arrays(_offsets(frame_counts), frames, type=_FRAMES)


def _offsets(lengths: Sequence[bytes]) -> pa.Int32Array:
    """Return where each of some consecutive items of 32-bit lengths begins, and where the last one ends."""
    return pc.cumulative_sum(_numbers(_INT32, [_FIRST_OFFSET, *lengths]))


def _with_dropped_inside(rows: pa.RecordBatch) -> pa.RecordBatch:
    span = last_seq(rows) - first_seq(rows) + 1
    if span == rows.num_rows:
        return rows
    seqs = rows["seq"]
    steps = pc.subtract(seqs[1:], seqs[:-1])
    gaps = pc.subtract(steps, 1)
    return _set_dropped(rows, 0, gaps.cast(_INT32))


def _set_dropped(rows: pa.RecordBatch, first: int, others: pa.Int32Array) -> pa.RecordBatch:
    dropped_before = pa.array([first], _INT32)
    dropped = pa.concat_arrays([dropped_before, others])
    field = CAPTURE_SCHEMA.field(_DROPPED)
    return rows.set_column(_DROPPED, field, dropped)
