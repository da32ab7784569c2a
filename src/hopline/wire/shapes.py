"""Unpack and pack the meta frame of V6 with one struct instead of field by field.

Theory of operation. Every field of variable length in the meta frame has its size in front. There are two caches, one
on top of the other:

* **Shapes.** Messages of one kind have fields of the same sizes, so one `struct.Struct` unpacks the whole frame. It is
  looked up by the length of the frame and the size of the identity. The sizes that it yields are compared with those
  that it was made for; if they differ, the frame is measured and a new struct takes the place of the old one. Packing
  works the same way. The routing and callback entries have a reader and writers of their own, and are one field here.
* **Templates.** Messages of one kind between the same two nodes differ only in the fields of `NEW`. A template is a
  struct that separates these from the bytes around them. If the bytes around them are known, then so are the values of
  all other fields, and nothing but the new ones has to be read or written.

Invariants: a cache is only a shortcut, since the result is the same when it is empty; every cache is bounded, because
peers choose the sizes; a frame that does not fit raises `FastPathMiss` or `struct.error`, and the careful reader or
writer takes over.

Without templates a request and its answer between two nodes took 12 to 15% more CPU time with 100 under way (one run of
14 alternating rounds on a busy machine); with one at a time the difference was within noise.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import takewhile
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from hopline.message import MessageIdentifier
from hopline.wire.fast_path import FastPathMiss
from hopline.wire.layout import Entries, Field, Layout, Type

MOST_SHAPES = 1_024
"""Entries of a cache of shapes; when it is full, it is cleared."""
MOST_TEMPLATES = 4_096
"""Entries of a cache of templates; when it is full, it is cleared."""
LARGEST_TEMPLATE = 1_024
"""Bytes of a frame that is cached, at most: peers choose the size."""
NEW = ("callback_key", "signature", "correlation_id", "ttl_ticks")
"""The fields that differ from message to message."""
LARGEST_USUAL_SIZE = 255
"""Bytes of a name or partition on the fast path, at most: one byte holds the size."""

_CODES = {Type.U16: "H", Type.I64: "q", Type.WORDS: "4H"}
_u16 = Struct("<H").unpack_from
_size = Struct("<I").unpack_from
_SIZE_WIDTH = 4

Rows = tuple[Field, ...]
Names = Container[str]
Values = tuple[Any, ...]
Sizes = tuple[int, ...]
Cut = Callable[[bytes], Values]
Shapes = dict[int, tuple[Sizes, Cut]]
Heads = dict[bytes, Values]

SIZE = ""  # the name of a size among the names of unpacked values
SAME = ""  # the name of a part of a template that stays the same

Key = TypeVar("Key")
Value = TypeVar("Value")


class Sections(NamedTuple):
    """The rows of a meta frame: up to the first entries, from these to the last, and behind them."""

    head: Rows
    entries: tuple[Field | Entries, ...]
    tail: Rows


def sections(layout: Layout) -> Sections:
    """Return the rows of a meta frame in its three sections."""
    head = _fields(layout.meta)
    tail = _fields(reversed(layout.meta))[::-1]
    start = len(head)
    end = len(layout.meta) - len(tail)
    return Sections(head, layout.meta[start:end], tail)


def _fields(rows: Iterable[Field | Entries]) -> Rows:
    """Return the fields that rows begin with."""
    fields = takewhile(lambda row: isinstance(row, Field), rows)
    return tuple(row for row in fields if isinstance(row, Field))  # for the type checker: all of them are


def cut_names(rows: Iterable[Field], included: Names | None = None) -> list[str]:
    """Return the names of the unpacked values in order: the included ones (or all), each size before its bytes."""
    names = []
    for row in rows:
        if not row.type.width:
            names.append(SIZE)
        names += [name for name in _names(row) if _is_included(name, included)]
    return names


def _is_included(name: str, included: Names | None) -> bool:
    return included is None or name in included


def _names(row: Field) -> list[str]:
    return [word.name for word in row.words] or [row.name]


class _Part:
    """Consecutive rows: how to measure their sizes, and the struct format for given sizes."""

    def __init__(self, rows: Rows, included: Names | None = None) -> None:
        self.names = cut_names(rows, included)
        self.gaps: list[int] = []  # bytes between a field of variable length and the next size
        self.struct_format = ""  # with a %d for each size
        self.rest = 0  # bytes behind the last field of variable length
        for row in rows:
            if row.type.width:
                self.rest += row.type.width
            else:
                self.gaps.append(self.rest)
                self.rest = 0
            self.struct_format += _struct_format(row, included)

    def measure(self, meta: bytes, at: int) -> tuple[list[int], int]:
        """Return the sizes of the fields of variable length, and where the rows end."""
        sizes = []
        for gap in self.gaps:
            at += gap
            (size,) = _size(meta, at)
            sizes.append(size)
            at += _SIZE_WIDTH + size
        return sizes, at + self.rest


def _struct_format(row: Field, included: Names | None) -> str:
    """Return the struct format of one row; pad bytes stand for what is not included."""
    if row.words:
        codes = ["H" if _is_included(word.name, included) else "2x" for word in row.words]
        return "".join(codes)
    is_included = _is_included(row.name, included)
    if row.type.width:
        return _CODES[row.type] if is_included else f"{row.type.width}x"
    return "I%ds" if is_included else "I%dx"


class Templates(dict[Sizes, Struct]):
    """The structs that separate the fields of `NEW` from the bytes around them, by the sizes of all variable fields."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self._rows = sections(layout)

    def __missing__(self, sizes: Sizes) -> Struct:
        size_of_next = iter(sizes).__next__
        codes = "<"
        rest = 0  # bytes since the last new field
        for row in (*self._rows.head, None, *self._rows.tail):
            if row is None:  # the entries
                rest += size_of_next()
            elif row.type.width:
                if row.name not in NEW:
                    rest += row.type.width
                    continue
                if rest:
                    codes += f"{rest}s"
                codes += _CODES[row.type]
                rest = 0
            else:
                size = size_of_next()
                rest += _SIZE_WIDTH
                if row.name not in NEW:
                    rest += size
                    continue
                codes += f"{rest}s{size}s"
                rest = 0
        template = Struct(f"{codes}{rest}s")
        return keep(self, sizes, template, MOST_SHAPES)


