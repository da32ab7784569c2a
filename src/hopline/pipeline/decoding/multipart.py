"""FIRST, V4 and V5: every field a frame, counted from the end of the message."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hopline.pipeline.decoding.frames import Flags, Frames, Longs
from hopline.pipeline.decoding.header import LISTS, NAMES, NUMBERS, Headers, Listed, Slices
from hopline.wire.layout import Empty, Entries, Field, Layout, Type
from hopline.wire.reader import I64_MAX

_FORMAT = "version.wire_format"  # which has told the shape
_WORD_BITS = 16
_WORD = (1 << _WORD_BITS) - 1


class Multipart:
    """Some messages of one of these formats. `ok` tells which of them are plain so far."""

    def __init__(self, frames: Frames, rows: Longs, layout: Layout) -> None:
        self.frames = frames
        self.rows = rows
        self.layout = layout
        self.ok: Flags = np.ones(len(rows), np.bool_)
        self.numbers: dict[str, Longs] = {}

    def read(self, headers: Headers) -> dict[str, Listed]:
        """Put down what the fixed frames say; give the lists."""
        places, sizes = self.frames.last(self.rows, len(self.layout.fixed))
        for row in self.layout.fixed:
            place, size = places[row.position - 1], sizes[row.position - 1]
            if row.name in NAMES and not row.type.width:
                headers.names[row.name].put(self.rows, place, size)
            elif row.type.width and row.name != _FORMAT:
                self._read_number(row, place, size)
        for name, numbers in self.numbers.items():
            if name in NUMBERS:
                headers.numbers[name][self.rows] = numbers
        lists = {group.name: self._listed(group) for group in self.layout.entries}
        self._find_bodies(headers)
        headers.refuse(self.rows, ~self.ok)
        return lists

    def _read_number(self, row: Field, place: Longs, size: Longs) -> None:
        number = self.frames.number(place, row.type.width)
        if row.empty is Empty.NO_ENTRIES:
            number = np.where(size == 0, 0, number)
            self.ok &= (size == 0) | ((size == row.type.width) & (number <= _WORD))
        elif row.values is not None:
            self.ok &= size == row.type.width
            number = self._meaning(number, row.values)
        elif row.type is Type.I32:
            self.ok &= (size == row.type.width) & (number <= _WORD)
        elif row.type is Type.U16:
            self.ok &= size == row.type.width  # a wider version is text
        else:
            self.ok &= size >= row.type.width
        if row.scale != 1:
            longest = I64_MAX // row.scale
            self.ok &= (number >= -longest) & (number <= longest)
            number = np.where(self.ok, number, 0) * row.scale
        self.numbers |= words_of(row, number)

    def _meaning(self, number: Longs, values: Mapping[int, int]) -> Longs:
        """Return what numbers stand for; no others are allowed."""
        meaning, is_known = np.zeros_like(number), np.zeros(len(number), np.bool_)
        for wire, value in values.items():
            is_it = number == wire
            meaning[is_it] = value
            is_known |= is_it
        self.ok &= is_known
        return meaning

    def _listed(self, group: Entries) -> Listed:
        """Find the entries; they must be above the fixed frames, with as many frames for each as we write."""
        offset, count, divisor = self._descriptor(group)
        behind, first = self.frames.behind[self.rows], self.frames.first[self.rows]
        bottom = behind - offset  # the lowest frame of the last entry
        top = bottom - (count - 1) * group.divisor - (group.divisor - 1)
        fits = (divisor == group.divisor) & (offset > len(self.layout.fixed)) & (top >= first)
        self.ok &= (count == 0) | fits
        listed = Listed(LISTS[group.name], np.where(self.ok, count, 0))
        last = listed.counts - 1
        lowest = bottom[listed.message] - (last[listed.message] - listed.nth) * group.divisor
        for row in group.fields:
            frame = lowest - row.position
            start, size = self.frames.start(frame), self.frames.size(frame)
            if row.type is Type.U16:
                listed.version[:] = self.frames.number(start, row.type.width)
                self.ok[listed.message[size != row.type.width]] = False
                size = np.zeros_like(size)  # a number, not text
            listed.fields[row.name] = Slices(start, size)
        for name in set(LISTS[group.name]) - {row.name for row in group.fields}:  # nothing, but in its place
            listed.fields[name] = Slices.empty_at(self.frames.start(lowest))
        return listed

    def _descriptor(self, group: Entries) -> tuple[Longs, Longs, Longs]:
        offset, count = (self.numbers[f"{group.name}.{name}"] for name in ("offset", "count"))
        return offset, count, self.numbers.get(f"{group.name}.divisor", np.full(len(self.rows), group.divisor))

    def _find_bodies(self, headers: Headers) -> None:
        count = self.frames.counts[self.rows]
        if not self.layout.has_body_offset:
            headers.body[self.rows] = self.frames.behind[self.rows] - 1
            return
        fixed = len(self.layout.fixed)
        occupied = np.maximum.reduce([np.full(len(self.rows), fixed), *map(self._top, self.layout.entries)])
        self.ok &= find_bodies(headers, self.rows, self.frames.behind[self.rows], count, fixed, occupied)

    def _top(self, group: Entries) -> Longs:
        """Return how far up a list goes, as `hopline.wire.reader` does."""
        offset, count, divisor = self._descriptor(group)
        return np.where(count > 0, offset + count * divisor - 1, 0)


def words_of(row: Field, number: Longs) -> dict[str, Longs]:
    """Return the numbers of a row by their names: one, or the words that are packed in it."""
    if not row.words:
        return {row.name: number}
    return {word.name: number >> (nth * _WORD_BITS) & _WORD for nth, word in enumerate(row.words)}


def find_bodies(headers: Headers, rows: Longs, behind: Longs, count: Longs, fixed: int, occupied: Longs | int) -> Flags:
    """Put down where the body frames are, and tell where they are not among others: the offset is the top one's."""
    offset = headers.numbers["body.offset"][rows]
    bodies = np.maximum(headers.numbers["body.count"][rows], 1)
    bottom = offset - bodies + 1
    fits: Flags = (offset <= count) & (bottom > fixed) & ((bodies == 1) | (bottom > occupied))
    headers.body[rows] = np.where(fits, behind - offset, 0)
    headers.body_frames[rows] = np.where(fits, bodies, 0)
    return fits
