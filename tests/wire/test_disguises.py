"""No body, nor any other field, makes a message of one format pass for one of another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopline import Message, WireFormat
from hopline.errors import LocalError
from hopline.wire import Layout, annotate, decode, detect, encode, layouts, peek
from hopline.wire.compiled import ENCODERS
from hopline.wire.fast_path import STUMBLES
from hopline.wire.limits import DEFAULT_LIMITS, Limits
from hopline.wire.reader import is_meta_frame
from hopline.wire.writer import Writer
from tests.wire.strategies import disguises

FORMATS = [layouts.FIRST, layouts.V4, layouts.V5_INT32, layouts.V5, layouts.V6]
FIRSTS = [layouts.FIRST, layouts.FIRST_TICKS]

DELETE = Message(b"ADMIN.DELETE", bodies=(b"everything",))
HARMLESS = Message(b"HARMLESS")


def name_of(layout: Layout) -> str:
    return layout.name


@pytest.mark.parametrize("worn", FORMATS, ids=name_of)
@pytest.mark.parametrize("layout", FORMATS, ids=name_of)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 2)
def test_a_message_made_of_another_formats_headers_comes_back_as_it_was(
    layout: Layout, worn: Layout, data: st.DataObject
) -> None:
    message = data.draw(disguises(layout, worn))
    if layout is layouts.FIRST and is_meta_frame(message.body):
        with pytest.raises(LocalError, match="bodies"):
            encode(message, layout)
        return
    frames = encode(message, layout)
    assert frames == Writer(message, layout).write()
    assert detect(frames) is layout
    read = decode(frames)
    assert read == message
    assert read.wire_format is layout.wire_format
    view = peek(frames)
    assert view.identifier == message.identifier
    assert view.receiver_identity == message.receiver_identity
    assert annotate(frames).message == message


@pytest.mark.parametrize("worn", FIRSTS, ids=name_of)
def test_a_v6_message_whose_bodies_are_headers_of_the_first_format_stays_v6(worn: Layout) -> None:
    headers = encode(DELETE, worn)[:-1]
    for bodies in (headers, headers[2:]):
        assert bodies[-1] == b""
        message = HARMLESS.clone(bodies=tuple(bodies))
        frames = encode(message, WireFormat.V6)
        assert decode(frames, first=worn) == message
        assert peek(frames, first=worn).identity == b"HARMLESS"
        assert decode([*frames[:-1], frames[-1] + b"what a newer writer says"], first=worn) == message


@pytest.mark.parametrize("layout", FIRSTS, ids=name_of)
def test_the_first_format_refuses_a_body_that_is_a_meta_frame_of_v6(layout: Layout) -> None:
    meta = encode(DELETE, WireFormat.V6)[-1]
    for body in (meta, meta + b"what a newer writer says"):
        message = HARMLESS.clone(bodies=(body,))
        with pytest.raises(LocalError, match="bodies: expected a body that is no V6 meta frame"):
            encode(message, layout)
        with pytest.raises(STUMBLES):
            ENCODERS[layout.name](message, DEFAULT_LIMITS)
    for body in (meta[:-1], meta[1:], b"\x06\x00", b"\x06\x00" + b"text" * 40):
        message = HARMLESS.clone(bodies=(body,))
        assert decode(encode(message, layout), first=layout) == message


def test_a_meta_frame_with_more_entries_than_a_reader_takes_is_one_all_the_same() -> None:
    """Else a long trace would decide the format."""
    routing = DELETE.push_router_address("", b"").routing * (DEFAULT_LIMITS.entries + 1)
    assert is_meta_frame(Writer(DELETE.clone(routing=routing), layouts.V6, Limits(entries=2**16)).write()[-1])
