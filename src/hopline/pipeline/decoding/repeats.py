"""Records of the same frames. A node that takes a message in, delivers and handles it records its frames each time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from hopline.pipeline.decoding.frames import Flags, Frames, Longs

_SIZE = np.dtype(np.int32)


class Repeats:
    """The `distinct` records, each the first one of its frames, and for each record `which` of them is like it.

    `contents` are the frames of each record as one piece, `outlines` the sizes of them.
    """

    def __init__(self, frames: Frames) -> None:
        bounds = np.append(frames.first, frames.behind[-1:])
        self.contents = _pieces(frames.buffer, frames.starts[bounds]).dictionary_encode()
        sizes = pa.py_buffer(frames.sizes.astype(_SIZE))
        self.outlines = _pieces(sizes, bounds * _SIZE.itemsize).dictionary_encode()
        content, outline = self.contents.indices.to_numpy(), self.outlines.indices.to_numpy()
        is_new: Flags = np.diff(np.maximum.accumulate(content), prepend=-1) > 0  # what is seen first is numbered first
        first = np.flatnonzero(is_new)[content]
        is_new |= (outline != outline[first]) | (frames.is_whole != frames.is_whole[first])
        number = np.cumsum(is_new) - 1
        self.distinct: Longs = np.flatnonzero(is_new)
        self.which: Longs = np.where(is_new, number, number[first])

    @property
    def sizes(self) -> tuple[Longs, Longs]:
        """The sizes in each different outline, all of them behind each other, and where each outline begins."""
        _, bounds, sizes = self.outlines.dictionary.buffers()
        begins = np.frombuffer(bounds, np.int32)[: len(self.outlines.dictionary) + 1].astype(np.int64)
        return begins // _SIZE.itemsize, np.frombuffer(sizes or b"", _SIZE).astype(np.int64)

    def spread(self, columns: Mapping[str, pa.Array], of: Flags) -> dict[str, pa.Array]:
        """Return columns of some distinct records, repeated for all records that are equal to them."""
        nth = (np.cumsum(of) - 1)[self.which[of[self.which]]]
        if len(nth) == of.sum():  # nothing is there twice
            return dict(columns)
        rows = pa.array(nth)
        return {name: column.take(rows) for name, column in columns.items()}


def _pieces(buffer: pa.Buffer, bounds: Longs) -> pa.BinaryArray:
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds.astype(np.int32)), buffer])
