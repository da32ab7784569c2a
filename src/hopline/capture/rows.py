"""Batches of packed records to Arrow: the rows of a capture, as journals and segments have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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
_INT32, _INT64, _STRING = pa.int32(), pa.int64(), pa.string()
_EVENT_NAMES = pa.array(EVENTS, _STRING)
_NO_DETAILS = Details()


class Source(msgspec.Struct, frozen=True):
    """The node that recorded: the same for all records of a writer."""

    node: str
    node_uri: str


def rows_of(batch: EventBatch, source: Source) -> pa.RecordBatch:
    """Return the rows of a batch, in the order of their numbers.

    `dropped` counts the numbers that are missing within the batch. What is missing before its first record only the
    writer knows: see `with_dropped`.
    """
    columns = [_joined(pieces) for pieces in zip(*batch.pieces, strict=True)]
    seqs, times, events, peers, frame_counts, frame_lengths, data = columns
    count = batch.records
    rows = pa.RecordBatch.from_arrays(
        [
            _timestamps(_numbers(pa.float64(), times), batch.epoch),
            _numbers(_INT64, seqs),
            pa.repeat(source.node, count),
            pa.repeat(source.node_uri, count),
            _EVENT_NAMES.take(_numbers(pa.int8(), events)),
            _names(batch.peers).take(_numbers(_INT32, peers)),
            *_detail_columns(batch, _numbers(_INT64, seqs)),
            pa.repeat(pa.scalar(0, _INT32), count),
            _frames(frame_counts, frame_lengths, data),
        ],
        schema=CAPTURE_SCHEMA,
    )
    if not batch.is_ordered:
        rows = rows.take(pc.sort_indices(rows["seq"]))
    return _with_dropped_inside(rows)


def first_seq(rows: pa.RecordBatch) -> int:
    """Return the number of the first record."""
    return int(rows["seq"][0].as_py())


def last_seq(rows: pa.RecordBatch) -> int:
    """Return the number of the last record."""
    return int(rows["seq"][-1].as_py())


def first_time(rows: pa.RecordBatch) -> float:
    """Return the time of the first record, in seconds since 1970."""
    return _seconds(rows["ts"][0])


def missing_before(rows: pa.RecordBatch, previous_seq: int) -> int:
    """Return how many numbers are missing between `previous_seq` and the first record that it does not count yet."""
    counted = int(rows["dropped"][0].as_py())
    missing = first_seq(rows) - previous_seq - 1 - counted
    return max(0, missing)


def with_dropped(rows: pa.RecordBatch, previous_seq: int) -> pa.RecordBatch:
    """Return the rows with all numbers that are missing after `previous_seq` counted in the first one's `dropped`."""
    missing = missing_before(rows, previous_seq)
    if not missing:
        return rows
    dropped = rows["dropped"]
    first_dropped = pa.array([dropped[0].as_py() + missing], _INT32)
    return _set_dropped(rows, pa.concat_arrays([first_dropped, dropped[1:]]))


def by_day(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split rows where a day ends (UTC), if they begin and end on different days."""
    midnight = (first_time(rows) // DAY + 1) * DAY
    while _seconds(rows["ts"][-1]) >= midnight:
        next_day = pa.scalar(round(midnight * _MICROSECONDS), _INT64).cast(_TIME)
        is_later = pc.greater_equal(rows["ts"], next_day)
        day_end = pc.index(is_later, value=True).as_py()
        yield rows.slice(0, day_end)
        rows = rows.slice(day_end)
        midnight = (first_time(rows) // DAY + 1) * DAY
    yield rows


def _seconds(time: pa.TimestampScalar) -> float:
    return int(time.value) / _MICROSECONDS


def _joined(pieces: Sequence[bytes]) -> pa.Buffer:
    return pa.py_buffer(b"".join(pieces))


def _numbers(kind: pa.DataType, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(kind, data.size * 8 // kind.bit_width, [None, data])


def _timestamps(times: pa.DoubleArray, epoch: float) -> pa.TimestampArray:
    seconds = pc.add(times, epoch)
    microseconds = pc.multiply(seconds, float(_MICROSECONDS))
    return microseconds.cast(_INT64, safe=False).view(_TIME)


def _names(identities: Sequence[bytes | None]) -> pa.StringArray:
    names = [None if identity is None else shown(identity) for identity in identities]
    return pa.array(names, _STRING)


def _detail_columns(batch: EventBatch, seqs: pa.Int64Array) -> list[pa.Array]:
    """Return receiver, receiver_name, handler, cause, duration_us and reason."""
    if not batch.details:
        no_text = pa.nulls(len(seqs), _STRING)
        no_number = pa.nulls(len(seqs), _INT64)
        return [no_text, no_text, no_text, no_number, no_number, no_text]
    details = [batch.details.get(seq, _NO_DETAILS) for seq in seqs.to_pylist()]
    receivers = [detail.receiver for detail in details]
    return [
        _names([None if receiver is None else receiver.identity for receiver in receivers]),
        pa.array([None if receiver is None else receiver.name for receiver in receivers], _STRING),
        pa.array([None if receiver is None else receiver.handler for receiver in receivers], _STRING),
        pa.array([detail.cause for detail in details], _INT64),
        pa.array([_duration_us(detail) for detail in details], _INT64),
        pa.array([detail.reason for detail in details], _STRING),
    ]


def _duration_us(detail: Details) -> int | None:
    return None if detail.duration is None else round(detail.duration * _MICROSECONDS)


def _frames(frame_counts: pa.Buffer, frame_lengths: pa.Buffer, data: pa.Buffer) -> pa.ListArray:
    frame_offsets = _offsets(frame_lengths)
    frames = pa.Array.from_buffers(pa.binary(), len(frame_offsets) - 1, [None, frame_offsets.buffers()[1], data])
    return pa.ListArray.from_arrays(_offsets(frame_counts), frames, type=_FRAMES)


def _offsets(lengths: pa.Buffer) -> pa.Int32Array:
    """Return where each of some consecutive items of 32-bit lengths begins, and where the last one ends."""
    ends = pc.cumulative_sum(_numbers(_INT32, lengths))
    return pa.concat_arrays([pa.array([0], _INT32), ends])


def _with_dropped_inside(rows: pa.RecordBatch) -> pa.RecordBatch:
    has_gap = last_seq(rows) - first_seq(rows) + 1 != rows.num_rows
    if not has_gap:
        return rows
    seqs = rows["seq"]
    gaps = pc.subtract(pc.subtract(seqs[1:], seqs[:-1]), 1)
    first_dropped = pa.array([0], _INT32)
    return _set_dropped(rows, pa.concat_arrays([first_dropped, gaps.cast(_INT32)]))


def _set_dropped(rows: pa.RecordBatch, dropped: Any) -> pa.RecordBatch:
    return rows.set_column(_DROPPED, CAPTURE_SCHEMA.field(_DROPPED), dropped)
