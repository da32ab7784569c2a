"""The meta frame of V6, cut up and put together in one go.

All that varies in it has its size in front. Messages of one kind have the same sizes, so the struct that has cut up one
cuts up the next: the sizes are compared, and measured again when they differ. The same way the struct that has written
one writes the next. The routing and callback entries, which have a reader and writers of their own, stay in one piece.

And messages of one kind between the same two differ in little but what is new in each of them. So all the rest of a
frame is remembered, as what it says and as the bytes that say it: a stencil, with holes for what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import takewhile
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from hopline.message import MessageIdentifier
from hopline.wire.layout import Entries, Field, Layout, Type
from hopline.wire.unusual import Unusual

MOST_SHAPES = 1_024  # at so many, all are forgotten
MOST_STENCILS = 4_096  # so are these
LARGEST_STENCIL = 1_024  # bytes of a frame that is remembered, so that no peer decides how much is kept
NEW = ("callback_key", "signature", "correlation_id", "ttl_ticks")  # in each message
LARGEST_USUAL_SIZE = 255  # of a name or a partition, so that one byte tells it

_CODES = {Type.U16: "H", Type.I64: "q", Type.WORDS: "4H"}
_u16 = Struct("<H").unpack_from
_size = Struct("<I").unpack_from
_SIZE_WIDTH = 4

Values = tuple[Any, ...]
Sizes = tuple[int, ...]
Cut = Callable[[bytes], Values]
Shapes = dict[int, tuple[Sizes, Cut]]
Heads = dict[bytes, Values]

SIZE = ""  # stands for a size among the names of values
SAME = ""  # and for a part of a stencil

Key = TypeVar("Key")
Value = TypeVar("Value")


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


class Stencils(dict[Sizes, Struct]):
    """How to part what is new in a frame from the rest, by the sizes of what varies in it, the entries included."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self._rows = sections(layout)

    def __missing__(self, sizes: Sizes) -> Struct:
        size_of_next = iter(sizes).__next__
        codes, rest = "<", 0
        for row in (*self._rows.head, None, *self._rows.tail):
            if row is None:  # the entries
                rest += size_of_next()
            elif row.type.width:
                if row.name not in NEW:
                    rest += row.type.width
                    continue
                codes += f"{rest}s" * bool(rest) + _CODES[row.type]
                rest = 0
            else:
                size = size_of_next()
                rest += _SIZE_WIDTH
                if row.name not in NEW:
                    rest += size
                    continue
                codes += f"{rest}s{size}s"
                rest = 0
        return keep(self, sizes, Struct(f"{codes}{rest}s"), MOST_SHAPES)


def stencil_names(layout: Layout) -> list[str]:
    """Name the values that a stencil is cut into, in order; the parts that stay the same have no name."""
    names = [SAME]
    rows = sections(layout)
    for row in (*rows.head, None, *rows.tail):
        if row is not None and row.name in NEW:
            is_size_alone = not row.type.width and names[-1] != SAME
            names += [*[SAME] * is_size_alone, row.name]
        elif names[-1] != SAME:
            names.append(SAME)
    return names


def keep(memory: dict[Key, Value], key: Key, value: Value, most: int) -> Value:
    """Remember something; when there is too much of it, all else is forgotten."""
    if len(memory) >= most:
        memory.clear()
    memory[key] = value
    return value


class Packers(dict[Sizes, Callable[..., bytes]]):
    """How to write some neighbouring rows, by the sizes of what varies in them. Reserved words are left zero."""

    def __init__(self, rows: tuple[Field, ...]) -> None:
        super().__init__()
        written = {name for row in rows for name in _names(row) if not is_reserved(name)}
        self.template = f"<{_Part(rows, written).template}"

    def __missing__(self, sizes: Sizes) -> Callable[..., bytes]:
        return keep(self, sizes, Struct(self.template % sizes).pack, MOST_SHAPES)


def is_reserved(name: str) -> bool:
    """Tell whether a word has no meaning yet."""
    return name.startswith("reserved.")


def kind_and_rest(layout: Layout) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """Divide the head of a meta frame: the rows that say the kind of message, and the others."""
    head = sections(layout).head
    end = max(at for at, row in enumerate(head) if row.name in MessageIdentifier.__struct_fields__) + 1
    return head[:end], head[end:]


def head_cutter(layout: Layout, wanted: Container[str], shapes: Shapes) -> Cut:
    """Make the function that gives the wanted fields of the head, in the order of `cut_names`; it sees nothing else."""
    head = _Part(sections(layout).head, wanted)
    template = f"<{head.template}"

    def measure(meta: bytes) -> Sizes:
        return tuple(head.measure(meta, 0)[0])

    return _cutter(template, head.names, measure, shapes)


def head_reader(layout: Layout, wanted: Sequence[str], heads: Heads) -> Cut:
    """Make the function that gives the wanted fields of a head, and remembers how to cut up the next one of its kind.

    What it remembers is found by the bytes that the head starts with, the kind and the first size behind it, which need
    not be read again. It is the struct that cuts up the rest, the sizes that must come out of it, and the values of the
    kind. Where a kind comes in several shapes, the others have to be read here every time.
    """
    kind_rows, rest_rows = kind_and_rest(layout)
    kind, rest = _Part(kind_rows), _Part(rest_rows, wanted)
    names = cut_names((*kind_rows, *rest_rows), wanted)
    cut = head_cutter(layout, wanted, {})
    wanted_of: Callable[[Values], Values] = itemgetter(*map(names.index, wanted))
    kind_of = itemgetter(*map(names.index, MessageIdentifier.__struct_fields__))
    sizes_of = _sizes_of(names)
    least = sum(kind.gaps) + kind.rest + _SIZE_WIDTH * (len(kind.gaps) + 1)
    template = f"<%dx{rest.template.removeprefix('I')}"  # the first size is known

    def read(meta: bytes) -> Values:
        if meta[:2] != layout.number:
            raise Unusual
        values = cut(meta)
        if meta[: least + meta[2] + meta[8 + meta[2]]] not in heads:
            remember(meta, values)
        return wanted_of(values)

    def remember(meta: bytes, values: Values) -> None:
        sizes = sizes_of(values)
        kind_sizes, rest_sizes = sizes[: len(kind.gaps)], sizes[len(kind.gaps) :]
        if max(kind_sizes) <= LARGEST_USUAL_SIZE:
            end = least + sum(kind_sizes)
            cut_rest = Struct(template % (end, *rest_sizes)).unpack_from
            keep(heads, meta[:end], (cut_rest, *rest_sizes[1:], *kind_of(values)), MOST_SHAPES)

    return read


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
    sizes_of = _sizes_of(names)

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
        keep(shapes, key, (sizes_of(values), cut_new), MOST_SHAPES)
        return values

    return cut


def _sizes_of(names: list[str]) -> Callable[[Values], Sizes]:
    return itemgetter(*(at for at, name in enumerate(names) if name == SIZE))
