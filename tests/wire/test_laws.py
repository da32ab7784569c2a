"""What must hold for every message and for every string of bytes."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopline import Message
from hopline.errors import LocalError
from hopline.message import usable_extension
from hopline.wire import Entries, Layout, RemoteError, annotate, decode, detect, encode, layouts, peek
from hopline.wire.reader import Reader
from hopline.wire.writer import Writer
from tests.wire.mutations import mutate
from tests.wire.strategies import ENVELOPES, GARBAGE, common_messages, messages

FORMATS = [layouts.FIRST, layouts.V4, layouts.V5, layouts.V6]
EVERY_LAYOUT = list(layouts.LAYOUTS.values())


def name_of(layout: Layout) -> str:
    return layout.name


def outcome(read: Any, *arguments: Any, **options: Any) -> Any:
    """What a reader makes of something: the result, or the error with all that it says."""
    try:
        return read(*arguments, **options)
    except (RemoteError, LocalError) as error:
        return type(error), error.args


def dialect(layout: Layout) -> Layout:
    """The first format's dialect has to be said."""
    return layout if layout.wire_format == "first" else layouts.FIRST


@pytest.mark.parametrize("layout", EVERY_LAYOUT, ids=name_of)
@given(data=st.data())
def test_decode_is_the_inverse_of_encode(layout: Layout, data: st.DataObject) -> None:
    message = data.draw(messages(layout))
    frames = encode(message, layout)
    read = decode(frames, first=dialect(layout))
    assert read == message
    assert read.wire_format is layout.wire_format


@pytest.mark.parametrize("target", FORMATS, ids=name_of)
@pytest.mark.parametrize("source", FORMATS, ids=name_of)
@given(message=common_messages())
def test_a_message_carried_over_keeps_every_field_that_the_other_format_has(
    source: Layout, target: Layout, message: Message
) -> None:
    received = decode(encode(message, source))
    carried = decode(encode(received, target))
    for name in target.names():
        before, after = getattr(received, name), getattr(carried, name)
        if name == "callback_point" and target is layouts.FIRST:  # which knows no partitions
            before = tuple((point.identity, point.version) for point in before)
            after = tuple((point.identity, point.version) for point in after)
        assert after == before, name


@pytest.mark.parametrize("layout", EVERY_LAYOUT, ids=name_of)
@given(data=st.data(), envelope=ENVELOPES)
def test_detection_never_confuses_formats_whatever_the_envelope(
    layout: Layout, data: st.DataObject, envelope: list[bytes]
) -> None:
    message = data.draw(messages(layout))
    frames = envelope + encode(message, layout)[2:]
    assert detect(frames, first=dialect(layout)) is layout
    read = decode(frames, first=dialect(layout))
    assert read.clone(socket_identity=b"") == message.clone(socket_identity=b"")


EXTRA = st.lists(st.binary(max_size=10), max_size=3)


