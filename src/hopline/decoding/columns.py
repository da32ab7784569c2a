"""The columns of plain messages, cut out of the memory of the frames at the places in `Headers`."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.capture.records import shown
from hopline.decoding.digests import body_digests
from hopline.decoding.frames import Flags, Frames, Longs
from hopline.decoding.header import Headers, Listed, Slices
from hopline.decoding.schemas import BODY_LIMIT, MESSAGES
from hopline.decoding.shapes import WITH_URIS, Shape, is_one_of
from hopline.message import ATTEMPT, TICKS_PER_MICROSECOND, attempt_in
from hopline.wire.fast_path import USUAL_SCHEMES

NAMES = {
    "identity": "identity",
    "partition": "partition",
    "correlation_id": "correlation_id",
    "receiver_identity": "receiver",
    "receiver_node_identity": "receiver_node",
    "callback_receiver_identity": "callback_receiver",
    "callback_receiver_node_identity": "callback_receiver_node",
}
"""The columns of names, by the fields of a message that they show."""


def _shape_names() -> pa.StringArray:
    """Return the names of the shapes, each at the place of its number."""
    names: list[str | None] = [None] * (max(Shape) + 1)
    for shape in Shape:
        names[shape] = shape.name
    return pa.array(names)


_CALLBACKS = MESSAGES.field("callbacks").type
_ROUTING = MESSAGES.field("routing").type
_BODIES = MESSAGES.field("bodies").type
_SHAPE_NAMES = _shape_names()
_WORDS = pa.array(np.arange(1 << 16)).cast(pa.string())  # every version as text
_ASCII = 0x80  # all bytes of such a text are below
_CONVENTIONAL_VERSION = r"\A(0|[1-9][0-9]{0,3})\.0\z"  # of these, none is above what a number may be


class PlainColumns:
    """The columns of the table for plain messages, cut out of the frames."""

    def __init__(self, frames: Frames, headers: Headers, *, with_bodies: bool = False) -> None:
        self.frames = frames
        self.headers = headers
        self.with_bodies = with_bodies

    @cached_property
    def _is_first(self) -> Flags:
        is_first: Flags = self.headers.shape == Shape.FIRST
        return is_first

    @cached_property
    def _domains(self) -> pa.BinaryArray:
        return self._bytes(self.headers.names["domain"])

    @cached_property
    def _uris(self) -> pa.BinaryArray:
        return self._bytes(self.headers.lists["routing"].fields["uri"])

    def unusual(self) -> Flags:
        """Return the messages that are not plain after all, because a text is not what its format requires."""
        versions = self.headers.names["version"]
        kinds = self.headers.lists["callback_point"]
        kind_versions = kinds.fields["version"]
        of_first = self._is_first[kinds.message]
        unusual_kinds = self._unconventional(kind_versions, of_first)
        is_unusual: Flags = ~_are_texts(self._domains)
        for messages in (
            self._with_unusual_uris(),
            self._unconventional(versions, self._is_first),
            kinds.message[unusual_kinds],
        ):
            is_unusual[messages] = True
        return is_unusual

    def _with_unusual_uris(self) -> Longs:
        """Return the messages with a router whose address is no text, or no URI where the format requires one."""
        message = self.headers.lists["routing"].message
        is_unusual = ~_are_texts(self._uris)
        must_be_uri = is_one_of(self.headers.shape, WITH_URIS)
        entries = np.flatnonzero(must_be_uri[message])
        uris = self._uris.take(pa.array(entries))
        is_unusual[entries] |= ~_are_usual_uris(uris)
        return message[is_unusual]

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns by their names."""
        headers = self.headers
        lists = headers.lists
        numbers = headers.numbers
        body = headers.body
        body_frames = headers.body_frames
        body_bytes = self.frames.bytes_of(body, body + body_frames)
        digests = body_digests(self.frames, body, body_frames)
        versions = self._versions(headers.names["version"], numbers["version"], self._is_first)
        names = {column: self._shown(headers.names[name]) for name, column in NAMES.items()}
        return names | {
            "wire_format": _SHAPE_NAMES.take(pa.array(headers.shape)),
            "version": versions,
            "domain": _shown(self._domains),
            "signature": self._bytes(headers.names["signature"]),
            "callback_key": pa.array(numbers["callback_key"]),
            "callbacks": self._listed(lists["callback_point"], _CALLBACKS),
            "routing": self._listed(lists["routing"], _ROUTING),
            "hops": pa.array(numbers["hops"], pa.int32()),
            "distribution": pa.array(numbers["distribution"], pa.int32()),
            "trace_options": pa.array(numbers["trace_options"]),
            "ttl_us": pa.array(ttl_us(numbers["ttl_ticks"])),
            "attempt": self._attempts(),
            "body_frames": pa.array(body_frames, pa.int32()),
            "body_bytes": pa.array(body_bytes),
            "bodies": self._bodies(_BODIES),
            "body_digest": pa.array(digests),
        }

    def _attempts(self) -> pa.Int32Array:
        """Return the numbers of attempts. Only extensions with that name in them are read one by one."""
        attempts = np.ones(len(self.headers.shape), np.int32)
        extensions = self._bytes(self.headers.names["extension"])
        may_have_one = pc.match_substring(extensions, ATTEMPT)
        for row in np.flatnonzero(may_have_one.to_numpy(zero_copy_only=False)):
            attempts[row] = attempt_in(extensions[row].as_py())
        return pa.array(attempts)

    def _bodies(self, type_: pa.ListType) -> pa.ListArray:
        """Return the body frames as far as they are kept: the one that goes beyond the limit is cut."""
        counts = self.headers.body_frames
        if not self.with_bodies:
            return pa.nulls(len(counts), type_)
        bodies = Listed((), counts)
        first = self.headers.body[bodies.message]
        frame = first + bodies.nth
        bytes_before = self.frames.bytes_of(first, frame)
        remaining = BODY_LIMIT - bytes_before
        size = self.frames.size(frame)
        kept_size = np.clip(remaining, 0, size)
        start = self.frames.start(frame)
        pieces = self.frames.cut(start, kept_size)
        begins = pa.array(bodies.begins, pa.int32())
        return pa.ListArray.from_arrays(begins, pieces, type=type_)

    def _bytes(self, slices: Slices) -> pa.BinaryArray:
        return self.frames.cut(slices.start, slices.size)

    def _shown(self, slices: Slices) -> pa.StringArray:
        return _shown(self._bytes(slices))

    def _versions(self, slices: Slices, numbers: Longs, is_first: Flags) -> pa.StringArray:
        """Return versions as text: of the first format, ``1.0`` is 1."""
        texts = self._shown(slices.of(is_first))
        texts = pc.replace_substring(texts, ".0", "")
        all_numbers = numbers.copy()
        all_numbers[is_first] = texts.cast(pa.int64())
        return _WORDS.take(pa.array(all_numbers))

    def _unconventional(self, versions: Slices, is_first: Flags) -> Longs:
        """Return the versions of the first format that are not ``N.0``."""
        texts = self._shown(versions.of(is_first))
        matches = pc.match_substring_regex(texts, _CONVENTIONAL_VERSION)
        are_conventional = matches.to_numpy(zero_copy_only=False)
        of_first = np.flatnonzero(is_first)
        unconventional: Longs = of_first[~are_conventional]
        return unconventional

    def _listed(self, listed: Listed, type_: pa.ListType) -> pa.ListArray:
        entry = type_.value_type
        columns = [self._entry_column(field.name, listed) for field in entry]
        entries = pa.StructArray.from_arrays(columns, fields=list(entry))
        begins = pa.array(listed.begins, pa.int32())
        return pa.ListArray.from_arrays(begins, entries, type=type_)

    def _entry_column(self, name: str, listed: Listed) -> pa.StringArray:
        if name == "uri":
            return _shown(self._uris)
        slices = listed.fields[name]
        if name == "version":
            of_first = self._is_first[listed.message]
            return self._versions(slices, listed.version, of_first)
        return self._shown(slices)


