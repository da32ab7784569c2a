"""Records to Arrow, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.recorder import Batch, Record
from hopline.capture.records import SCHEMA, shown
from hopline.message import LocalError, Message, WireFormat
from hopline.wire import DEFAULT_LIMITS, Limits, encode

_FRAMES = SCHEMA.field("frames").type
_NANOSECONDS = 1_000  # a microsecond
_MICROSECONDS = 1_000_000  # a second
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


class Columns:
    """Makes the columns of one node's records."""

    def __init__(self, node: bytes, uri: str, wire_format: WireFormat, limits: Limits = DEFAULT_LIMITS) -> None:
        self._names = Names()
        self._node = pa.scalar(shown(node))
        self._uri = pa.scalar(uri)
        self._wire_format = wire_format
        self._limits = limits
        self.lost = 0  # records since the last one that was written

    def batch(self, batch: Batch) -> pa.RecordBatch | None:
        """Make the columns of a batch; None for one without records."""
        seqs, records, self.lost = _numbered(batch, self.lost)
        if not records:
            return None
        events, times, contents, peers, receivers, causes, durations, reasons, dropped = zip(*records, strict=True)
        count = len(records)
        return pa.RecordBatch.from_arrays(
            [
                pc.divide(pa.array(times, pa.int64()), _NANOSECONDS).cast(SCHEMA.field("ts").type),
                pa.array(seqs, pa.int64()),
                pa.repeat(self._node, count),
                pa.repeat(self._uri, count),
                pa.array(events, pa.string()),
                _column(peers, pa.string(), self._names.__getitem__),
                _column(receivers, pa.string(), self._names.__getitem__),
                _column(causes, pa.int64(), int),
                _column(durations, pa.int64(), _microseconds),
                _column(reasons, pa.string(), str),
                pa.array(dropped, pa.int32()) if any(dropped) else pa.repeat(pa.scalar(0, pa.int32()), count),
                self._frames(contents),
            ],
            schema=SCHEMA,
        )

    def _frames(self, contents: Sequence[Sequence[bytes] | Message]) -> pa.ListArray:
        """Put the frames of all messages into one flat array: far cheaper than a list of lists."""
        written: dict[int, list[bytes]] = {}  # the same message is often submitted, delivered and handled in one batch
        rows: list[Sequence[bytes]] = []
        for content in contents:
            if not isinstance(content, Message):
                rows.append(content[1:])
            elif id(content) in written:  # which `contents` keeps alive, so that nothing else has its id
                rows.append(written[id(content)])
            else:
                rows.append(written.setdefault(id(content), self._written(content)))
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


def _numbered(batch: Batch, lost: int) -> tuple[Sequence[int], Sequence[Record], int]:
    """Give the records with their numbers, those that follow a gap with what was lost in it; and what is lost since."""
    seq = batch.first_seq
    if not lost and not any(entry.__class__ is int or entry[-1] for entry in batch.records):  # type: ignore[index]
        records = cast("list[Record]", batch.records)
        return range(seq, seq + len(records)), records, 0
    seqs: list[int] = []
    kept: list[Record] = []
    for entry in batch.records:
        gap = entry if isinstance(entry, int) else entry[-1]
        seq += gap
        lost += gap
        if not isinstance(entry, int):
            seqs.append(seq)
            kept.append((*entry[:-1], lost))
            seq += 1
            lost = 0
    return seqs, kept, lost


def span(batch: Batch) -> int:
    """Count the numbers of a batch, whether their records are there or not."""
    return sum(entry if isinstance(entry, int) else 1 + entry[-1] for entry in batch.records)


def _column(values: Sequence[Any], kind: pa.DataType, convert: Callable[[Any], Any]) -> pa.Array:
    if not any(value is not None for value in values):
        return pa.nulls(len(values), kind)
    return pa.array([None if value is None else convert(value) for value in values], kind)


def _microseconds(seconds: float) -> int:
    return round(seconds * _MICROSECONDS)
