"""Which of the canonical layouts a record's frames plainly have: `hopline.wire.detection` where there is no doubt."""

from __future__ import annotations

from enum import IntEnum

from pyspark.sql import Column
from pyspark.sql import functions as sf

from hopline.pipeline.decoding.integers import part
from hopline.wire import DEFAULT_LIMITS
from hopline.wire.detection import FIRST_FRAMES, V6_META_SIZE
from hopline.wire.layout import WORDS, Layout
from hopline.wire.layouts import FIRST, V4, V5, V5_INT32, V6


class Shape(IntEnum):
    """A layout that the expressions read."""

    FIRST = 1
    V4 = 4
    V5 = 5
    V6 = 6


LAYOUTS: dict[Shape, Layout] = {Shape.FIRST: FIRST, Shape.V4: V4, Shape.V5: V5, Shape.V6: V6}

_MULTIPART_FRAMES = len(V5.fixed) + 1
_V4_NUMBERS = (V4.number, V4.number[:2], V5_INT32.number)  # the last differs in its number only


def shape(frames: Column, last: Column, second_last: Column) -> Column:
    """Tell the shape by the number of frames and the last two; null where it takes a closer look."""
    is_meta = part(last, 0, len(V6.number)) == sf.lit(V6.number)
    has_descriptor = (frames >= _MULTIPART_FRAMES) & (sf.octet_length(second_last) >= WORDS.size)
    is_empty = sf.octet_length(second_last) == 0
    return sf.when(
        frames <= DEFAULT_LIMITS.usual_frames,
        sf.when(has_descriptor & (last == sf.lit(V5.number)), sf.lit(int(Shape.V5)))
        .when(has_descriptor & last.isin(*map(sf.lit, _V4_NUMBERS)), sf.lit(int(Shape.V4)))
        .when(
            is_meta & (sf.octet_length(last) >= V6_META_SIZE) & (~is_empty | (frames < FIRST_FRAMES)),
            sf.lit(int(Shape.V6)),
        )
        .when(is_empty & (frames >= FIRST_FRAMES) & ~is_meta, sf.lit(int(Shape.FIRST))),
    )


def name_of(code: Column) -> Column:
    """Give the name of the format."""
    names = sf.when(code == int(Shape.FIRST), Shape.FIRST.name)
    for one in (Shape.V4, Shape.V5, Shape.V6):
        names = names.when(code == int(one), one.name)
    return names
