"""Records to Arrow, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.recorder import Batch, Record
from hopline.capture.records import SCHEMA, shown
from hopline.message import LocalError, Message, WireFormat
from hopline.wire import DEFAULT_LIMITS, Limits, encode

_TIME = SCHEMA.field("ts").type
_FRAMES = SCHEMA.field("frames").type
_NANOSECONDS = pa.scalar(1_000)  # a microsecond
_MICROSECONDS = 1_000_000  # a second
DAY = 86_400 * 1_000_000_000  # nanoseconds
_behind_identity: Callable[[Sequence[bytes]], Sequence[bytes]] = itemgetter(slice(1, None))
_WIRE = 4  # fields of a record of the wire
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
        numbered, self.lost = _numbered(batch, self.lost)
        records = numbered.records
        if not records:
            return []
        midnight = records[-1][1] // DAY * DAY
        if records[0][1] >= midnight:
            return [self._chunk(numbered)]
        at = next(index for index, record in enumerate(records) if record[1] >= midnight)
        seqs, dropped = numbered.seqs.to_pylist(), numbered.dropped.to_pylist()
        parts = slice(at), slice(at, None)
        return [self._chunk(_as_numbered(records[part], seqs[part], dropped[part])) for part in parts]

    def _chunk(self, numbered: _Numbered) -> Chunk:
        records, seqs, dropped, lost = numbered
        count = len(records)
        columns = (*zip(*records, strict=True), *[(None,) * count] * 4)  # a record of the wire has no more
        events, times, contents, peers, receivers, causes, durations, reasons, *_ = columns
        made = pa.RecordBatch.from_arrays(
            [
                pc.divide(pa.array(times, pa.int64()), _NANOSECONDS).view(_TIME),
                seqs,
                _always(self._node, count),
                _always(self._uri, count),
                pa.array(events, pa.string()),
                _column(peers, pa.string(), self._names.__getitem__),
                _column(receivers, pa.string(), self._names.__getitem__),
                _column(causes, pa.int64(), int),
                _column(durations, pa.int64(), _microseconds),
                _column(reasons, pa.string(), str),
                dropped,
                self._frames(contents),
            ],
            schema=SCHEMA,
        )
        return Chunk(times[0], made, count + lost)

    def _frames(self, contents: Sequence[Sequence[bytes] | Message]) -> pa.ListArray:
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


class _Numbered(NamedTuple):
    """Records, their numbers, and how many were lost before each."""

    records: Sequence[Record]
    seqs: pa.Array
    dropped: pa.Array
    lost: int  # the sum of these


def _numbered(batch: Batch, lost: int) -> tuple[_Numbered, int]:
    """Give numbers to the records, all of one length, and tell how many were lost since the last of them."""
    seq, count = batch.first_seq, len(batch.records)
    if batch.is_plain and not lost:
        records = cast("list[Record]", batch.records)
        return _Numbered(records, pc.add(_counting(count), pa.scalar(seq)), _always(0, count), 0), 0
    seqs: list[int] = []
    dropped: list[int] = []
    kept: list[Record] = []
    for entry in batch.records:
        if isinstance(entry, int):
            seq += entry
            lost += entry
        else:
            seqs.append(seq)
            dropped.append(lost)
            kept.append((*entry, None, None, None, None) if len(entry) == _WIRE else entry)
            seq += 1
            lost = 0
    return _as_numbered(kept, seqs, dropped), lost


def _as_numbered(records: Sequence[Record], seqs: Sequence[int], dropped: Sequence[int]) -> _Numbered:
    return _Numbered(records, pa.array(seqs, pa.int64()), pa.array(dropped, pa.int32()), sum(dropped))


def span(batch: Batch) -> int:
    """Count the numbers of a batch, whether their records are there or not."""
    return sum(entry if isinstance(entry, int) else 1 for entry in batch.records)


def after_loss(columns: pa.RecordBatch, lost: int) -> pa.RecordBatch:
    """Let the first record say that so many more were lost before it."""
    dropped = columns["dropped"].to_pylist()
    dropped[0] += lost
    return columns.set_column(SCHEMA.get_field_index("dropped"), SCHEMA.field("dropped"), pa.array(dropped, pa.int32()))


def _column(values: Sequence[Any], kind: pa.DataType, convert: Callable[[Any], Any]) -> pa.Array:
    count = len(values)
    if values.count(None) == count:
        return _nothing(count, kind)
    return pa.array([None if value is None else convert(value) for value in values], kind)


# Arrays never change, and most batches are of the same length: the same ones serve again and again.


@lru_cache(maxsize=32)
def _nothing(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


@lru_cache(maxsize=32)
def _always(value: str | int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int32() if isinstance(value, int) else pa.string()), count)


@lru_cache(maxsize=8)
def _counting(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())


def _microseconds(seconds: float) -> int:
    return round(seconds * _MICROSECONDS)
