"""Which of the canonical layouts records plainly have: `hopline.wire.detection` where there is no doubt."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np

from hopline.decoding.frames import Flags, Frames, Longs
from hopline.wire import DEFAULT_LIMITS
from hopline.wire.detection import FIRST_FRAMES, V6_META_SIZE
from hopline.wire.layout import WORDS, Layout
from hopline.wire.layouts import FIRST, V4, V5, V5_INT32, V6


class Shape(IntEnum):
    """A layout that is read for many records at once; `UNUSUAL` is for a closer look."""

    UNUSUAL = 0
    FIRST = 1
    V4 = 4
    V5 = 5
    V6 = 6
    V5_INT32 = 7


LAYOUTS: dict[tuple[Shape, ...], Layout] = {
    (Shape.FIRST,): FIRST,
    (Shape.V4, Shape.V5_INT32, Shape.V5): V5,
    (Shape.V6,): V6,
}
"""How the shapes are read. V4 has the frames of V5; what its URIs must be is looked at when the texts are."""

WITH_URIS = (Shape.FIRST, Shape.V4, Shape.V5_INT32)  # whose writers held a router's address as a URI

_MULTIPART_FRAMES = len(V5.fixed) + 1
_V4_NUMBERS = (V4.number, V4.number[:2])
_LONGEST_NUMBER = max(map(len, (*_V4_NUMBERS, V5_INT32.number)))


def is_one_of(shape: Longs, alike: Iterable[Shape]) -> Flags:
    """Return which records have one of some shapes."""
    are_equal = [shape == other for other in alike]
    is_one: Flags = np.logical_or.reduce(are_equal)
    return is_one


def shapes(frames: Frames) -> Longs:
    """Return the shape of each record, by the number of its frames and the last two of them."""
    counts = frames.counts
    is_long_enough = counts >= 2
    is_short_enough = counts <= DEFAULT_LIMITS.usual_frames
    is_usual = frames.is_whole & is_long_enough & is_short_enough
    if not is_usual.any():
        return np.zeros(len(frames), np.int64)
    last = np.where(is_usual, frames.behind - 1, 0)
    second_last = np.where(is_usual, frames.behind - 2, 0)
    size = frames.size(last)
    size_before = frames.size(second_last)
    begin = frames.number(frames.start(last), _LONGEST_NUMBER)

    def begins_with(number: bytes) -> Flags:
        expected = int.from_bytes(number, "little")
        bits = 8 * len(number)
        mask = (1 << bits) - 1
        has_size = size >= len(number)
        is_same = begin & mask == expected
        begins: Flags = has_size & is_same
        return begins

    def is_number(number: bytes) -> Flags:
        is_it: Flags = begins_with(number) & (size == len(number))
        return is_it

    has_descriptor = (counts >= _MULTIPART_FRAMES) & (size_before >= WORDS.size)
    are_v4 = [is_number(number) for number in _V4_NUMBERS]
    is_v4 = np.logical_or.reduce(are_v4)
    is_meta = begins_with(V6.number)
    is_empty = size_before == 0
    may_be_first = is_empty & (counts >= FIRST_FRAMES)
    has_meta_size = size >= V6_META_SIZE
    conditions = {
        Shape.UNUSUAL: ~is_usual,
        Shape.V5: has_descriptor & is_number(V5.number),
        Shape.V4: has_descriptor & is_v4,
        Shape.V5_INT32: has_descriptor & is_number(V5_INT32.number),
        Shape.V6: is_meta & has_meta_size & ~may_be_first,
        Shape.FIRST: may_be_first & ~is_meta,
    }
    shape: Longs = np.select(
        list(conditions.values()),
        list(conditions),
        default=Shape.UNUSUAL,
    )
    return shape
