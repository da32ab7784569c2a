"""Records with the same frames: a node that receives, delivers and handles a message records its frames each time.

They are decoded once. Records are alike if their bytes are, and the sizes of their frames (the same bytes may be
cut into other frames), and if frames are missing in all of them or in none (a missing frame has the size of an empty
one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from hopline.decoding.frames import Flags, Frames, Longs, binary_array

_SIZE = np.dtype(np.int32)

Columns: TypeAlias = dict[str, pa.Array]
"""Columns of a table, by name."""


@dataclass(frozen=True, eq=False)
class Repeats:
    """The distinct records among some, and which of them each record is equal to."""

    contents: pa.DictionaryArray  # the frames of each record as one piece
    outlines: pa.DictionaryArray  # the sizes of the frames of each record
    distinct: Longs  # the first record of each kind
    which: Longs  # for each record, the index in `distinct` of the one that is equal to it

    @classmethod
    def of(cls, frames: Frames) -> Repeats:
        """Compare records with each other."""
        contents, outlines = _encoded(frames)
        content = contents.indices.to_numpy()
        outline = outlines.indices.to_numpy()
        # A dictionary numbers its values as it meets them: a number above all before it is that of a new value.
        highest_so_far = np.maximum.accumulate(content)
        increase = np.diff(highest_so_far, prepend=-1)
        has_new_content: Flags = increase > 0
        first_of_content = np.flatnonzero(has_new_content)
        first = first_of_content[content]
        is_whole = frames.is_whole
        has_other_outline = outline != outline[first]
        has_other_nulls = is_whole != is_whole[first]
        is_distinct = has_new_content | has_other_outline | has_other_nulls
        number = np.cumsum(is_distinct) - 1
        number_of_first = number[first]
        return cls(
            contents=contents,
            outlines=outlines,
            distinct=np.flatnonzero(is_distinct),
            which=np.where(is_distinct, number, number_of_first),
        )

    @property
    def sizes(self) -> tuple[Longs, Longs]:
        """Return where each different outline begins (and the last ends), and the sizes in all of them together."""
        outlines = self.outlines.dictionary
        _, offsets, sizes = outlines.buffers()
        count = len(outlines) + 1
        bounds = np.frombuffer(offsets, np.int32, count)
        byte_begins = bounds.astype(np.int64)
        begins = byte_begins // _SIZE.itemsize
        all_sizes = np.frombuffer(sizes or b"", _SIZE)
        return begins, all_sizes.astype(np.int64)

    def spread(self, columns: Columns, of: Flags) -> Columns:
        """Return columns of some distinct records, repeated for all records that are equal to them.

        Args:
            columns: Values, one for each of these distinct records.
            of: Which of the distinct records they are of.
        """
        which = self.which
        number = np.cumsum(of) - 1
        is_covered = of[which]
        covered = which[is_covered]
        rows = number[covered]
        if len(rows) == of.sum():  # no record occurs twice
            return columns
        indices = pa.array(rows)
        return {name: column.take(indices) for name, column in columns.items()}


def _encoded(frames: Frames) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
    """Return the contents and the outlines of all records."""
    end = frames.behind[-1:]
    bounds = np.append(frames.first, end)
    content_bounds = frames.starts[bounds]
    contents = binary_array(frames.buffer, content_bounds)
    sizes = frames.sizes.astype(_SIZE)
    outline_bounds = bounds * _SIZE.itemsize
    outlines = binary_array(pa.py_buffer(sizes), outline_bounds)
    return contents.dictionary_encode(), outlines.dictionary_encode()
