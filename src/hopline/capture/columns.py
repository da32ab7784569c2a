"""Records to Arrow, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.recorder import HOLE, Batch, Extra, Frames
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
_MOST_NAMES = 10_000
# A message that its node's format has no words for is written in the one that says most.
_LAST_RESORT = WireFormat.V6


class Names(dict[bytes | None, str | None]):
    """Identities as text, each made once."""

    def __init__(self) -> None:
        super().__init__({None: None})

    def __missing__(self, identity: bytes) -> str:
        if len(self) >= _MOST_NAMES:
            self.clear()
            self[None] = None
        name = self[identity] = shown(identity)
        return name


class Chunk(NamedTuple):
    """Columns of records of one day."""

    when: int  # the first of them was made, in nanoseconds since 1970
    columns: pa.RecordBatch
    span: int  # how many there are, with those that were lost before them


class Columns:
    """Makes the columns of one node's records."""

    def __init__(self, node: bytes, uri: str, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS) -> None:
        self._names = Names()
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
        count, name = len(batch.events), self._names.__getitem__
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
                pc.divide(pa.array(batch.times, _INT64), _NANOSECONDS).view(_TIME),
                pc.add(_counting(count), batch.first_seq),
                _always(self._node, count),
                _always(self._uri, count),
                pa.array(batch.events, _STRING),
                pa.array(list(map(name, batch.peers)), _STRING),
                _column(receivers, _STRING, name, count),
                _column(causes, _INT64, int, count),
                _column(durations, _INT64, _microseconds, count),
                _column(reasons, _STRING, str, count),
                _always(0, count),
                self._frames(batch),
            ],
            schema=SCHEMA,
        )

    def _frames(self, batch: Batch) -> pa.ListArray:
        """Put the frames of all messages into one flat array: far cheaper than a list of lists."""
        pieces, counts = self._with_messages(batch) if batch.messages else (batch.frames, batch.counts)
        values = pa.concat_arrays([pack(piece) if isinstance(piece, list) else piece for piece in pieces])
        ends = pc.cumulative_sum(pa.array(counts, _INT32))
        return pa.ListArray.from_arrays(ends, values, type=_FRAMES)

    def _with_messages(self, batch: Batch) -> tuple[list[Frames], list[int]]:
        """Encode what is there as messages only."""
        written: dict[int, list[bytes]] = {}  # one message is often submitted, delivered and handled in a batch
        others = chain.from_iterable(
            piece if isinstance(piece, list) else cast("list[bytes]", piece.to_pylist()) for piece in batch.frames
        )
        frames: list[bytes] = []
        counts = [0]
        for place, count in enumerate(batch.counts[1:]):
            message = batch.messages.get(place)
            if message is None:
                frames += islice(others, count)
                counts.append(count)
            else:
                if id(message) not in written:
                    written[id(message)] = self._written(message)
                frames += written[id(message)]
                counts.append(len(written[id(message)]))
        return [frames], counts

    def _written(self, message: Message) -> list[bytes]:
        for wire_format in (self._wire_format, _LAST_RESORT):
            try:
                return encode(message, wire_format, limits=self._limits)[1:]
            except LocalError:
                continue
        return []


def pack(frames: list[bytes]) -> pa.BinaryArray:
    """Copy the frames of many records into one piece of memory."""
    return pa.array(frames, _BINARY)


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
