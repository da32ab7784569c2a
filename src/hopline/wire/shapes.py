"""The meta frame of V6, cut up in one go.

All that varies in it has its size in front. Messages of one kind have the same sizes, so the struct that has cut up one cuts
up the next: the sizes are compared, and measured again when they differ. The routing and callback entries, which have a
reader of their own, stay in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple

from hopline.wire.layout import Entries, Field, Layout, Type

MOST_SHAPES = 1_024  # remembered by the length of the whole frame; beyond that, every new one is measured

_CODES = {Type.U16: "H", Type.I64: "q", Type.WORDS: "4H"}
_NUMBERS = {kind: Struct(f"<{code}").unpack_from for kind, code in _CODES.items()}
_size = Struct("<I").unpack_from

Values = tuple[Any, ...]
Cut = Callable[[bytes], Values]


class _Shape(NamedTuple):
    head_sizes: tuple[int, ...]
    cut_head: Cut
    sizes: tuple[int, ...]
    cut: Cut


class Sections(NamedTuple):
    """The rows of a meta frame: up to the first entries, from these to the last, and behind them."""

    head: tuple[Field, ...]
    entries: tuple[Field | Entries, ...]
    tail: tuple[Field, ...]


def sections(layout: Layout) -> Sections:
    """Divide the rows of a meta frame."""
    head = _fields(layout.meta)
    tail = _fields(reversed(layout.meta))[::-1]
    return Sections(head, layout.meta[len(head) : len(layout.meta) - len(tail)], tail)


def _fields(rows: Iterable[Field | Entries]) -> tuple[Field, ...]:
    return tuple(row for row in takewhile(lambda row: isinstance(row, Field), rows) if isinstance(row, Field))


def cutters(layout: Layout) -> tuple[Cut, Cut]:
    """Make the functions that give the values of the head, and of the whole frame: each size before its bytes.

    In the whole, the entries are one value between head and tail.
    """
    parts = sections(layout)
    head_sizes_of = itemgetter(*_size_positions(parts.head, 0))
    tail_start = sum(len(row.words) or 1 + (not row.type.width) for row in parts.head) + 1
    sizes_of = itemgetter(*_size_positions(parts.head, 0), *_size_positions(parts.tail, tail_start))
    shapes: dict[int, _Shape] = {}

    def measured(meta: bytes) -> _Shape:
        numbers: dict[str, int] = {}
        head, at = _measure_fields(parts.head, meta, 0, numbers)
        end = at
        for row in parts.entries:
            if isinstance(row, Field):
                _, end = _measure_fields((row,), meta, end, numbers)
            else:
                for _ in range(numbers[f"{row.name}.count"]):
                    end += 4 + _size(meta, end)[0]
        tail, _ = _measure_fields(parts.tail, meta, end, numbers)
        cut_head, cut = Struct(f"<{head}").unpack_from, Struct(f"<{head}{end - at}s{tail}").unpack_from
        shape = _Shape(head_sizes_of(cut_head(meta)), cut_head, sizes_of(cut(meta)), cut)
        if len(shapes) < MOST_SHAPES:
            shapes.setdefault(len(meta), shape)
        return shape

    def cut_head(meta: bytes) -> Values:
        shape = shapes.get(len(meta))
        if shape is not None:
            values = shape[1](meta)
            if head_sizes_of(values) == shape[0]:
                return values
        return measured(meta).cut_head(meta)

    def cut(meta: bytes) -> Values:
        shape = shapes.get(len(meta))
        if shape is not None:
            values = shape[3](meta)
            if sizes_of(values) == shape[2]:
                return values
        return measured(meta).cut(meta)

    return cut_head, cut


def _measure_fields(rows: tuple[Field, ...], meta: bytes, at: int, numbers: dict[str, int]) -> tuple[str, int]:
    """Give the struct code of some rows and where they end, noting the numbers on the way."""
    code = ""
    for row in rows:
        width = row.type.width
        if width:
            names = [word.name for word in row.words] or [row.name]
            numbers.update(zip(names, _NUMBERS[row.type](meta, at), strict=True))
            code += _CODES[row.type]
        else:
            (width,) = _size(meta, at)
            code += f"I{width}s"
            at += 4
        at += width
    return code, at


def _size_positions(rows: tuple[Field, ...], at: int) -> list[int]:
    positions = []
    for row in rows:
        if row.type.width:
            at += len(row.words) or 1
        else:
            positions.append(at)
            at += 2
    return positions
