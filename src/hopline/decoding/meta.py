"""V6: one meta frame, in which every field of variable size is preceded by its size.

So a field can only be found after all fields before it have been read. A `_Walk` does this for all messages at once: it
has one position in each of them, and reading a field advances all positions. Where a size goes beyond the end, the
message is not plain, its position stays, and it is left to the careful reader, which names the fault.
"""

from __future__ import annotations

import numpy as np

from hopline.decoding.frames import Flags, Frames, Longs
from hopline.decoding.header import LISTS, NUMBERS, Headers, Listed
from hopline.decoding.multipart import find_bodies, words_of
from hopline.wire.fast_path import MOST_USUAL_ENTRIES
from hopline.wire.layout import Entries
from hopline.wire.layouts import V6

_SIZE = 4  # bytes of the integer in front of whatever varies


def read_meta(frames: Frames, rows: Longs, headers: Headers) -> dict[str, Listed]:
    """Fill in the headers of some messages, refuse those that are not plain, and return their lists."""
    behind = frames.behind[rows]
    meta_frame = behind - 1
    start = frames.start(meta_frame)
    end = start + frames.size(meta_frame)
    is_plain = np.ones(len(rows), np.bool_)
    walk = _Walk(frames, start, end, is_plain)
    numbers: dict[str, Longs] = {}
    lists: dict[str, Listed] = {}
    for row in V6.meta:
        if isinstance(row, Entries):
            count = numbers[f"{row.name}.count"]
            lists[row.name] = walk.entries(row, count)
        elif row.type.width:
            number = walk.number(row.type.width)
            numbers |= words_of(row, number)
        else:
            start, size = walk.piece()
            slices = headers.names[row.name]
            slices.put(rows, start, size)
    for name in NUMBERS:
        headers.numbers[name][rows] = numbers[name]
    has_bodies = find_bodies(
        headers,
        rows=rows,
        behind=behind,
        count=frames.counts[rows],
        fixed=0,
        occupied=len(V6.fixed),
    )
    # Hopline's extension is whatever stands behind the last field.
    headers.names["extension"].put(rows, walk.at, np.where(walk.is_plain, end - walk.at, 0))
    is_plain = walk.is_plain & has_bodies
    headers.refuse(rows, ~is_plain)
    return lists


class _Walk:
    """A position in each of some ranges of memory, which reading advances as long as everything is plain."""

    def __init__(self, frames: Frames, at: Longs, end: Longs, is_plain: Flags) -> None:
        self.frames = frames
        self.at = at
        self.end = end
        self.is_plain = is_plain

    @property
    def is_at_end(self) -> Flags:
        """Return the rows of which nothing is left."""
        is_at_end: Flags = self.at == self.end
        return is_at_end

    def number(self, width: int) -> Longs:
        """Read an integer."""
        place = self._step(width)
        return self.frames.number(place, width)

    def piece(self) -> tuple[Longs, Longs]:
        """Read a size and as many bytes behind it: return where they begin, and how many there are."""
        size = self.number(_SIZE)
        start = self._step(size)
        return start, np.where(self.is_plain, size, 0)

    def entries(self, group: Entries, count: Longs) -> Listed:
        """Read lists: the first entry of all messages, then the second of those that have one, and so on.

        What a newer writer put behind the last field of an entry is not plain.
        """
        self.is_plain = self.is_plain & (count <= MOST_USUAL_ENTRIES)
        plain_count = np.where(self.is_plain, count, 0)
        listed = Listed(LISTS[group.name], plain_count)
        most = int(listed.counts.max(initial=0))
        for nth in range(most):
            messages = np.flatnonzero(listed.counts > nth)
            entries = listed.begins[messages] + nth
            self._read_entry(group, messages, listed, entries)
        return listed

    def _read_entry(self, group: Entries, messages: Longs, listed: Listed, entries: Longs) -> None:
        entry = self._entry_of(messages)
        for row in group.fields:
            slices = listed.fields[row.name]
            if row.type.width:
                slices.put(entries, entry.at, 0)
                listed.version[entries] = entry.number(row.type.width)
            else:
                start, size = entry.piece()
                slices.put(entries, start, size)
        self.is_plain[messages] = entry.is_plain & entry.is_at_end
        self.at[messages] = entry.at

    def _entry_of(self, messages: Longs) -> _Walk:
        """Return a walk through the next entries of some messages; an entry is a piece, with pieces in it."""
        walk = _Walk(
            self.frames,
            self.at[messages],
            self.end[messages],
            self.is_plain[messages],
        )
        start, size = walk.piece()
        end = start + size
        return _Walk(self.frames, start, end, walk.is_plain)

    def _step(self, size: Longs | int) -> Longs:
        """Move on by some bytes where there are as many, and return the places before."""
        place = self.at
        end = place + size
        self.is_plain = self.is_plain & (end <= self.end)
        self.at = np.where(self.is_plain, end, place)
        return place
