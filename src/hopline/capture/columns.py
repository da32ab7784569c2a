"""Records to Arrow, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from struct import pack
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.recorder import HOLE, Batch, Extra, Frames, Packed
from hopline.capture.records import SCHEMA, shown
from hopline.message import LocalError, Message, WireFormat
from hopline.wire import DEFAULT_LIMITS, Limits, encode

_TIME = SCHEMA.field("ts").type
_FRAMES = SCHEMA.field("frames").type
_SEQ, _DROPPED = SCHEMA.get_field_index("seq"), SCHEMA.get_field_index("dropped")
_BINARY, _INT32, _INT64, _STRING = pa.binary(), pa.int32(), pa.int64(), pa.string()
_NANOSECONDS = pa.scalar(1_000)  # a microsecond
_MICROSECONDS = 1_000_000  # a second
DAY = 86_400 * 1_000_000_000  # nanoseconds
_NO_EXTRA: Extra = None, None, None, None
_MOST_WORDS = 10_000
_NO_TEXTS = pa.array([], _STRING)
_ZERO = bytes(4)  # 32 bits
# A message that its node's format has no words for is written in the one that says most.
_LAST_RESORT = WireFormat.V6


class Words(dict[Any, int]):
    """A column's texts: each is made once and has a number, for a column is made of numbers at far less cost."""

    def __init__(self, text: Callable[[Any], str | None]) -> None:
        super().__init__()
        self._text = text
        self._texts: list[str | None] = []
        self._array = _NO_TEXTS

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self._texts)
        self._texts.append(None if value is None else self._text(value))
        return number

    def column(self, values: Sequence[Any]) -> pa.StringArray:
        """Give their texts."""
        if len(self) > _MOST_WORDS:
            self.clear()
            self._texts.clear()
            self._array = _NO_TEXTS
        numbers = _integers(_INT32, pack(f"{len(values)}i", *map(self.__getitem__, values)))
        if len(self._array) != len(self._texts):
            self._array = pa.array(self._texts, _STRING)
        return self._array.take(numbers)


class Chunk(NamedTuple):
    """Columns of records of one day."""

    when: int  # the first of them was made, in nanoseconds since 1970
    columns: pa.RecordBatch
    span: int  # how many there are, with those that were lost before them


class Columns:
    """Makes the columns of one node's records."""

    def __init__(self, node: bytes, uri: str, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS) -> None:
        self._events = Words(str)
        self._names = Words(shown)
        self._node = shown(node)
        self._uri = uri
        self._wire_format = wire_format
        self._limits = limits
        self.lost = 0  # records since the last one that came

    def chunks(self, batch: Batch) -> list[Chunk]:
        """Make the columns of a batch, cut at midnight: a segment has the records of one day."""
        made = self._all(batch)
        times: Sequence[int] = batch.times
        dropped: Sequence[int] = ()
        if self.lost or batch.gaps or (batch.has_holes and HOLE in batch.events):
            places, seqs, dropped, self.lost = _numbered(batch, self.lost)
            made = made.take(pa.array(places, _INT64))
            made = made.set_column(_SEQ, SCHEMA.field(_SEQ), pa.array(seqs, _INT64))
            made = made.set_column(_DROPPED, SCHEMA.field(_DROPPED), pa.array(dropped, _INT32))
            times = [times[place] for place in places]
        if not times:
            return []
        midnight = times[-1] // DAY * DAY
        if times[0] >= midnight:
            return [Chunk(times[0], made, len(times) + sum(dropped))]
        at = next(place for place, time in enumerate(times) if time >= midnight)
        return [
            Chunk(times[0], made[:at], at + sum(dropped[:at])),
            Chunk(times[at], made[at:], len(times) - at + sum(dropped[at:])),
        ]

    def _all(self, batch: Batch) -> pa.RecordBatch:
        """Make a row for every place, with the number that it has if nothing is lost."""
        count = len(batch.events)
        receivers: Sequence[bytes | None] = ()
        causes: Sequence[int | None] = ()
        durations: Sequence[float | None] = ()
        reasons: Sequence[str | None] = ()
        if batch.extras:
            extras = batch.extras
            receivers, causes, durations, reasons = zip(
                *[extras.get(place, _NO_EXTRA) for place in range(count)], strict=True
            )
        return pa.RecordBatch.from_arrays(
            [
                pc.divide(_integers(_INT64, pack(f"{count}q", *batch.times)), _NANOSECONDS).view(_TIME),
                pc.add(_counting(count), batch.first_seq),
                _always(self._node, count),
                _always(self._uri, count),
                self._events.column(batch.events),
                self._names.column(batch.peers),
                self._names.column(receivers) if receivers else _nothing(count, _STRING),
                _column(causes, _INT64, int, count),
                _column(durations, _INT64, _microseconds, count),
                _column(reasons, _STRING, str, count),
                _always(0, count),
                _frames(batch.frames),
            ],
            schema=SCHEMA,
        )

    # -- frames --------------------------------------------------------------------------------------------------------

    def pack(self, frames: list[Frames], messages: Mapping[int, Message]) -> Packed:
        """Copy the frames of records, or those of the messages that are in their places."""
        written: dict[int, Frames] = {}  # one message is often submitted, delivered and handled at once
        for place, message in messages.items():
            if id(message) not in written:
                written[id(message)] = self._written(message)
            frames[place] = written[id(message)]
        count = len(frames[0])
        if set(map(len, frames)) == {count}:  # as is usual, and then no work for each of them
            counts = [count - 1] * len(frames)
            flat = list(chain.from_iterable(frames))
            del flat[::count]
        else:
            counts = [len(one) - 1 for one in frames]
            flat = list(chain.from_iterable([one[1:] for one in frames]))
        lengths = pack(f"{len(flat)}i", *map(len, flat))
        return Packed(b"".join(flat), lengths, pack(f"{len(counts)}i", *counts))

    def _written(self, message: Message) -> Frames:
        for wire_format in (self._wire_format, _LAST_RESORT):
            try:
                return encode(message, wire_format, limits=self._limits)
            except LocalError:
                continue
        return (b"",)


