"""The lists of a message, callback points and routers, from wherever its shape keeps them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, BinaryType, StructField, StructType

from hopline.pipeline.decoding.integers import word
from hopline.pipeline.decoding.meta import cut
from hopline.pipeline.decoding.shapes import Shape
from hopline.pipeline.decoding.values import any_of, is_text, shown, text
from hopline.pipeline.schemas import KIND, ROUTER
from hopline.wire import Entries, Layout, Type
from hopline.wire.layouts import FIRST, V5, V6
from hopline.wire.unusual import USUAL_SCHEMES

_CONVENTIONAL_VERSION = r"\A(0|[1-9][0-9]{0,3})\.0\z"  # of these, none is above what a number may be


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a message says of one list: where its last entry ends, how many there are, and of how many frames each."""

    offset: Column
    count: Column
    divisor: Column

    def top(self) -> Column:
        """Tell how far up the list goes, as `hopline.wire.reader` does."""
        size = self.count.cast("bigint") * self.divisor  # two words may be too much for an int
        return sf.when(self.count > 0, self.offset + size - 1).otherwise(0)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record's lists are: its frames, how many, their shape, and the last one, which V6 keeps everything in."""

    frames: Column
    count: Column
    shape: Column
    last: Column

    def is_(self, *shapes: Shape) -> Column:
        """Tell whether the message has one of these shapes."""
        return self.shape.isin(*map(int, shapes))


def callbacks(place: Place, descriptor: Descriptor, starts: Column) -> Column:
    """Read the callback points: null, or with a null among them, where they are not plain."""
    first = place.is_(Shape.FIRST)

    def made(entry: Column) -> Column:
        version = sf.when(first, version_of_text(entry["version"])).otherwise(version_of_number(entry["version"]))
        partition = sf.when(first, sf.lit("")).otherwise(shown(entry["partition"]))
        values = shown(entry["identity"]), version, partition
        return sf.when(version.isNotNull(), _struct(KIND, *values))

    return sf.transform(_listed(place, "callback_point", KIND, descriptor, starts), made)


def routing(place: Place, descriptor: Descriptor, starts: Column) -> Column:
    """Read the routers: null, or with a null among them, where they are not plain."""
    any_text = place.is_(Shape.V5, Shape.V6)

    def made(entry: Column) -> Column:
        uri = text(entry["uri"])
        is_plain = is_text(entry["uri"]) & (any_text | any_of(uri.startswith(scheme) for scheme in USUAL_SCHEMES))
        return sf.when(is_plain, _struct(ROUTER, uri, shown(entry["identity"])))

    return sf.transform(_listed(place, "routing", ROUTER, descriptor, starts), made)


def _listed(place: Place, name: str, type_: StructType, descriptor: Descriptor, starts: Column) -> Column:
    """Find the bytes of a list's entries."""
    group, first = _entries(V5, name), place.is_(Shape.FIRST)
    divisor = sf.when(first, _entries(FIRST, name).divisor).otherwise(group.divisor)
    fixed = sf.when(first, len(FIRST.fixed)).otherwise(len(V5.fixed))
    bottom = place.count - descriptor.offset  # the index of the last entry's lowest frame
    top = bottom - (descriptor.count - 1) * divisor
    fits = (descriptor.divisor == divisor) & (descriptor.offset > fixed) & (top >= divisor - 1)

    def raw(fields: dict[str, Column]) -> Column:
        return _struct(type_, *(fields[field] for field in type_.names))

    def of_frames(at: Column) -> Column:
        return raw({row.name: sf.get(place.frames, at - row.position) for row in group.fields})

    nothing = sf.array().cast(ArrayType(StructType([StructField(field, BinaryType()) for field in type_.names])))
    return (
        sf.when(place.is_(Shape.V6), cut(place.last, _entries(V6, name), starts, raw))
        .when(descriptor.count == 0, nothing)
        .when(fits, sf.transform(sf.sequence(top, bottom, divisor), of_frames))
    )


def _struct(type_: StructType, *values: Column) -> Column:
    return sf.struct(*(value.alias(name) for name, value in zip(type_.names, values, strict=True)))


def _entries(layout: Layout, name: str) -> Entries:
    return next(row for row in layout.meta or layout.entries if isinstance(row, Entries) and row.name == name)


def version_of_number(raw: Column) -> Column:
    """Give a version of two bytes as text, null where it has another width."""
    return sf.when(raw == sf.lit(b"\x01\x00"), sf.lit("1")).when(
        sf.octet_length(raw) == Type.U16.width, word(raw).cast("string")
    )


def version_of_text(raw: Column) -> Column:
    """Give a version in the first format's conventional form as text, null where it has another."""
    return sf.when(raw == sf.lit(b"1.0"), sf.lit("1")).when(
        text(raw).rlike(_CONVENTIONAL_VERSION), sf.substring_index(text(raw), ".", 1)
    )
