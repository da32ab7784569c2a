"""The columns of plain messages, made of where everything is."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.records import shown
from hopline.message import TICKS_PER_MICROSECOND
from hopline.pipeline.decoding.arrow import MESSAGES
from hopline.pipeline.decoding.digests import digests
from hopline.pipeline.decoding.frames import Flags, Frames, Longs
from hopline.pipeline.decoding.header import Headers, Listed, Slices
from hopline.pipeline.decoding.shapes import Shape
from hopline.wire.unusual import USUAL_SCHEMES

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

_SHAPE_NAMES = pa.array([{int(one): one.name for one in Shape}.get(code) for code in range(max(Shape) + 1)])
_CONVENTIONAL_VERSION = r"\A(0|[1-9][0-9]{0,3})\.0\z"  # of these, none is above what a number may be


class PlainColumns:
    """What plain messages say."""

    def __init__(self, frames: Frames, headers: Headers) -> None:
        self.frames = frames
        self.headers = headers

    @cached_property
    def _is_first(self) -> Flags:
        is_first: Flags = self.headers.shape == Shape.FIRST
        return is_first

    def odd(self) -> Flags:
        """Tell the messages that are not plain after all: by their texts, which must be what their formats want."""
        found: Flags = ~_are_texts(self._bytes(self.headers.names["domain"]))
        routing, kinds = self.headers.lists["routing"], self.headers.lists["callback_point"]
        uris = self._bytes(routing.fields["uri"])
        is_odd = ~_are_texts(uris)
        wants_uri = np.isin(self.headers.shape, [Shape.FIRST, Shape.V4])[routing.message]
        if wants_uri.any():
            is_odd |= wants_uri & ~_are_usual_uris(uris)
        found[routing.message[is_odd]] = True
        if self._is_first.any():
            found |= self._is_first & ~self._are_conventional(self.headers.names["version"])
            is_odd = self._is_first[kinds.message] & ~self._are_conventional(kinds.fields["version"])
            found[kinds.message[is_odd]] = True
        return found

    def said(self) -> dict[str, pa.Array]:
        """Give the columns by their names."""
        headers = self.headers
        numbers, body = headers.numbers, headers.body
        return {
            "wire_format": _SHAPE_NAMES.take(pa.array(headers.shape)),
            **{column: self._shown(headers.names[name]) for name, column in NAMES.items()},
            "version": self._versions(headers.names["version"], numbers["version"], self._is_first),
            "domain": self._shown(headers.names["domain"]),
            "signature": self._bytes(headers.names["signature"]),
            "callback_key": pa.array(numbers["callback_key"]),
            "callbacks": self._listed(headers.lists["callback_point"], MESSAGES.field("callbacks").type),
            "routing": self._listed(headers.lists["routing"], MESSAGES.field("routing").type),
            "hops": pa.array(numbers["hops"], pa.int32()),
            "distribution": pa.array(numbers["distribution"], pa.int32()),
            "trace_options": pa.array(numbers["trace_options"]),
            "ttl_us": pa.array(ttl_us(numbers["ttl_ticks"])),
            "body_frames": pa.array(headers.body_frames, pa.int32()),
            "body_bytes": pa.array(self.frames.bytes_of(body, body + headers.body_frames)),
            "body_digest": pa.array(digests(self.frames, body, headers.body_frames)),
        }

    def _bytes(self, slices: Slices) -> pa.BinaryArray:
        return self.frames.cut(slices.start, slices.size)

    def _shown(self, slices: Slices) -> pa.StringArray:
        """Give names off the wire as text, as `hopline.capture.records.shown` does."""
        raw = self._bytes(slices)
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:  # some are no text
            return pa.array([shown(one) for one in raw.to_pylist()], pa.string())

    def _versions(self, slices: Slices, numbers: Longs, is_first: Flags) -> pa.StringArray:
        """Give versions as text: of the first format, ``1.0`` is 1."""
        as_text = pa.array(numbers).cast(pa.string())
        if not is_first.any():
            return as_text
        texts = pc.replace_substring(self._shown(slices), ".0", "")
        return pc.if_else(pa.array(is_first), texts, as_text)

    def _are_conventional(self, versions: Slices) -> Flags:
        """Tell which versions of the first format are ``N.0``."""
        found: Flags = pc.match_substring_regex(self._shown(versions), _CONVENTIONAL_VERSION).to_numpy(
            zero_copy_only=False
        )
        return found

    def _listed(self, listed: Listed, type_: pa.ListType) -> pa.ListArray:
        entry = type_.value_type
        is_first = self._is_first[listed.message]
        fields = [
            self._versions(slices, listed.version, is_first) if name == "version" else self._shown(slices)
            for name, slices in ((field.name, listed.fields[field.name]) for field in entry)
        ]
        entries = pa.StructArray.from_arrays(fields, fields=list(entry))
        return pa.ListArray.from_arrays(pa.array(listed.begins, pa.int32()), entries, type=type_)


def ttl_us(ticks: Longs) -> Longs:
    """Give lifetimes in microseconds, rounded away from zero, so that what is nearly over is not unlimited."""
    whole, rest = np.divmod(ticks, TICKS_PER_MICROSECOND)
    rounded: Longs = whole + ((ticks > 0) & (rest > 0))
    return rounded


def _are_texts(raw: pa.BinaryArray) -> Flags:
    """Tell which are UTF-8."""
    try:
        raw.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([_is_text(one) for one in raw.to_pylist()], np.bool_)
    return np.ones(len(raw), np.bool_)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _are_usual_uris(raw: pa.BinaryArray) -> Flags:
    found = [pc.starts_with(raw, scheme).to_numpy(zero_copy_only=False) for scheme in USUAL_SCHEMES]
    usual: Flags = np.logical_or.reduce(found)
    return usual