def _frames(pieces: list[Packed]) -> pa.ListArray:
    """Put the frames of all records into one flat array: far cheaper than a list of lists."""
    data, lengths, counts = map(b"".join, zip(*pieces, strict=True))
    ends = _ends(lengths)
    values = pa.Array.from_buffers(_BINARY, len(ends) - 1, [None, ends.buffers()[1], pa.py_buffer(data)])
    return pa.ListArray.from_arrays(_ends(counts), values, type=_FRAMES)


def _ends(lengths: bytes) -> pa.Int32Array:
    """Tell where each of them ends that is behind the others, and first of all 0."""
    return pc.cumulative_sum(_integers(_INT32, _ZERO + lengths))


def _integers(kind: pa.DataType, data: bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, len(data) * 8 // kind.bit_width, [None, pa.py_buffer(data)])


def _numbered(batch: Batch, lost: int) -> tuple[list[int], list[int], list[int], int]:
    """Give the places that have a record, its number, how many were lost before it, and how many after the last."""
    places: list[int] = []
    seqs: list[int] = []
    dropped: list[int] = []
    seq = batch.first_seq
    for place, event in enumerate(batch.events):
        gap = batch.gaps.get(place, 0)
        seq += gap
        lost += gap
        if event == HOLE:
            lost += 1
        else:
            places.append(place)
            seqs.append(seq)
            dropped.append(lost)
            lost = 0
        seq += 1
    return places, seqs, dropped, lost


def span(batch: Batch) -> int:
    """Count the numbers of a batch, whether their records are there or not."""
    return len(batch.events) + sum(batch.gaps.values())


def after_loss(columns: pa.RecordBatch, lost: int) -> pa.RecordBatch:
    """Let the first record say that so many more were lost before it."""
    dropped = columns["dropped"].to_pylist()
    dropped[0] += lost
    return columns.set_column(_DROPPED, SCHEMA.field(_DROPPED), pa.array(dropped, _INT32))


def _column(values: Sequence[Any], kind: pa.DataType, convert: Callable[[Any], Any], count: int) -> pa.Array:
    if values.count(None) == len(values):  # or there are none at all
        return _nothing(count, kind)
    return pa.array([None if value is None else convert(value) for value in values], kind)


# Arrays never change, and a part of one costs nothing: the same ones serve again and again, for batches of any length.


def _always(value: str | int, count: int) -> pa.Array:
    return _repeated(value, _room(count))[:count]


def _nothing(count: int, kind: pa.DataType) -> pa.Array:
    return _nulls(_room(count), kind)[:count]


def _counting(count: int) -> pa.Array:
    return _range(_room(count))[:count]


def _room(count: int) -> int:
    return 1 << count.bit_length()


@lru_cache(maxsize=32)
def _repeated(value: str | int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, _INT32 if isinstance(value, int) else _STRING), count)


@lru_cache(maxsize=32)
def _nulls(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


@lru_cache(maxsize=32)
def _range(count: int) -> pa.Array:
    return pa.array(range(count), _INT64)


def _microseconds(seconds: float) -> int:
    return round(seconds * _MICROSECONDS)
