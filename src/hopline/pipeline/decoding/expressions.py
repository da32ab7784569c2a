"""The fast way: messages that are plainly well-formed, read by column expressions made from the layout tables.

What they are not certain of is `odd`, and left to the Python decoder. They accept nothing that it refuses.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.decoding import entries, values
from hopline.pipeline.decoding.entries import Descriptor, Place, version_of_text
from hopline.pipeline.decoding.frames import HALVES, Half, found
from hopline.pipeline.decoding.integers import long
from hopline.pipeline.decoding.shapes import Shape, name_of, shape
from hopline.wire import DEFAULT_LIMITS
from hopline.wire.layouts import FIRST, V5, V6
from hopline.wire.reader import I64_MAX

NAMES = {
    "identity": "identity",
    "partition": "partition",
    "correlation_id": "correlation_id",
    "receiver_identity": "receiver",
    "receiver_node_identity": "receiver_node",
    "callback_receiver_identity": "callback_receiver",
    "callback_receiver_node_identity": "callback_receiver_node",
}
"""The names among the fields of a message, and what the table calls them."""

_WORD = 0xFFFF
_FIRST_TTL_SCALE = next(row.scale for row in FIRST.fixed if row.name == "ttl_ticks")
_LONGEST_FIRST_TTL = I64_MAX // _FIRST_TTL_SCALE


def plain(records: DataFrame) -> DataFrame:
    """Read what is plain. Adds the header's columns, `bodies` and `odd`; where that is true, the others say nothing.

    Each step is a projection of its own: what the next one uses more than once is computed in the one before.
    """
    steps = records.withColumnRenamed("receiver", "local_receiver")
    for step in (_shaped, _found, _read, _judged):
        steps = step(steps)
    return steps


def _shaped(records: DataFrame) -> DataFrame:
    frames, count = sf.col("frames"), sf.size("frames")
    last, second_last = sf.get(frames, count - 1), sf.get(frames, count - 2)
    ends = sf.struct(last.alias("last"), second_last.alias("second_last"))
    return records.withColumns(
        {
            "frame_count": count,
            "_last": last,
            "_shape": values.let(ends, lambda ends: shape(count, ends["last"], ends["second_last"])),
        }
    )


def _found(shaped: DataFrame) -> DataFrame:
    return shaped.withColumn("_raw", found(sf.col("frames"), sf.col("frame_count"), sf.col("_last"), sf.col("_shape")))


def _read(raw: DataFrame) -> DataFrame:
    frames, count = sf.col("frames"), sf.col("frame_count")
    place = Place(frames, count, sf.col("_shape"), sf.col("_last"))
    first = place.is_(Shape.FIRST)
    in_callbacks, in_routing = (Descriptor(_low(name), _high(name), _low(name, 1)) for name in ("callbacks", "routers"))
    ttl = long(_half("ttl_ticks"), _half("ttl_ticks", 1))
    ticks = sf.when(~first, ttl).when(ttl.between(-_LONGEST_FIRST_TTL, _LONGEST_FIRST_TTL), ttl * _FIRST_TTL_SCALE)
    version = sf.when(first, version_of_text(_raw("version"))).otherwise(_half("version").cast("string"))
    return raw.withColumns(
        {
            "wire_format": name_of(sf.col("_shape")),
            **{column: values.shown(_raw(name)) for name, column in NAMES.items()},
            "version": version,
            "domain": sf.when(values.is_text(_raw("domain")), values.text(_raw("domain"))),
            "signature": _raw("signature"),
            "callback_key": long(_half("callback_key"), _half("callback_key", 1)),
            "trace_options": _half("options").bitwiseAND(sf.lit(_WORD)),
            "distribution": _high("options"),
            "hops": _high("routers", 1),
            "ttl_us": values.ttl_us(ticks),
            "callbacks": entries.callbacks(place, in_callbacks, _raw("callback_point_starts")),
            "routing": entries.routing(place, in_routing, _raw("routing_starts")),
            "bodies": _bodies(place, in_callbacks, in_routing),
            "bytes": values.size_of(frames),
        }
    )


def _bodies(place: Place, in_callbacks: Descriptor, in_routing: Descriptor) -> Column:
    """Find the body frames, where they are not among others: the offset is the top one's."""
    offset, count = _low("body"), sf.greatest(_high("body"), sf.lit(1))
    multipart = place.is_(Shape.V4, Shape.V5)
    fixed = sf.when(multipart, len(V5.fixed)).otherwise(0)
    occupied = sf.when(multipart, sf.greatest(fixed, in_callbacks.top(), in_routing.top())).otherwise(len(V6.fixed))
    bottom = offset - count + 1
    fits = (offset <= place.count) & (bottom > fixed) & ((count == 1) | (bottom > occupied))
    return sf.when(fits, sf.slice(place.frames, place.count - offset + 1, count))


def _judged(read: DataFrame) -> DataFrame:
    known = ("version", "domain", "hops", "distribution", "ttl_us", "bodies")
    is_plain = values.all_of(
        (
            _raw("fits"),
            sf.col("bytes") <= DEFAULT_LIMITS.usual_size,
            *(sf.col(name).isNotNull() for name in known),
            ~sf.exists("callbacks", sf.isnull),
            ~sf.exists("routing", sf.isnull),
        )
    )
    return read.withColumns(
        {
            "odd": ~sf.coalesce(is_plain, sf.lit(False)),
            **values.derived(),
        }
    )


def _raw(name: str) -> Column:
    return sf.col("_raw")[name]


def _half(row: str, nth: int = 0) -> Column:
    return sf.get(_raw("numbers"), sf.lit(HALVES.index(Half(row, nth))))


def _low(row: str, nth: int = 0) -> Column:
    return _half(row, nth).bitwiseAND(sf.lit(_WORD)).cast("int")


def _high(row: str, nth: int = 0) -> Column:
    return sf.shiftright(_half(row, nth), 16).cast("int")
