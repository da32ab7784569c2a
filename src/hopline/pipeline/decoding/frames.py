"""The frames of many records as one piece of memory: what stands where is computed for all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Longs: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

FRAMES = pa.list_(pa.binary())
_WIDEST = 8  # bytes of the largest number: so many may be read behind the end
_MANY = 0.6  # of the pieces: fewer are sooner picked out, and the empty ones left alone
_NUMBERS = {2: "<u2", 4: "<u4", 8: "<i8"}


@dataclass(frozen=True, eq=False)
class Frames:
    """The frames of some records. A frame is known by its number among all of them, a byte by its place.

    `first` and `behind` are, for each record, its first frame and the one behind its last; `starts` are the places
    where the frames begin, and where the last one ends.
    """

    data: npt.NDArray[np.uint8]
    starts: Longs
    sizes: Longs
    first: Longs
    behind: Longs
    is_whole: Flags

    @classmethod
    def of_records(cls, records: pa.ListArray) -> Frames:
        """Find the frames of all of some records."""
        offsets = np.frombuffer(records.buffers()[1], np.int32)[records.offset : records.offset + len(records) + 1]
        values = records.values.slice(offsets[0], offsets[-1] - offsets[0])  # a slice of records still has all values
        starts = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
        begin, end = int(starts[0]), int(starts[-1])
        data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[begin : end + _WIDEST]
        if len(data) < end - begin + _WIDEST:
            data = np.concatenate([data[: end - begin], np.zeros(_WIDEST, np.uint8)])
        places = np.subtract(starts, begin, dtype=np.int64)
        bounds: Longs = np.subtract(offsets, offsets[0], dtype=np.int64)
        first, behind = bounds[:-1], bounds[1:]
        is_whole = _has_no_nulls(records, values, first, behind)
        return cls(data, places, np.diff(places), first, behind, is_whole)

    def of(self, records: Longs) -> Frames:
        """Keep some records."""
        kept = {name: getattr(self, name)[records] for name in ("first", "behind", "is_whole")}
        return replace(self, **kept)

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def counts(self) -> Longs:
        """How many frames each record has."""
        return self.behind - self.first

    @cached_property
    def buffer(self) -> pa.Buffer:
        """The bytes of all frames."""
        return pa.py_buffer(self.data)

    def last(self, records: Longs, count: int) -> tuple[Longs, Longs]:
        """Return places and sizes of the last frames of some records: a row for each frame, the last one first."""
        places = self.starts[self.behind[records] - np.arange(count + 1)[:, np.newaxis]]
        return places[1:], places[:-1] - places[1:]

    def start(self, frame: Longs) -> Longs:
        """Return the places where frames begin."""
        return self.starts[frame]

    def size(self, frame: Longs) -> Longs:
        """Return the sizes of frames."""
        return self.sizes[frame]

    def bytes_of(self, first: Longs, behind: Longs) -> Longs:
        """Count the bytes from some frames to before others."""
        return self.starts[behind] - self.starts[first]

    def number(self, place: Longs, width: int) -> Longs:
        """Read little-endian integers, unsigned but for those of eight bytes, wherever they begin."""
        return self._views[width][place].astype(np.int64, copy=False)

    @cached_property
    def _views(self) -> dict[int, npt.NDArray[np.integer]]:
        """The same memory as integers of each width, one from every place on."""
        count = len(self.data) - _WIDEST + 1
        return {width: np.ndarray((count,), kind, self.data.data, strides=(1,)) for width, kind in _NUMBERS.items()}

    def cut(self, start: Longs, size: Longs) -> pa.BinaryArray:
        """Cut out pieces, none of which begins before the end of the one before it."""
        there = np.flatnonzero(size)
        if len(there) > _MANY * len(size):
            return self._cut(start, size)
        bounds = np.zeros(len(size) + 1, np.int32)  # what is empty has no bytes to take
        np.cumsum(size, out=bounds[1:])
        pieces = self._cut(start[there], size[there])
        return pa.Array.from_buffers(
            pa.binary(), len(size), [None, pa.py_buffer(bounds), pieces.buffers()[2] or pa.py_buffer(b"")]
        )

    def _cut(self, start: Longs, size: Longs) -> pa.BinaryArray:
        bounds = np.empty(2 * len(start) + 1, np.int32)
        bounds[0:-1:2] = start
        bounds[1::2] = start + size
        bounds[-1] = bounds[-2] if len(start) else 0
        pieces_and_gaps = pa.Array.from_buffers(pa.binary(), 2 * len(start), [None, pa.py_buffer(bounds), self.buffer])
        return pieces_and_gaps.take(pa.array(np.arange(0, 2 * len(start), 2)))


def _has_no_nulls(records: pa.ListArray, values: pa.BinaryArray, first: Longs, behind: Longs) -> Flags:
    """Return which records are there with all their frames."""
    is_whole: Flags = np.ones(len(records), np.bool_)
    if records.null_count:
        is_whole &= records.is_valid().to_numpy(zero_copy_only=False)
    if values.null_count:
        nulls = np.concatenate([[0], np.cumsum(values.is_null().to_numpy(zero_copy_only=False))])
        is_whole &= nulls[behind] == nulls[first]
    return is_whole
