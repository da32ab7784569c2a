"""The frames of many records as one piece of memory: what stands where is computed for all of them at once.

Arrow keeps a column of frames as three arrays: the bytes of all frames in one buffer, where each frame begins in it,
and at which frame each record begins. `Frames` shares this memory with Arrow. Numbers (`number`) and pieces of bytes
(`cut`) are read from it at an array of places, so that no single record costs a step of Python's.
"""

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
        """Return the frames of all of some records."""
        list_offsets = _offsets(records)
        first_value = list_offsets[0]
        # A slice of records still has all values.
        value_count = list_offsets[-1] - first_value
        values = records.values.slice(first_value, value_count)
        value_offsets = _offsets(values)
        begin = int(value_offsets[0])
        end = int(value_offsets[-1])
        starts = np.subtract(value_offsets, begin, dtype=np.int64)
        bounds: Longs = np.subtract(list_offsets, first_value, dtype=np.int64)
        first = bounds[:-1]
        behind = bounds[1:]
        return cls(
            data=_readable_bytes(values.buffers()[2], begin, end),
            starts=starts,
            sizes=np.diff(starts),
            first=first,
            behind=behind,
            is_whole=_has_no_nulls(records, values, first, behind),
        )

    def of(self, records: Longs) -> Frames:
        """Return the frames of some of the records."""
        return replace(
            self,
            first=self.first[records],
            behind=self.behind[records],
            is_whole=self.is_whole[records],
        )

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
        from_end = np.arange(count + 1).reshape(-1, 1)
        frame = self.behind[records] - from_end
        bounds = self.starts[frame]
        starts = bounds[1:]
        ends = bounds[:-1]
        return starts, ends - starts

    def start(self, frame: Longs) -> Longs:
        """Return the places where frames begin."""
        return self.starts[frame]

    def size(self, frame: Longs) -> Longs:
        """Return the sizes of frames."""
        return self.sizes[frame]

    def bytes_of(self, first: Longs, behind: Longs) -> Longs:
        """Return the number of bytes from some frames to before others."""
        return self.starts[behind] - self.starts[first]

    def number(self, place: Longs, width: int) -> Longs:
        """Return the little-endian integers at some places, unsigned but for those of eight bytes."""
        integers = self._views[width]
        return integers[place].astype(np.int64, copy=False)

    @cached_property
    def _views(self) -> dict[int, npt.NDArray[np.integer]]:
        """The same memory as integers of each width, one from every place on."""
        count = len(self.data) - _WIDEST + 1
        views = {}
        for width, kind in _NUMBERS.items():
            views[width] = np.ndarray(
                shape=(count,),
                dtype=kind,
                buffer=self.data.data,
                strides=(1,),
            )
        return views

    def cut(self, start: Longs, size: Longs) -> pa.BinaryArray:
        """Return pieces of the bytes, none of which begins before the end of the one before it."""
        nonempty = np.flatnonzero(size)
        many = _MANY * len(size)
        if len(nonempty) > many:
            return self._cut(start, size)
        pieces = self._cut(start[nonempty], size[nonempty])
        _, _, content = pieces.buffers()
        bounds = np.zeros(len(size) + 1, np.int32)  # what is empty has no bytes to take
        np.cumsum(size, out=bounds[1:])
        return binary_array(content or pa.py_buffer(b""), bounds)

    def _cut(self, start: Longs, size: Longs) -> pa.BinaryArray:
        """Let Arrow copy the pieces: they are every other value of an array of pieces and the gaps between them."""
        doubled = 2 * len(start)
        end = start + size
        bounds = np.empty(doubled + 1, np.int32)
        bounds[0:-1:2] = start
        bounds[1::2] = end
        bounds[-1] = bounds[-2] if doubled else 0
        pieces_and_gaps = binary_array(self.buffer, bounds)
        pieces = np.arange(0, doubled, 2)
        return pieces_and_gaps.take(pa.array(pieces))


def binary_array(content: pa.Buffer, bounds: Longs | npt.NDArray[np.int32]) -> pa.BinaryArray:
    """Return the pieces of a buffer between neighbouring bounds, without a copy of it."""
    offsets = bounds.astype(np.int32, copy=False)
    buffers = [None, pa.py_buffer(offsets), content]
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)


def _offsets(array: pa.ListArray | pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return where each value of an array begins, and where the last one ends."""
    _, offset_buffer, *_ = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)
    begin = array.offset
    end = begin + len(array)
    return offsets[begin : end + 1]


def _readable_bytes(content: pa.Buffer | None, begin: int, end: int) -> npt.NDArray[np.uint8]:
    """Return some bytes of a buffer, and behind them as many as the widest number has, so that none ends outside."""
    size = end - begin
    all_bytes = np.frombuffer(content or b"", np.uint8)
    data = all_bytes[begin : end + _WIDEST]
    if len(data) >= size + _WIDEST:
        return data
    padding = np.zeros(_WIDEST, np.uint8)
    return np.concatenate([data[:size], padding])


def _has_no_nulls(
    records: pa.ListArray,
    values: pa.BinaryArray,
    first: Longs,
    behind: Longs,
) -> Flags:
    """Return which records are there with all their frames."""
    is_whole: Flags = np.ones(len(records), np.bool_)
    if records.null_count:
        is_whole &= records.is_valid().to_numpy(zero_copy_only=False)
    if values.null_count:
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        nulls_so_far = np.cumsum(is_null)
        nulls_before = np.concatenate([[0], nulls_so_far])
        is_whole &= nulls_before[behind] == nulls_before[first]
    return is_whole
