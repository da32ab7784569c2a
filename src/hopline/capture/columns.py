"""Records to Arrow, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.recorder import HOLE, Batch, Content, Extra
from hopline.capture.records import SCHEMA, shown
from hopline.message import LocalError, Message, WireFormat
from hopline.wire import DEFAULT_LIMITS, Limits, encode

_TIME = SCHEMA.field("ts").type
_FRAMES = SCHEMA.field("frames").type
_NANOSECONDS = pa.scalar(1_000)  # a microsecond
_MICROSECONDS = 1_000_000  # a second
DAY = 86_400 * 1_000_000_000  # nanoseconds
_behind_identity: Callable[[Sequence[bytes]], Sequence[bytes]] = itemgetter(slice(1, None))
_NO_EXTRA: Extra = None, None, None, None
_MOST_NAMES = 10_000
# A message that its node's format has no words for is written in the one that says most.
_LAST_RESORT = WireFormat.V6


class Names(dict[bytes, str]):
    """Identities as text, each made once."""

    def __missing__(self, identity: bytes) -> str:
        if len(self) >= _MOST_NAMES:
            self.clear()
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
        rows, self.lost = _rows(batch, self.lost)
        times = rows.times
        if not times:
            return []
        midnight = times[-1] // DAY * DAY
        if times[0] >= midnight:
            return [self._chunk(rows)]
        at = next(place for place, time in enumerate(times) if time >= midnight)
        return [self._chunk(_part(rows, part)) for part in (range(at), range(at, len(times)))]

    def _chunk(self, rows: Rows) -> Chunk:
        count, name, extras = len(rows.times), self._names.__getitem__, rows.extras
        made = pa.RecordBatch.from_arrays(
            [
                pc.divide(pa.array(rows.times, pa.int64()), _NANOSECONDS).view(_TIME),
                pa.array(rows.seqs, pa.int64()),
                _always(self._node, count),
                _always(self._uri, count),
                pa.array(rows.events, pa.string()),
                _column(rows.peers, pa.string(), name, count),
                _column([extra[0] for extra in extras], pa.string(), name, count),
                _column([extra[1] for extra in extras], pa.int64(), int, count),
                _column([extra[2] for extra in extras], pa.int64(), _microseconds, count),
                _column([extra[3] for extra in extras], pa.string(), str, count),
                pa.array(rows.dropped, pa.int32()) if any(rows.dropped) else _always(0, count),
                self._frames(rows.contents),
            ],
            schema=SCHEMA,
        )
        return Chunk(rows.times[0], made, count + sum(rows.dropped))

    def _frames(self, contents: Sequence[Content]) -> pa.ListArray:
        """Put the frames of all messages into one flat array: far cheaper than a list of lists."""
        if Message in set(map(type, contents)):
            written: dict[int, Sequence[bytes]] = {}  # one message is often submitted, delivered and handled in a batch
            for content in contents:
                if isinstance(content, Message) and id(content) not in written:
                    written[id(content)] = self._written(content)
            rows = [written[id(one)] if isinstance(one, Message) else one[1:] for one in contents]
        else:
            rows = list(map(_behind_identity, contents))  # type: ignore[arg-type]
        offsets = pa.array(accumulate(map(len, rows), initial=0), pa.int32())
        values = pa.array(list(chain.from_iterable(rows)), pa.binary())
        return pa.ListArray.from_arrays(offsets, values, type=_FRAMES)

    def _written(self, message: Message) -> list[bytes]:
        for wire_format in (self._wire_format, _LAST_RESORT):
            try:
                return encode(message, wire_format, limits=self._limits)[1:]
            except LocalError:
                continue
        return []


class Rows(NamedTuple):
    """Records with everything that a row has, column by column."""

    events: Sequence[str]
    times: Sequence[int]
    contents: Sequence[Content]
    peers: Sequence[bytes | None]
    extras: Sequence[Extra]  # or none at all
    seqs: Sequence[int]
    dropped: Sequence[int]


def _rows(batch: Batch, lost: int) -> tuple[Rows, int]:
    """Give numbers to the records, and tell how many were lost since the last of them."""
    first, count = batch.first_seq, len(batch.events)
    extras = [batch.extras.get(place, _NO_EXTRA) for place in range(count)] if batch.extras else []
    seqs: Sequence[int] = range(first, first + count)
    dropped: Sequence[int] = (0,) * count
    rows = Rows(batch.events, batch.times, batch.contents, batch.peers, extras, seqs, dropped)
    if not (lost or batch.gaps or (batch.has_holes and HOLE in batch.events)):
        return rows, 0
    numbers: dict[int, tuple[int, int]] = {}  # by place: the number of the record, and what was lost before it
    seq = first
    for place, event in enumerate(batch.events):
        gap = batch.gaps.get(place, 0)
        seq += gap
        lost += gap
        if event == HOLE:
            lost += 1
        else:
            numbers[place] = seq, lost
            lost = 0
        seq += 1
    kept = _part(rows, numbers)
    return kept._replace(seqs=[seq for seq, _ in numbers.values()], dropped=[gap for _, gap in numbers.values()]), lost


def _part(rows: Rows, places: Collection[int]) -> Rows:
    """Give some of the rows."""
    return Rows(
        [rows.events[place] for place in places],
        [rows.times[place] for place in places],
        [rows.contents[place] for place in places],
        [rows.peers[place] for place in places],
        [rows.extras[place] for place in places] if rows.extras else [],
        [rows.seqs[place] for place in places],
        [rows.dropped[place] for place in places],
    )


def span(batch: Batch) -> int:
    """Count the numbers of a batch, whether their records are there or not."""
    return len(batch.events) + sum(batch.gaps.values())


def after_loss(columns: pa.RecordBatch, lost: int) -> pa.RecordBatch:
    """Let the first record say that so many more were lost before it."""
    dropped = columns["dropped"].to_pylist()
    dropped[0] += lost
    return columns.set_column(SCHEMA.get_field_index("dropped"), SCHEMA.field("dropped"), pa.array(dropped, pa.int32()))


def _column(values: Sequence[Any], kind: pa.DataType, convert: Callable[[Any], Any], count: int) -> pa.Array:
    if values.count(None) == len(values):
        return _nothing(count, kind)
    return pa.array([None if value is None else convert(value) for value in values], kind)


# Arrays never change, and most batches are of the same length: the same ones serve again and again.


@lru_cache(maxsize=32)
def _nothing(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


@lru_cache(maxsize=32)
def _always(value: str | int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int32() if isinstance(value, int) else pa.string()), count)


def _microseconds(seconds: float) -> int:
    return round(seconds * _MICROSECONDS)
