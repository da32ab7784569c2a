"""Hopline's extension: one more frame in V4 and V5, bytes behind the last field in V6, needed by nobody."""

from __future__ import annotations

import msgspec
import pytest

from hopline import Message, MessageIdentifier
from hopline.errors import LocalError
from hopline.message import LARGEST_EXTENSION, read_extension, usable_extension, write_extension
from hopline.wire import DEFAULT_LIMITS, Layout, Limits, annotate, decode, encode, layouts, peek
from hopline.wire.compiled import DECODERS, ENCODERS
from hopline.wire.fast_path import STUMBLES
from hopline.wire.reader import Reader
from hopline.wire.writer import Writer

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "vendor=1"}
EXTENSION = write_extension(TRACE)
PLAIN = Message(b"HELLO", bodies=(b"world",))
FULL = PLAIN.push_router_address("tcp://1:2", b"router").clone(callback_point=(MessageIdentifier(b"ANSWER"),))

MULTIPART = [layouts.V4, layouts.V5_INT32, layouts.V5]
WITH_EXTENSION = [*MULTIPART, layouts.V6]
WITHOUT = [layout for layout in layouts.LAYOUTS.values() if layout not in WITH_EXTENSION]

NO_EXTENSIONS = {
    "no map": msgspec.msgpack.encode(["traceparent"]),
    "cut": EXTENSION[:-1],
    "more behind it": EXTENSION + b"\0",
    "a name that is a number": msgspec.msgpack.encode({1: "one"}),
    "a name that is no text": b"\x81\xa1\xff\x01",
    "a value that is no text": b"\x81\xa1a\xa1\xff",
    "bytes": msgspec.msgpack.encode({"a": b"bytes"}),
    "nested": b"\x81\xa1a" + b"\x91" * 900 + b"\xc0",
    "too large": msgspec.msgpack.encode({"a": "x" * LARGEST_EXTENSION}),
    "text": b"FUTURE-1",
}


def name_of(layout: Layout) -> str:
    return layout.name


def test_an_extension_is_a_map_of_names_to_plain_values() -> None:
    entries = {"text": "ü", "number": 1, "nothing": None, "list": ["v5", "v6"], "map": {"Order": 7}}
    assert read_extension(write_extension(entries)) == entries
    assert write_extension({}) == b""
    assert read_extension(b"") == {}


def test_the_largest_extension_is_written_and_no_larger_one() -> None:
    room = LARGEST_EXTENSION - len(write_extension({"a": "x" * 300})) + 300
    largest = write_extension({"a": "x" * room})
    assert len(largest) == LARGEST_EXTENSION
    assert usable_extension(largest) == largest
    with pytest.raises(LocalError, match="extension: expected names and plain values, in at most 1024 bytes"):
        write_extension({"a": "x" * (room + 1)})


@pytest.mark.parametrize("value", [object(), b"bytes", [["nested"]], 2**64, "\ud800"], ids=type)
def test_what_no_peer_could_read_is_not_written(value: object) -> None:
    with pytest.raises(LocalError, match="extension"):
        write_extension({"a": value})


@pytest.mark.parametrize("raw", NO_EXTENSIONS.values(), ids=NO_EXTENSIONS)
def test_what_is_no_such_map_says_nothing(raw: bytes) -> None:
    assert read_extension(raw) == {}
    assert usable_extension(raw) == b""


@pytest.mark.parametrize("layout", MULTIPART, ids=name_of)
def test_in_v4_and_v5_it_is_one_more_frame_above_the_fixed_ones(layout: Layout) -> None:
    fixed = len(layout.fixed)
    for message in (PLAIN, FULL):
        plain, extended = encode(message, layout), encode(message.clone(extension=EXTENSION), layout)
        assert extended[-fixed - 1] == EXTENSION
        assert extended[: -fixed - 1] == plain[:-fixed]
        offsets = [
            [int.from_bytes(frames[-position][:2], "little") for position in (2, 12, 13)]
            for frames in (plain, extended)
        ]
        assert offsets[1] == [offset + 1 if offset else 0 for offset in offsets[0]]


def test_in_v6_it_is_the_bytes_behind_the_last_field() -> None:
    for message in (PLAIN, FULL):
        plain, extended = encode(message, layouts.V6), encode(message.clone(extension=EXTENSION), layouts.V6)
        assert extended == [*plain[:-1], plain[-1] + EXTENSION]


