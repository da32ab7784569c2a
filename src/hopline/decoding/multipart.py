"""FIRST, V4 and V5: every field a frame, counted from the end of the message.

**Where things are.** A message ends with its fixed frames, at the same distance from the end in all messages of a
layout: position 1 is the last frame. Above them are the lists (routing, callbacks) and the body frames, at offsets from
the end that numbers in the fixed frames give; these numbers are frames of their own (FIRST) or words packed in one
(V4, V5). Any other frame, such as an envelope in front, is ignored:

    envelope… | lists and bodies, by their offsets | fixed frames, by their positions

**How they are read.** All messages of a layout at once, field by field: the places and sizes of one field in all
messages are two arrays. A name needs no more than that, a number is read, and a list has arrays of its own, with one
value for each entry of any message.

**What is plain.** `is_plain` starts with all messages and loses those in which something is not as we write it: a
size, a value, an offset, frames that overlap. Nothing is an error here, even if it surely is one: such messages are
left to the careful reader, which knows the rules for foreign writers and names what is wrong. They are still read to
the end, from whatever place their numbers give, because leaving them out would cost more; so every place that is
computed must lie within the frames, and their lists count as empty.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hopline.decoding.frames import Flags, Frames, Longs
from hopline.decoding.header import LISTS, NAMES, NUMBERS, Headers, Listed, Slices
from hopline.wire.layout import Empty, Entries, Field, Layout, Type
from hopline.wire.reader import I64_MAX

_FORMAT = "version.wire_format"  # already used to find the shape
_WORD_BITS = 16
_WORD = (1 << _WORD_BITS) - 1


class Multipart:
    """Some messages of one of these formats. `is_plain` has those that were plain so far."""

    def __init__(self, frames: Frames, rows: Longs, layout: Layout) -> None:
        self.frames = frames
        self.rows = rows
        self.layout = layout
        self.first = frames.first[rows]
        self.behind = frames.behind[rows]
        self.is_plain: Flags = np.ones(len(rows), np.bool_)
        self.numbers: dict[str, Longs] = {}

    def read(self, headers: Headers) -> dict[str, Listed]:
        """Fill in the headers of these messages, refuse those that are not plain, and return their lists."""
        self._read_fixed(headers)
        for name, numbers in self.numbers.items():
            if name in NUMBERS:
                all_numbers = headers.numbers[name]
                all_numbers[self.rows] = numbers
        lists: dict[str, Listed] = {}
        for group in self.layout.entries:
            lists[group.name] = self._listed(group)
        self._find_bodies(headers)
        self._find_extension(headers)
        headers.refuse(self.rows, ~self.is_plain)
        return lists

    def _read_fixed(self, headers: Headers) -> None:
        fixed = self.layout.fixed
        places, sizes = self.frames.last(self.rows, len(fixed))
        for row in fixed:
            nth = row.position - 1
            place = places[nth]
            size = sizes[nth]
            is_number = bool(row.type.width)
            if not is_number and row.name in NAMES:
                slices = headers.names[row.name]
                slices.put(self.rows, place, size)
            elif is_number and row.name != _FORMAT:
                self._read_number(row, place, size)

    def _read_number(self, row: Field, place: Longs, size: Longs) -> None:
        width = row.type.width
        number = self.frames.number(place, width)
        is_exact = size == width
        if row.empty is Empty.NO_ENTRIES:
            is_empty = size == 0
            number = np.where(is_empty, 0, number)
            is_word = is_exact & (number <= _WORD)
            self.is_plain &= is_empty | is_word
        elif row.values is not None:
            self.is_plain &= is_exact
            number = self._meaning(number, row.values)
        elif row.type is Type.I32:
            self.is_plain &= is_exact & (number <= _WORD)
        elif row.type is Type.U16:
            self.is_plain &= is_exact  # a wider version is text
        else:
            self.is_plain &= size >= width
        if row.scale != 1:
            number = self._scaled(number, row.scale)
        self.numbers |= words_of(row, number)

    def _scaled(self, number: Longs, scale: int) -> Longs:
        """Return multiples of numbers; only those that fit into 64 bits are plain."""
        largest = I64_MAX // scale
        is_low_enough = number <= largest
        is_high_enough = number >= -largest
        self.is_plain &= is_low_enough
        self.is_plain &= is_high_enough
        plain_number = np.where(self.is_plain, number, 0)
        return plain_number * scale

    def _meaning(self, number: Longs, values: Mapping[int, int]) -> Longs:
        """Return what numbers stand for; no others are allowed."""
        meaning = np.zeros_like(number)
        has_meaning = np.zeros(len(number), np.bool_)
        for wire, value in values.items():
            is_it = number == wire
            meaning[is_it] = value
            has_meaning |= is_it
        self.is_plain &= has_meaning
        return meaning

    def _listed(self, group: Entries) -> Listed:
        """Return the entries of a list; they must be above the fixed frames, with as many frames each as we write."""
        offset, count, divisor = self._descriptor(group)
        names = LISTS[group.name]
        fixed = len(self.layout.fixed)
        bottom = self.behind - offset  # the lowest frame of the last entry
        size = count * group.divisor
        top = bottom - size + 1
        is_above_fixed = offset > fixed
        is_inside = top >= self.first
        is_as_written = divisor == group.divisor
        fits = is_above_fixed & is_inside & is_as_written
        is_empty = count == 0
        self.is_plain &= fits | is_empty
        plain_count = np.where(self.is_plain, count, 0)
        listed = Listed(names, plain_count)
        message = listed.message
        counts = listed.counts[message]
        entries_behind = counts - 1 - listed.nth
        frames_behind = entries_behind * group.divisor
        lowest = bottom[message] - frames_behind  # frame of each entry
        absent = set(names)
        for row in group.fields:
            absent.discard(row.name)
            listed.fields[row.name] = self._entry_field(row, lowest, listed)
        for name in absent:  # nothing, but in its place
            start = self.frames.start(lowest)
            listed.fields[name] = Slices.empty_at(start)
        return listed

    def _entry_field(self, row: Field, lowest: Longs, listed: Listed) -> Slices:
        """Return where a field of the entries is; of a number, which is read at once, no bytes."""
        frame = lowest - row.position
        start = self.frames.start(frame)
        size = self.frames.size(frame)
        if row.type is not Type.U16:
            return Slices(start, size)
        width = row.type.width
        listed.version[:] = self.frames.number(start, width)
        is_text = size != width
        messages_with_text = listed.message[is_text]
        self.is_plain[messages_with_text] = False
        return Slices(start, np.zeros_like(size))

    def _descriptor(self, group: Entries) -> tuple[Longs, Longs, Longs]:
        """Return the descriptors of a list: the offset of its last entry, the entries, and frames per entry."""
        name = group.name
        numbers = self.numbers
        offset = numbers[f"{name}.offset"]
        count = numbers[f"{name}.count"]
        divisor = numbers.get(f"{name}.divisor")
        if divisor is None:
            divisor = np.full(len(self.rows), group.divisor)
        return offset, count, divisor

    def _find_bodies(self, headers: Headers) -> None:
        if not self.layout.has_body_offset:
            last_frame = self.behind - 1
            headers.body[self.rows] = last_frame
            return
        fixed = len(self.layout.fixed)
        occupied = np.full(len(self.rows), fixed)
        for group in self.layout.entries:
            occupied = np.maximum(occupied, self._top(group))
        self.is_plain &= find_bodies(
            headers,
            rows=self.rows,
            behind=self.behind,
            count=self.frames.counts[self.rows],
            fixed=fixed,
            occupied=occupied,
        )

    def _find_extension(self, headers: Headers) -> None:
        """Fill in Hopline's extension: the frame right above the fixed ones, where neither lists nor bodies have it."""
        row = self.layout.extension
        if row is None:
            return
        offset = headers.numbers["body.offset"][self.rows]
        bodies = headers.body_frames[self.rows]
        lowest = offset - bodies + 1
        for group in self.layout.entries:
            offset, count, _ = self._descriptor(group)
            is_lower = (count > 0) & (offset < lowest)
            lowest = np.where(is_lower, offset, lowest)
        has_extension = self.is_plain & (lowest > row.position)
        frame = (self.behind - row.position)[has_extension]
        start = self.frames.start(frame)
        size = self.frames.size(frame)
        headers.names["extension"].put(self.rows[has_extension], start, size)

    def _top(self, group: Entries) -> Longs:
        """Return how far up a list goes, as `hopline.wire.reader` does."""
        offset, count, divisor = self._descriptor(group)
        top = offset + count * divisor - 1
        return np.where(count > 0, top, 0)


