"""The meta frame of V6 in column expressions: each length says where the next thing starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as sf

from hopline.pipeline.decoding.integers import byte, part, small
from hopline.pipeline.decoding.values import let
from hopline.wire.layout import Entries, Field
from hopline.wire.layouts import V6
from hopline.wire.shapes import sections
from hopline.wire.unusual import MOST_USUAL_ENTRIES

STARTS = "array<struct<at: int, size: int>>"

_LENGTH = 4  # bytes of the integer in front of whatever varies
_SECTIONS = sections(V6)


class _Run:
    """Neighbouring fields. Their `ends` are an array: where the run starts, and where each field that varies ends."""

    def __init__(self, rows: Sequence[Field]) -> None:
        self.gaps: list[int] = []
        self.places: dict[str, tuple[int, int]] = {}  # behind which end, and how far
        gap = 0
        for row in rows:
            self.places[row.name] = len(self.gaps), gap
            if row.type.width:
                gap += row.type.width
            else:
                self.gaps.append(gap)
                gap = 0
        self.rows = {row.name: row for row in rows}
        self.rest = gap

    def ends(self, frame: Column, start: Column) -> Column:
        def step(ends: Column, gap: Column) -> Column:
            at = sf.element_at(ends, -1) + gap
            return sf.array_append(ends, at + _LENGTH + small(frame, at))

        return sf.aggregate(sf.array(*map(sf.lit, self.gaps)), sf.array(start), step)

    def end(self, ends: Column) -> Column:
        return ends[len(self.gaps)] + self.rest

    def raw(self, frame: Column, ends: Column) -> dict[str, Column]:
        """Give the bytes of each field by its name."""
        found = {}
        for name, (nth, gap) in self.places.items():
            start, width = ends[nth] + gap, self.rows[name].type.width
            if width:
                found[name] = part(frame, start, width)
            else:
                found[name] = part(frame, start + _LENGTH, ends[nth + 1] - start - _LENGTH)
        return found


_HEAD, _TAIL = _Run(_SECTIONS.head), _Run(_SECTIONS.tail)


def in_meta(frame: Column, then: Callable[[dict[str, Column], dict[str, Column], Column], Column]) -> Column:
    """Make something of the bytes of every field, the starts of the entries, and whether the frame ends where they do.

    All are null from the first length on that is 256 or more, or that leads beyond the end of the frame.
    """
    starts: dict[str, Column] = {}

    def behind_head(head: Column) -> Column:
        raw = _HEAD.raw(frame, head)
        return walk(_SECTIONS.entries, raw, _HEAD.end(head))

    def walk(rows: Sequence[Field | Entries], raw: dict[str, Column], at: Column) -> Column:
        if not rows:
            return let(_TAIL.ends(frame, at), lambda tail: behind_tail(raw, tail))
        row, *others = rows
        if isinstance(row, Field):
            return walk(others, {**raw, row.name: part(frame, at, row.type.width)}, at + row.type.width)

        def behind_entries(walked: Column) -> Column:
            starts[row.name] = walked["starts"]
            return walk(others, raw, walked["at"])

        return let(_walked(frame, _count(row, raw), at), behind_entries)

    def behind_tail(raw: dict[str, Column], tail: Column) -> Column:
        return then({**raw, **_TAIL.raw(frame, tail)}, starts, _TAIL.end(tail) == sf.octet_length(frame))

    return let(_HEAD.ends(frame, sf.lit(0)), behind_head)


def _count(entries: Entries, raw: dict[str, Column]) -> Column:
    """Read how many entries there are: from a field of its own, or from a word of a packed one."""
    name = f"{entries.name}.count"
    if name in raw:
        count = raw[name]
    else:
        rows = (row for row in _SECTIONS.head if name in _words(row))
        count = next(part(raw[row.name], 2 * _words(row).index(name), 2) for row in rows)
    return sf.when(part(count, 1, 1) == sf.lit(b"\0"), byte(count, 0))


def _words(row: Field) -> list[str]:
    return [word.name for word in row.words]


def _walked(frame: Column, count: Column, at: Column) -> Column:
    """Find where each entry starts and how large it is, and where the last one ends."""
    nothing = sf.struct(at.alias("at"), sf.array().cast(STARTS).alias("starts"))

    def step(walked: Column, _: Column) -> Column:
        size = small(frame, walked["at"])
        starts = sf.array_append(walked["starts"], sf.struct(walked["at"].alias("at"), size.alias("size")))
        return sf.struct((walked["at"] + _LENGTH + size).alias("at"), starts.alias("starts"))

    return let(
        count,
        lambda count: sf.when(count == 0, nothing).when(
            count <= MOST_USUAL_ENTRIES, sf.aggregate(sf.sequence(sf.lit(1), count), nothing, step)
        ),
    )


def cut(frame: Column, entries: Entries, starts: Column, made: Callable[[dict[str, Column]], Column]) -> Column:
    """Make something of the bytes of each entry's fields; null where its sizes do not add up.

    An entry begins and ends with a field that varies. What a newer writer put behind the last is not plain.
    """
    first, *fixed, last = entries.fields

    def cut_one(start: Column) -> Column:
        return let(small(frame, start["at"] + _LENGTH), lambda size: with_first_size(start, size))

    def with_first_size(start: Column, size: Column) -> Column:
        at = start["at"] + 2 * _LENGTH
        raw = {first.name: part(frame, at, size)}
        at = at + size
        for row in fixed:
            raw[row.name] = part(frame, at, row.type.width)
            at = at + row.type.width
        left = start["size"] - (2 * _LENGTH + _width(fixed)) - size
        raw[last.name] = part(frame, at + _LENGTH, left)
        return sf.when(small(frame, at) == left, made(raw))

    return sf.transform(starts, cut_one)


def _width(rows: Iterable[Field]) -> int:
    return sum(row.type.width for row in rows)
