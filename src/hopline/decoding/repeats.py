"""Records with the same frames: a node that receives, delivers and handles a message records its frames each time.

They are decoded once. Records are alike if their bytes are, and the sizes of their frames (the same bytes may be
cut into other frames), and if frames are missing in all of them or in none (a missing frame has the size of an empty
one).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from hopline.decoding.frames import Flags, Frames, Longs, binary_array

_SIZE = np.dtype(np.int32)

Columns: TypeAlias = dict[str, pa.Array]
"""Columns of a table, by name."""


class Repeats:
    """The `distinct` records, each the first one of its frames, and for each record `which` of them is like it.

    `contents` are the frames of each record as one piece, `outlines` the sizes of them.
    """

    def __init__(self, frames: Frames) -> None:
        end = frames.behind[-1:]
        bounds = np.append(frames.first, end)
        sizes = pa.py_buffer(frames.sizes.astype(_SIZE))
        contents = binary_array(frames.buffer, frames.starts[bounds])
        outlines = binary_array(sizes, bounds * _SIZE.itemsize)
        self.contents = contents.dictionary_encode()
        self.outlines = outlines.dictionary_encode()
        content = self.contents.indices.to_numpy()
        outline = self.outlines.indices.to_numpy()
        # A dictionary numbers its values as it meets them: a number above all before it is that of a new value.
        highest_so_far = np.maximum.accumulate(content)
        has_new_content: Flags = np.diff(highest_so_far, prepend=-1) > 0
        first_of_content = np.flatnonzero(has_new_content)
        first = first_of_content[content]
        has_other_outline = outline != outline[first]
        has_other_nulls = frames.is_whole != frames.is_whole[first]
        is_distinct = has_new_content | has_other_outline | has_other_nulls
        number = np.cumsum(is_distinct) - 1
        number_of_first = number[first]
        self.distinct: Longs = np.flatnonzero(is_distinct)
        self.which: Longs = np.where(is_distinct, number, number_of_first)

    @property
    def sizes(self) -> tuple[Longs, Longs]:
        """Return where each different outline begins (and the last ends), and the sizes in all of them together."""
        outlines = self.outlines.dictionary
        _, offsets, sizes = outlines.buffers()
        count = len(outlines) + 1
        bounds = np.frombuffer(offsets, np.int32, count)
        begins = bounds.astype(np.int64) // _SIZE.itemsize
        all_sizes = np.frombuffer(sizes or b"", _SIZE)
        return begins, all_sizes.astype(np.int64)

    def spread(self, columns: Columns, of: Flags) -> Columns:
        """Return columns of some distinct records, repeated for all records that are equal to them.

        Args:
            columns: Values, one for each of these distinct records.
            of: Which of the distinct records they are of.
        """
        number = np.cumsum(of) - 1
        is_like_one_of_them = of[self.which]
        like = self.which[is_like_one_of_them]
        rows = number[like]
        if len(rows) == of.sum():  # no record occurs twice
            return columns
        indices = pa.array(rows)
        return {name: column.take(indices) for name, column in columns.items()}