@pytest.mark.parametrize("layout", [layouts.V4, layouts.V5, layouts.V5_INT32], ids=name_of)
@given(data=st.data(), on_routes=EXTRA, on_callbacks=EXTRA, above_fixed=EXTRA, below_body=EXTRA)
def test_extra_frames_of_a_newer_writer_never_change_what_is_read(
    layout: Layout,
    data: st.DataObject,
    on_routes: list[bytes],
    on_callbacks: list[bytes],
    above_fixed: list[bytes],
    below_body: list[bytes],
) -> None:
    message = data.draw(messages(layout)).clone(extension=b"")
    frames = encode(message, layout)
    bodies, fixed = list(message.bodies), frames[-17:]
    entries = frames[2 + len(bodies) : -17]
    routes, callbacks = entries[: 2 * len(message.routing)], entries[2 * len(message.routing) :]
    wide_routes = [frame for at in range(0, len(routes), 2) for frame in (*on_routes, *routes[at : at + 2])]
    wide_callbacks = [frame for at in range(0, len(callbacks), 3) for frame in (*on_callbacks, *callbacks[at : at + 3])]
    below = len(above_fixed) + 17
    fixed[-12] = words(below + 1 if callbacks else 0, len(callbacks) // 3, 3 + len(on_callbacks), 0xBEEF)
    below += len(wide_callbacks)
    fixed[-13] = words(below + 1 if routes else 0, len(routes) // 2, 2 + len(on_routes), message.hops)
    below += len(wide_routes) + len(below_body)
    fixed[-2] = words(below + len(bodies), len(bodies), 0xBEEF, 0xBEEF)
    read = decode([b"", b"", *bodies, *below_body, *wide_routes, *wide_callbacks, *above_fixed, *fixed])
    nearest = [*below_body[-1:], *above_fixed][-1:] if not (routes or callbacks) else above_fixed[-1:]
    assert read == message.clone(extension=usable_extension(b"".join(nearest)))


def words(*numbers: int) -> bytes:
    return struct.pack("<4H", *numbers)


@given(message=messages(layouts.V6), in_entries=st.binary(max_size=9), behind=st.binary(max_size=9), extra=EXTRA)
def test_extra_bytes_of_a_newer_v6_writer_never_change_what_is_read(
    message: Message, in_entries: bytes, behind: bytes, extra: list[bytes]
) -> None:
    message = message.clone(extension=b"")
    frames = encode(message, layouts.V6)
    meta = widened(message, in_entries)
    offset = 1 + len(extra) + len(message.bodies)
    assert meta[-8:] == frames[-1][-8:]
    meta = meta[:-8] + words(offset, len(message.bodies), 0, 0) + behind
    assert decode([*frames[:-1], *extra, meta]) == message.clone(extension=usable_extension(behind))


def widened(message: Message, extra: bytes) -> bytes:
    """The meta frame of a message, with unknown bytes at the end of every entry."""
    parts = []
    writer = Writer(message, layouts.V6)
    for row in layouts.V6.meta:
        if not isinstance(row, Entries):
            content = writer._field(row)
            parts.append(content if row.type.width else len(content).to_bytes(4, "little") + content)
            continue
        for nth, entry in enumerate(getattr(message, row.name)):
            entry_bytes = extra
            for field in reversed(row.fields):
                content = writer._entry_field(row, nth, entry, field)
                size = b"" if field.type.width else len(content).to_bytes(4, "little")
                entry_bytes = size + content + entry_bytes
            parts.append(len(entry_bytes).to_bytes(4, "little") + entry_bytes)
    return b"".join(parts)


@pytest.mark.parametrize("layout", EVERY_LAYOUT, ids=name_of)
@given(data=st.data())
def test_the_fast_paths_agree_with_the_careful_ones(layout: Layout, data: st.DataObject) -> None:
    message = data.draw(messages(layout))
    frames = encode(message, layout)
    assert frames == Writer(message, layout).write()
    assert Reader(frames, layout).read() == decode(frames, first=dialect(layout))
    assert_view_agrees(frames, layout)


@pytest.mark.parametrize("layout", EVERY_LAYOUT, ids=name_of)
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=3 * settings().max_examples)
def test_damaged_messages_are_read_alike_by_both_paths_or_refused_alike(
    layout: Layout, data: st.DataObject, seed: int
) -> None:
    frames = mutate(encode(data.draw(messages(layout)), layout), random.Random(seed))
    assert_both_paths_agree(frames, layout)


@given(frames=GARBAGE)
@example(frames=[])
@example(frames=[b""])
@example(frames=[b""] * 15)
@example(frames=[b"\x06\x00"])
@settings(max_examples=20 * settings().max_examples)
def test_whatever_comes_in_decode_returns_a_message_or_raises_a_remote_error(frames: list[bytes]) -> None:
    assert_both_paths_agree(frames, layouts.FIRST)
    assert_both_paths_agree(frames, layouts.FIRST_TICKS)


def assert_both_paths_agree(frames: list[bytes], layout: Layout) -> None:
    def read_carefully() -> Message:
        return Reader(frames, detect(frames, first=dialect(layout))).read()

    read = outcome(decode, frames, first=dialect(layout))
    assert read == outcome(read_carefully)
    annotation = annotate(frames, first=dialect(layout))
    careful_view = outcome(lambda: Reader(frames, detect(frames, first=dialect(layout))).view())
    assert outcome(peek, frames, first=dialect(layout)) == careful_view
    if isinstance(read, Message):
        assert annotation.message == read
        assert_view_agrees(frames, layout)
    else:
        assert annotation.fault is not None
        assert read == (RemoteError, annotation.fault.args)
        assert str(annotation.fault)


def assert_view_agrees(frames: list[bytes], layout: Layout) -> None:
    message, view = decode(frames, first=dialect(layout)), peek(frames, first=dialect(layout))
    assert view.identifier == message.identifier
    for name in ("receiver_identity", "receiver_node_identity", "distribution", "hops", "wire_format"):
        assert getattr(view, name) == getattr(message, name), name
    assert view.frames is frames


NO_INTEGERS = st.floats().filter(lambda number: not number.is_integer())  # 1.0 would do for 1, as ever in Python
NONSENSE = st.one_of(st.none(), st.text(max_size=3), st.integers(-(2**70), 2**70), st.binary(max_size=3), NO_INTEGERS)


@pytest.mark.parametrize("layout", EVERY_LAYOUT, ids=name_of)
@given(data=st.data(), value=NONSENSE)
@settings(max_examples=3 * settings().max_examples)
def test_encoding_nonsense_raises_a_local_error_that_names_the_field(
    layout: Layout, data: st.DataObject, value: Any
) -> None:
    name = data.draw(st.sampled_from(sorted(set(layout.names()) - {"callback_point", "routing", "bodies"})))
    message = data.draw(messages(layout)).clone(**{name: value})
    written = outcome(encode, message, layout)
    assert written == outcome(lambda: Writer(message, layout).write())
    if isinstance(written, tuple):
        assert written[0] is LocalError
        assert written[1][0] == name
    elif name == "version" and layout is layouts.V4C:
        assert Reader(written, layout).read() == message  # as text of two bytes it would be read as a number
    elif name != "ttl_ticks":  # which is rounded to the milliseconds of the first format
        assert decode(written, first=dialect(layout)) == message