def words_of(row: Field, number: Longs) -> dict[str, Longs]:
    """Return the numbers of a row by their names: one, or the words that are packed in it."""
    if not row.words:
        return {row.name: number}
    words = {}
    for nth, word in enumerate(row.words):
        bits = nth * _WORD_BITS
        shifted = number >> bits
        words[word.name] = shifted & _WORD
    return words


def find_bodies(
    headers: Headers,
    rows: Longs,
    behind: Longs,
    count: Longs,
    fixed: int,
    occupied: Longs | int,
) -> Flags:
    """Fill in where the body frames of some messages are, and return in which they are not among other frames.

    Args:
        headers: Where to fill it in; the offset of the topmost body, and the number of bodies, are in there.
        rows: The messages.
        behind: The frame behind the last one of each.
        count: The number of frames of each.
        fixed: The number of frames at the end that no body may be among.
        occupied: The number of frames at the end that other fields take; a single body may be among lists.
    """
    numbers = headers.numbers
    offset = numbers["body.offset"][rows]
    body_count = numbers["body.count"][rows]
    bodies = np.maximum(body_count, 1)
    bottom = offset - bodies + 1
    is_inside = offset <= count
    is_above_fixed = bottom > fixed
    is_single = bodies == 1
    is_above_all = bottom > occupied
    is_clear = is_single | is_above_all
    fits: Flags = is_inside & is_above_fixed & is_clear
    first_body = behind - offset
    headers.body[rows] = np.where(fits, first_body, 0)
    headers.body_frames[rows] = np.where(fits, bodies, 0)
    return fits
