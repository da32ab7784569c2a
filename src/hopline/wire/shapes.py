"""The meta frame of V6, cut up and put together in one go.

All that varies in it has its size in front. Messages of one kind have the same sizes, so the struct that has cut up one
cuts up the next: the sizes are compared, and measured again when they differ. The same way the struct that has written
one writes the next. The routing and callback entries, which have a reader and writers of their own, stay in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import takewhile
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple

from hopline.wire.layout import Entries, Field, Layout, Type

MOST_SHAPES = 1_024  # at so many, all are forgotten

_CODES = {Type.U16: "H", Type.I64: "q", Type.WORDS: "4H"}
_u16 = Struct("<H").unpack_from
_size = Struct("<I").unpack_from
_SIZE_WIDTH = 4

Values = tuple[Any, ...]
Sizes = tuple[int, ...]
Cut = Callable[[bytes], Values]
Shapes = dict[int, tuple[Sizes, Cut]]

SIZE = ""  # stands for a size among the names of values


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


def cut_names(rows: Iterable[Field], wanted: Container[str] | None = None) -> list[str]:
    """Name the values that cutting gives, in order: what is wanted (or all of it), and every size before its bytes."""
    names = []
    for row in rows:
        names += [SIZE] * (not row.type.width)
        names += [name for name in _names(row) if wanted is None or name in wanted]
    return names


def _names(row: Field) -> list[str]:
    return [word.name for word in row.words] or [row.name]


class _Part:
    """Some neighbouring rows: how to measure them, and how to cut them once their sizes are known."""

    def __init__(self, rows: tuple[Field, ...], wanted: Container[str] | None = None) -> None:
        self.names = cut_names(rows, wanted)
        self.gaps: list[int] = []  # bytes between what varies and the next size
        self.template = ""  # of the struct, with a place for each size
        self.rest = 0  # bytes behind the last that varies
        for row in rows:
            if row.type.width:
                self.rest += row.type.width
            else:
                self.gaps.append(self.rest)
                self.rest = 0
            self.template += _template(row, wanted)

    def measure(self, meta: bytes, at: int) -> tuple[list[int], int]:
        """Give the sizes in the part and where it ends."""
        sizes = []
        for gap in self.gaps:
            at += gap
            (size,) = _size(meta, at)
            sizes.append(size)
            at += _SIZE_WIDTH + size
        return sizes, at + self.rest


def _template(row: Field, wanted: Container[str] | None) -> str:
    """Give the struct code of one row; what is not wanted is stepped over."""
    if row.words:
        return "".join("H" if wanted is None or word.name in wanted else "2x" for word in row.words)
    is_wanted = wanted is None or row.name in wanted
    if row.type.width:
        return _CODES[row.type] if is_wanted else f"{row.type.width}x"
    return "I%ds" if is_wanted else "I%dx"


class Packers(dict[Sizes, Callable[..., bytes]]):
    """How to write some neighbouring rows, by the sizes of what varies in them. Reserved words are left zero."""

    def __init__(self, rows: tuple[Field, ...]) -> None:
        super().__init__()
        written = {name for row in rows for name in _names(row) if not is_reserved(name)}
        self.template = f"<{_Part(rows, written).template}"

    def __missing__(self, sizes: Sizes) -> Callable[..., bytes]:
        pack = Struct(self.template % sizes).pack
        if len(self) >= MOST_SHAPES:
            self.clear()
        self[sizes] = pack
        return pack


def is_reserved(name: str) -> bool:
    """Tell whether a word has no meaning yet."""
    return name.startswith("reserved.")


def head_cutter(layout: Layout, wanted: Container[str], shapes: Shapes) -> Cut:
    """Make the function that gives the wanted fields of the head, in the order of `cut_names`; it sees nothing else."""
    head = _Part(sections(layout).head, wanted)
    template = f"<{head.template}"

    def measure(meta: bytes) -> Sizes:
        return tuple(head.measure(meta, 0)[0])

    return _cutter(template, head.names, measure, shapes)


def cutter(layout: Layout, shapes: Shapes) -> Cut:
    """Make the function that gives the values of a whole frame; the entries are one between head and tail."""
    rows = sections(layout)
    head, tail = _Part(rows.head), _Part(rows.tail)
    template = f"<{head.template}%ds{tail.template}"
    count_from_end = _count_from_end(rows)

    def measure(meta: bytes) -> Sizes:
        head_sizes, start = head.measure(meta, 0)
        end = start
        (count,) = _u16(meta, start - count_from_end)
        for row in rows.entries:
            if isinstance(row, Field):  # the count of the entries behind it
                (count,) = _u16(meta, end)
                end += row.type.width
            else:
                for _ in range(count):
                    end += _SIZE_WIDTH + _size(meta, end)[0]
        tail_sizes, _ = tail.measure(meta, end)
        return (*head_sizes, end - start, *tail_sizes)

    return _cutter(template, [*head.names, "entries", *tail.names], measure, shapes)


def _count_from_end(rows: Sections) -> int:
    """Tell how far before the end of the head the count of the first entries stands."""
    counted = next(row.name for row in rows.entries if isinstance(row, Entries))
    words = [word.name for word in rows.head[-1].words]
    return 2 * (len(words) - words.index(f"{counted}.count"))


def _cutter(template: str, names: list[str], measure: Callable[[bytes], Sizes], shapes: Shapes) -> Cut:
    sizes_of = itemgetter(*(at for at, name in enumerate(names) if name == SIZE))

    def cut(meta: bytes) -> Values:
        # The size of the identity, behind the partition, nearly always tells kinds apart that have the same length.
        # Where it does not, or some other byte stands there, the latest kind wins and the next is measured again.
        key = len(meta) << 8 | meta[8 + meta[2]]
        shape = shapes.get(key)
        if shape is not None:
            sizes, cut_known = shape
            values = cut_known(meta)
            if sizes_of(values) == sizes:
                return values
        cut_new = Struct(template % measure(meta)).unpack_from
        values = cut_new(meta)
        if len(shapes) >= MOST_SHAPES:
            shapes.clear()
        shapes[key] = sizes_of(values), cut_new
        return values

    return cut