@pytest.mark.parametrize("layout", WITH_EXTENSION, ids=name_of)
def test_both_paths_write_and_read_it(layout: Layout) -> None:
    for message in (PLAIN.clone(extension=EXTENSION), FULL.clone(extension=EXTENSION)):
        frames = ENCODERS[layout.name](message, DEFAULT_LIMITS)
        assert frames == Writer(message, layout).write()
        assert DECODERS[layout.name](frames, DEFAULT_LIMITS) == message
        assert Reader(frames, layout).read() == message
        assert decode(frames).extension == EXTENSION
        assert peek(frames).identity == b"HELLO"


@pytest.mark.parametrize("layout", WITHOUT, ids=name_of)
def test_formats_without_a_place_for_it_leave_it_out(layout: Layout) -> None:
    for extension in (EXTENSION, b"FUTURE-1"):
        assert encode(PLAIN.clone(extension=extension), layout) == encode(PLAIN, layout)


@pytest.mark.parametrize("layout", WITH_EXTENSION, ids=name_of)
@pytest.mark.parametrize("raw", NO_EXTENSIONS.values(), ids=NO_EXTENSIONS)
def test_what_is_none_is_skipped_on_reading_and_refused_in_writing(raw: bytes, layout: Layout) -> None:
    for message in (PLAIN, FULL):
        frames = [raw if frame == EXTENSION else frame for frame in encode(message.clone(extension=EXTENSION), layout)]
        if layout.meta:
            frames[-1] = frames[-1].removesuffix(EXTENSION) + raw
        assert DECODERS[layout.name](frames, DEFAULT_LIMITS) == message
        assert Reader(frames, layout).read() == message
        with pytest.raises(STUMBLES):
            ENCODERS[layout.name](message.clone(extension=raw), DEFAULT_LIMITS)
        with pytest.raises(LocalError, match="extension: expected a MessagePack map"):
            encode(message.clone(extension=raw), layout)


@pytest.mark.parametrize("layout", WITH_EXTENSION, ids=name_of)
def test_an_extension_that_breaks_a_limit_is_looked_at_carefully(layout: Layout) -> None:
    message = PLAIN.clone(extension=EXTENSION)
    size = sum(map(len, encode(message, layout)))
    tight = Limits(message_size=size - 1)
    with pytest.raises(STUMBLES):
        ENCODERS[layout.name](message, tight)
    with pytest.raises(LocalError, match="frames"):
        encode(message, layout, limits=tight)


@pytest.mark.parametrize("layout", MULTIPART, ids=name_of)
def test_an_extension_that_is_one_frame_too_many_is_refused(layout: Layout) -> None:
    tight = Limits(frames=len(encode(PLAIN, layout)))
    assert ENCODERS[layout.name](PLAIN, tight) == encode(PLAIN, layout)
    with pytest.raises(STUMBLES):
        ENCODERS[layout.name](PLAIN.clone(extension=EXTENSION), tight)
    with pytest.raises(LocalError, match="frames"):
        encode(PLAIN.clone(extension=EXTENSION), layout, limits=tight)


@pytest.mark.parametrize("layout", MULTIPART, ids=name_of)
def test_a_frame_that_belongs_to_something_else_is_no_extension(layout: Layout) -> None:
    """The frame right above the fixed ones is a callback's identity, or the body: whatever it looks like."""
    message = PLAIN.clone(bodies=(EXTENSION,))
    assert decode(encode(message, layout)) == message
    message = PLAIN.clone(callback_point=(MessageIdentifier(EXTENSION),))
    assert decode(encode(message, layout)) == message
    # Callbacks that leave the frame free, and a body that does not.
    frames = encode(FULL.clone(extension=EXTENSION), layout)
    frames[-2] = (18).to_bytes(2, "little") + frames[-2][2:]
    read = decode(frames)
    assert (read.body, read.extension) == (EXTENSION, b"")
    assert read == Reader(frames, layout).read()


@pytest.mark.parametrize("layout", WITH_EXTENSION, ids=name_of)
def test_the_dump_names_it(layout: Layout) -> None:
    annotation = annotate(encode(FULL.clone(extension=EXTENSION), layout))
    (reading,) = [reading for reading in annotation.readings if reading.name == "extension"]
    assert reading.raw == EXTENSION
    assert reading.row is layout.extension
    assert reading.position == (1 if layout.meta else 18)
    assert not any(reading.name == "unknown" for reading in annotation.readings)
    assert annotation.message is not None
    assert read_extension(annotation.message.extension) == TRACE