def template_names(layout: Layout) -> list[str]:
    """Return the names of the values that a template yields, in order; parts that stay the same are `SAME`."""
    names = [SAME]
    rows = sections(layout)
    for row in (*rows.head, None, *rows.tail):
        if row is not None and row.name in NEW:
            has_size = not row.type.width
            is_size_alone = has_size and names[-1] != SAME
            size_part = [SAME] if is_size_alone else []
            names += [*size_part, row.name]
        elif names[-1] != SAME:
            names.append(SAME)
    return names


def keep(
    cache: dict[Key, Value],
    key: Key,
    value: Value,
    most: int,
) -> Value:
    """Put a value into a cache, which is cleared when it has `most` entries, and return the value."""
    if len(cache) >= most:
        cache.clear()
    cache[key] = value
    return value


class Packers(dict[Sizes, Callable[..., bytes]]):
    """The functions that pack consecutive rows, by the sizes of their variable fields. Reserved words are zero."""

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        names = cut_names(rows)
        written = {name for name in names if not is_reserved(name)}
        part = _Part(rows, written)
        self.struct_format = f"<{part.struct_format}"

    def __missing__(self, sizes: Sizes) -> Callable[..., bytes]:
        packer = Struct(self.struct_format % sizes)
        return keep(self, sizes, packer.pack, MOST_SHAPES)


def is_reserved(name: str) -> bool:
    """Return whether a word is reserved for later versions of the format."""
    return name.startswith("reserved.")


def kind_and_rest(layout: Layout) -> tuple[Rows, Rows]:
    """Return the head of a meta frame in two parts: up to the last field of the message identifier, and the rest."""
    head = sections(layout).head
    names = [row.name for row in head]
    end = 1 + max(map(names.index, MessageIdentifier.__struct_fields__))
    return head[:end], head[end:]


def head_cutter(layout: Layout, included: Names, shapes: Shapes) -> Cut:
    """Return a function that unpacks the included fields of the head, in the order of `cut_names`."""
    rows = sections(layout).head
    head = _Part(rows, included)
    struct_format = f"<{head.struct_format}"

    def measure(meta: bytes) -> Sizes:
        sizes, _ = head.measure(meta, 0)
        return tuple(sizes)

    return _cutter(struct_format, head.names, measure, shapes)


