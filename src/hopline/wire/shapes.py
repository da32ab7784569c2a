"""The meta frame of V6, cut up in one go.

All that varies in it has its size in front. Messages of one kind have the same sizes, so the struct that has cut up one
cuts up the next: the sizes are compared, and measured again when they differ. The routing and callback entries, which
have a reader of their own, stay in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
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


class Shape(NamedTuple):
    """What was measured once: the sizes, and the structs that cut frames with these sizes."""

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


SIZE = ""  # stands for a size among the names of values


def cut_names(rows: Iterable[Field], wanted: Container[str] | None = None) -> list[str]:
    """Name the values that cutting gives, in order: what is wanted (or all of it), and every size before its bytes."""
    names = []
    for row in rows:
        names += [SIZE] * (not row.type.width)
        names += [name for name in _names(row) if wanted is None or name in wanted]
    return names


def _names(row: Field) -> list[str]:
    return [word.name for word in row.words] or [row.name]


def _code(row: Field, size: int, wanted: Container[str] | None) -> str:
    """Give the struct code of one row; what is not wanted is stepped over."""
    if row.words:
        return "".join("H" if wanted is None or word.name in wanted else "2x" for word in row.words)
    is_wanted = wanted is None or row.name in wanted
    if row.type.width:
        return _CODES[row.type] if is_wanted else f"{row.type.width}x"
    return f"I{size}{'s' if is_wanted else 'x'}"


def cutters(layout: Layout, routing_fields: Container[str], shapes: dict[int, Shape] | None = None) -> tuple[Cut, Cut]:
    """Make the functions that give the routing fields of the head, and the values of the whole frame.

    The order is that of `cut_names`; in the whole, the entries are one value between head and tail. `shapes` is what
    they remember, of their own if not given.
    """
    head, entries, tail = sections(layout)
    head_sizes_of = _sizes_of(cut_names(head, routing_fields))
    sizes_of = _sizes_of([*cut_names(head), "entries", *cut_names(tail)])
    shapes = {} if shapes is None else shapes

    def measured(meta: bytes) -> Shape:
        numbers: dict[str, int] = {}
        head_sizes, start = _measure(head, meta, 0, numbers)
        end = start
        for row in entries:
            if isinstance(row, Field):
                _, end = _measure((row,), meta, end, numbers)
            else:
                for _ in range(numbers[f"{row.name}.count"]):
                    end += 4 + _size(meta, end)[0]
        tail_sizes, _ = _measure(tail, meta, end, numbers)
        head_code = "".join(_code(row, size, None) for row, size in zip(head, head_sizes, strict=True))
        tail_code = "".join(_code(row, size, None) for row, size in zip(tail, tail_sizes, strict=True))
        view_code = "".join(_code(row, size, routing_fields) for row, size in zip(head, head_sizes, strict=True))
        cut = Struct(f"<{head_code}{end - start}s{tail_code}").unpack_from
        cut_head = Struct(f"<{view_code}").unpack_from
        shape = Shape(head_sizes_of(cut_head(meta)), cut_head, sizes_of(cut(meta)), cut)
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


def _sizes_of(names: list[str]) -> Callable[[Values], tuple[int, ...]]:
    return itemgetter(*(at for at, name in enumerate(names) if name == SIZE))


def _measure(rows: tuple[Field, ...], meta: bytes, at: int, numbers: dict[str, int]) -> tuple[list[int], int]:
    """Give the size of what varies in each row (0 where nothing does) and where they end; note the numbers."""
    sizes = []
    for row in rows:
        size = 0
        if row.type.width:
            numbers.update(zip(_names(row), _NUMBERS[row.type](meta, at), strict=True))
            at += row.type.width
        else:
            (size,) = _size(meta, at)
            at += 4 + size
        sizes.append(size)
    return sizes, at