def ttl_us(ticks: Longs) -> Longs:
    """Return lifetimes in microseconds, rounded away from zero, so that what is nearly over is not unlimited."""
    whole, rest = np.divmod(ticks, TICKS_PER_MICROSECOND)
    is_rounded_up = (ticks > 0) & (rest > 0)
    rounded: Longs = whole + is_rounded_up
    return rounded


def _shown(raw: pa.BinaryArray) -> pa.StringArray:
    """Return names off the wire as text, as `hopline.capture.records.shown` does."""
    if _is_ascii(raw):
        return raw.view(pa.string())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:  # some are no text
        texts = [shown(name) for name in raw.to_pylist()]
        return pa.array(texts, pa.string())


def _are_texts(raw: pa.BinaryArray) -> Flags:
    """Return which are UTF-8."""
    if _is_ascii(raw):
        return np.ones(len(raw), np.bool_)
    are_texts = [_is_text(value) for value in raw.to_pylist()]
    return np.array(are_texts, np.bool_)


def _is_ascii(raw: pa.BinaryArray) -> bool:
    """Return whether all are ASCII, as most are: then one look at all bytes is enough to know that they are texts."""
    _, _, buffer = raw.buffers()
    content = np.frombuffer(buffer or b"", np.uint8)
    if not len(content):
        return True
    return bool(content.max() < _ASCII)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _are_usual_uris(raw: pa.BinaryArray) -> Flags:
    """Return which begin with a scheme that addresses of routers have."""
    is_usual: Flags = np.zeros(len(raw), np.bool_)
    for scheme in USUAL_SCHEMES:
        has_scheme = pc.starts_with(raw, scheme)
        is_usual |= has_scheme.to_numpy(zero_copy_only=False)
    return is_usual