def head_reader(layout: Layout, included: Sequence[str], heads: Heads) -> Cut:
    """Return a function that unpacks the included fields of a head, and caches how to unpack the next of its kind.

    The key of the cache is the first bytes of the head: the message identifier and the size behind it, which need not
    be unpacked again. The entry has the function that unpacks the rest, the sizes that it must yield, and the values of
    the identifier. If messages of one kind have several shapes, only the first of them is cached.
    """
    kind_rows, rest_rows = kind_and_rest(layout)
    kind = _Part(kind_rows)
    rest = _Part(rest_rows, included)
    names = cut_names((*kind_rows, *rest_rows), included)
    cut = head_cutter(layout, included, {})
    included_of = _values_of(names, included)
    kind_of = _values_of(names, MessageIdentifier.__struct_fields__)
    sizes_of = _sizes_of(names)
    kind_size_count = len(kind.gaps)
    size_bytes = _SIZE_WIDTH * (kind_size_count + 1)
    least = sum(kind.gaps) + kind.rest + size_bytes
    struct_format = f"<%dx{rest.struct_format.removeprefix('I')}"  # the first size is known

    def read(meta: bytes) -> Values:
        if meta[:2] != layout.number:
            raise FastPathMiss
        values = cut(meta)
        partition_size = meta[2]
        identity_size = meta[8 + partition_size]
        if meta[: least + partition_size + identity_size] not in heads:
            remember(meta, values)
        return included_of(values)

    def remember(meta: bytes, values: Values) -> None:
        sizes = sizes_of(values)
        kind_sizes = sizes[:kind_size_count]
        rest_sizes = sizes[kind_size_count:]
        if max(kind_sizes) > LARGEST_USUAL_SIZE:
            return
        end = least + sum(kind_sizes)
        cut_rest = Struct(struct_format % (end, *rest_sizes)).unpack_from
        entry = (cut_rest, *rest_sizes[1:], *kind_of(values))
        keep(heads, meta[:end], entry, MOST_SHAPES)

    return read


def _values_of(names: list[str], selected: Sequence[str]) -> Callable[[Values], Values]:
    """Return a function that selects some of the unpacked values by their names."""
    positions = map(names.index, selected)
    return itemgetter(*positions)


def cutter(layout: Layout, shapes: Shapes) -> Cut:
    """Return a function that unpacks a whole frame; the entries are one value between head and tail."""
    rows = sections(layout)
    head = _Part(rows.head)
    tail = _Part(rows.tail)
    names = [*head.names, "entries", *tail.names]
    struct_format = f"<{head.struct_format}%ds{tail.struct_format}"
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
                    (size,) = _size(meta, end)
                    end += _SIZE_WIDTH + size
        tail_sizes, _ = tail.measure(meta, end)
        return (*head_sizes, end - start, *tail_sizes)

    return _cutter(struct_format, names, measure, shapes)


def _count_from_end(rows: Sections) -> int:
    """Return the distance in bytes from the count of the first entries to the end of the head."""
    groups = [row.name for row in rows.entries if isinstance(row, Entries)]
    last_row = rows.head[-1]
    words = [word.name for word in last_row.words]
    position = words.index(f"{groups[0]}.count")
    return 2 * (len(words) - position)


def _cutter(
    struct_format: str,
    names: list[str],
    measure: Callable[[bytes], Sizes],
    shapes: Shapes,
) -> Cut:
    sizes_of = _sizes_of(names)

    def cut(meta: bytes) -> Values:
        # The size of the identity, behind the partition, nearly always differs for kinds whose frames are equally long.
        # Where it does not, the latest kind replaces the one before, which is measured again when it comes next.
        key = len(meta) << 8 | meta[8 + meta[2]]
        shape = shapes.get(key)
        if shape is not None:
            sizes, cut_same = shape
            values = cut_same(meta)
            if sizes_of(values) == sizes:
                return values
        cut_new = Struct(struct_format % measure(meta)).unpack_from
        values = cut_new(meta)
        keep(shapes, key, (sizes_of(values), cut_new), MOST_SHAPES)
        return values

    return cut


def _sizes_of(names: list[str]) -> Callable[[Values], Sizes]:
    positions = [at for at, name in enumerate(names) if name == SIZE]
    return itemgetter(*positions)
