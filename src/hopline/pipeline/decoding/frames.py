"""Where the fields of a message stand, for each shape: frames counted from the end, or places in the meta frame.

Whatever the shape, what is found has the form that V4 and V5 give it, so that everything behind reads one form.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as sf

from hopline.pipeline.decoding.integers import WIDTH, integers, part
from hopline.pipeline.decoding.meta import STARTS, in_meta
from hopline.pipeline.decoding.shapes import Shape
from hopline.pipeline.decoding.values import all_of
from hopline.wire import Field, Type
from hopline.wire.layouts import FIRST, V5


class Half(NamedTuple):
    """Four bytes of a row that holds numbers: the first or the second four."""

    row: str
    nth: int


TEXTS = (
    "identity",
    "partition",
    "correlation_id",
    "receiver_identity",
    "receiver_node_identity",
    "callback_receiver_identity",
    "callback_receiver_node_identity",
    "domain",
    "signature",
    "version",
)
"""The fields whose bytes are taken as they are; a version is text in the first format."""

_ROWS = {row.name: row for row in V5.fixed}
_FIRST_ROWS = {row.name: row for row in FIRST.fixed}
_NUMBERS = [row for row in V5.fixed if row.type.width and row.position > 1]

HALVES = [Half(row.name, nth) for row in _NUMBERS for nth in range(max(row.type.width // WIDTH, 1))]
"""What is read as numbers, in the order of the array `numbers`."""

_PADDING = bytes(2)
_FIRST_WIDTH = Type.I32.width


def found(frames: Column, count: Column, last: Column, shape: Column) -> Column:
    """Find the bytes of every field, as a struct: `TEXTS`, `numbers`, `starts` of V6's entries, and `fits`."""
    multipart, first = _Multipart(frames, count), _First(frames, count)
    return (
        sf.when(shape == int(Shape.V6), in_meta(last, _of_meta))
        .when(shape == int(Shape.FIRST), first.found())
        .when(shape.isin(int(Shape.V4), int(Shape.V5)), multipart.found())
    )


def _struct(
    texts: dict[str, Column], halves: list[Column], fits: Column, starts: dict[str, Column] | None = None
) -> Column:
    none = sf.lit(None).cast(STARTS)
    return sf.struct(
        *(texts.get(name, sf.lit(b"")).alias(name) for name in TEXTS),
        integers(sf.array(*halves)).alias("numbers"),
        *((starts[name] if starts else none).alias(f"{name}_starts") for name in ("routing", "callback_point")),
        fits.alias("fits"),
    )


def _of_meta(raw: dict[str, Column], starts: dict[str, Column], is_whole: Column) -> Column:
    def half(wanted: Half) -> Column:
        if wanted.row == "callbacks":
            return sf.lit(bytes(WIDTH))
        if wanted == ("routers", 1):  # the hop count is the upper word of the first half here, of the second in V5
            wanted = Half("routers", 0)
        return _four(_ROWS[wanted.row], raw[wanted.row], wanted.nth)

    return _struct({name: raw[name] for name in TEXTS}, list(map(half, HALVES)), is_whole, starts)


class _Multipart:
    """V4 and V5."""

    def __init__(self, frames: Column, count: Column) -> None:
        self.frames = frames
        self.count = count

    def frame(self, row: Field) -> Column:
        return sf.get(self.frames, self.count - row.position)

    def found(self) -> Column:
        texts = {name: self.frame(_ROWS[name]) for name in TEXTS}
        halves = [_four(_ROWS[half.row], self.frame(_ROWS[half.row]), half.nth) for half in HALVES]
        wide = (sf.octet_length(self.frame(row)) >= row.type.width for row in _NUMBERS if row.name != "version")
        fits = all_of((*wide, sf.octet_length(texts["version"]) == Type.U16.width))  # a wider version is text
        return _struct(texts, halves, fits)


class _First(_Multipart):
    """The first format: what it says in frames of their own becomes the words of the others."""

    def found(self) -> Column:
        texts = {name: self.named(name) for name in TEXTS if name in _FIRST_ROWS}
        fits = sf.octet_length(self.named("ttl_ticks")) >= Type.I64.width
        return _struct(texts, list(map(self.half, HALVES)), fits)

    def named(self, name: str) -> Column:
        return self.frame(_FIRST_ROWS[name])

    def half(self, wanted: Half) -> Column:
        match wanted:
            case ("ttl_ticks", nth):
                return part(self.named("ttl_ticks"), nth * WIDTH, WIDTH)
            case ("body", 0):
                return sf.lit(_words(1, 1))
            case ("options", 0):
                return sf.concat(self.allowed("trace_options"), self.allowed("distribution"))
            case ("callbacks", 0):
                return self.descriptor("callback_point")
            case ("routers", 0):
                return self.descriptor("routing")
            case ("callbacks", 1):
                return sf.lit(_words(_divisor("callback_point"), 0))
            case ("routers", 1):
                return sf.concat(sf.lit(_words(_divisor("routing"))), self.low("hops"))
        return sf.lit(bytes(WIDTH))  # of a version, which is text, and of what the format has no place for

    def low(self, name: str) -> Column:
        """Give the lower word of a number, null where it does not fit into one."""
        raw = self.named(name)
        return sf.when(part(raw, 2, _FIRST_WIDTH) == sf.lit(_PADDING), part(raw, 0, 2))

    def allowed(self, name: str) -> Column:
        """Give the word for a number of which only some values are allowed, null for others."""
        row = _FIRST_ROWS[name]
        word = sf.lit(None).cast("binary")
        for wire, value in (row.values or {}).items():
            is_it = self.named(name) == sf.lit(wire.to_bytes(row.type.width, "little"))
            word = sf.when(is_it, sf.lit(_words(value))).otherwise(word)
        return word

    def descriptor(self, entries: str) -> Column:
        """Give offset and count as words: zeros where the frames are empty, null where they are not small numbers."""
        offset, count = f"{entries}.offset", f"{entries}.count"
        is_empty = sf.octet_length(sf.concat(self.named(offset), self.named(count))) == 0
        return sf.when(is_empty, sf.lit(bytes(WIDTH))).otherwise(sf.concat(self.low(offset), self.low(count)))


def _words(*words: int) -> bytes:
    return b"".join(word.to_bytes(2, "little") for word in words)


def _divisor(entries: str) -> int:
    return next(group.divisor for group in FIRST.entries if group.name == entries)


def _four(row: Field, raw: Column, nth: int) -> Column:
    """Cut four bytes out of a row, or fill up one that has two."""
    return part(raw, nth * WIDTH, WIDTH) if row.type.width >= WIDTH else sf.concat(raw, sf.lit(_PADDING))
