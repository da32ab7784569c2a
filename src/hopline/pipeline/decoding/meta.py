"""V6: one meta frame, in which each size says where the next thing begins."""

from __future__ import annotations

import numpy as np

from hopline.pipeline.decoding.frames import Flags, Frames, Longs
from hopline.pipeline.decoding.header import LISTS, NUMBERS, Headers, Listed
from hopline.pipeline.decoding.multipart import find_bodies, words_of
from hopline.wire.layout import Entries
from hopline.wire.layouts import V6
from hopline.wire.unusual import MOST_USUAL_ENTRIES

_SIZE = 4  # bytes of the integer in front of whatever varies


def read_meta(frames: Frames, rows: Longs, headers: Headers) -> dict[str, Listed]:
    """Put down what the meta frames of some messages say; give the lists."""
    behind = frames.behind[rows]
    start = frames.start(behind - 1)
    walk = _Walk(frames, start, start + frames.size(behind - 1), np.ones(len(rows), np.bool_))
    numbers: dict[str, Longs] = {}
    lists: dict[str, Listed] = {}
    for row in V6.meta:
        if isinstance(row, Entries):
            lists[row.name] = walk.entries(row, numbers[f"{row.name}.count"])
        elif row.type.width:
            numbers |= words_of(row, walk.number(row.type.width))
        else:
            headers.names[row.name].put(rows, *walk.piece())
    for name in NUMBERS:
        headers.numbers[name][rows] = numbers[name]
    is_found = find_bodies(headers, rows, behind, frames.counts[rows], 0, len(V6.fixed))
    headers.refuse(rows, ~(walk.ok & is_found))  # what stands behind the last field is no part of any table
    return lists


class _Walk:
    """A place in each of some pieces of memory, where all was plain so far: what is read moves it on."""

    def __init__(self, frames: Frames, at: Longs, end: Longs, ok: Flags) -> None:
        self.frames = frames
        self.at = at
        self.end = end
        self.ok = ok

    @property
    def is_at_end(self) -> Flags:
        """Return the rows of which nothing is left."""
        is_at_end: Flags = self.at == self.end
        return is_at_end

    def number(self, width: int) -> Longs:
        """Read an integer."""
        return self.frames.number(self._step(width), width)

    def piece(self) -> tuple[Longs, Longs]:
        """Read a size, and find so many bytes behind it: give where they begin, and how many there are."""
        size = self.number(_SIZE)
        start = self._step(size)
        return start, np.where(self.ok, size, 0)

    def entries(self, group: Entries, count: Longs) -> Listed:
        """Read lists, one entry after the other, of all messages at once.

        What a newer writer put behind the last field of an entry is not plain.
        """
        self.ok = self.ok & (count <= MOST_USUAL_ENTRIES)
        listed = Listed(LISTS[group.name], np.where(self.ok, count, 0))
        for nth in range(int(listed.counts.max(initial=0))):
            messages = np.flatnonzero(listed.counts > nth)
            entry = self._entry_of(messages)
            for row in group.fields:
                entries = listed.begins[messages] + nth
                if row.type.width:
                    listed.fields[row.name].put(entries, entry.at, 0)
                    listed.version[entries] = entry.number(row.type.width)
                else:
                    listed.fields[row.name].put(entries, *entry.piece())
            self.ok[messages] = entry.ok & entry.is_at_end
            self.at[messages] = entry.at
        return listed

    def _entry_of(self, messages: Longs) -> _Walk:
        entry = _Walk(self.frames, self.at[messages], self.end[messages], self.ok[messages])
        start, size = entry.piece()
        return _Walk(self.frames, start, start + size, entry.ok)

    def _step(self, size: Longs | int) -> Longs:
        place, end = self.at, self.at + size
        self.ok = self.ok & (end <= self.end)
        self.at = np.where(self.ok, end, place)
        return place
