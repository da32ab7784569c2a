"""Hypothesis strategies: messages that a layout can carry exactly, and frames that nobody should send."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from hopline import Message, MessageIdentifier
from hopline.message import RoutingEntry, version_from_text, write_extension
from hopline.wire import Layout, Type, encode, layouts
from hopline.wire.reader import is_meta_frame

I64 = st.integers(-(2**63), 2**63 - 1)
U16 = st.integers(0, 2**16 - 1)
BYTES = st.binary(max_size=40)
TEXT = st.text(max_size=20).filter(lambda text: "\ufffd" not in text and _is_utf8(text))
URIS = st.one_of(
    st.builds("tcp://10.0.0.{}:{}".format, st.integers(0, 255), st.integers(1, 65535)),
    st.sampled_from(["inproc://some-name", "ipc:///tmp/socket", "tcp://[2001:db8::1]:5001", "x-y+z.1:opaque", "tcp:"]),
)
WORDS_THAT_LOOK_LIKE_VERSIONS = st.sampled_from(
    [b"\x04\x00", b"\x05\x00", b"\x06\x00", b"\x04\x00\x00\x00", b"\x05\x00\x00\x00", b"\x06\x00" + bytes(117)]
)
PLAIN = (
    st.text(max_size=9).filter(lambda text: _is_utf8(text)) | st.integers(-(2**63), 2**63) | st.booleans() | st.none()
)
NAMES = st.text(max_size=9).filter(lambda text: _is_utf8(text))
EXTENSIONS = st.just(b"") | st.dictionaries(
    NAMES, PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(NAMES, PLAIN, max_size=3), max_size=3
).map(write_extension)
BODIES = st.one_of(st.binary(max_size=64), WORDS_THAT_LOOK_LIKE_VERSIONS)
LAST_BODIES = BODIES.filter(lambda body: not is_meta_frame(body))  # the first format refuses what would be read as V6


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def versions(layout: Layout) -> st.SearchStrategy[int | bytes]:
    text = any(row.type is Type.VERSION_TEXT for row in layout.fixed)
    if not text:
        return U16
    other_texts = st.binary(max_size=8).filter(lambda raw: isinstance(version_from_text(raw), bytes))
    if layout is layouts.V4C:  # two bytes are a number there
        other_texts = other_texts.filter(lambda raw: len(raw) != 2)
    return st.one_of(U16, other_texts)


@st.composite
def messages(draw: st.DrawFn, layout: Layout) -> Message:
    """A message whose every field the layout has a place for."""
    is_first = layout.wire_format == "first"
    version = versions(layout)
    if layout is layouts.V4C:  # the callbacks' versions are read like the message's
        version = st.one_of(
            U16, st.binary(min_size=3, max_size=8).filter(lambda raw: isinstance(version_from_text(raw), bytes))
        )
    partition = st.just(b"") if is_first else BYTES
    routes = URIS if any(row.type is Type.URI for group in layout.entries for row in group.fields) else TEXT
    scale = next((row.scale for row in layout.fixed if row.name == "ttl_ticks"), 1)
    limit = (2**63 - 1) // scale
    values: dict[str, st.SearchStrategy[Any]] = {
        "identity": BYTES,
        "version": version,
        "partition": BYTES,
        "bodies": st.tuples(LAST_BODIES)
        if is_first
        else st.lists(BODIES, min_size=1, max_size=3 if layout.several_bodies else 1).map(tuple),
        "distribution": st.integers(0, 1) if is_first else U16,
        "correlation_id": BYTES,
        "ttl_ticks": st.integers(-limit, limit).map(lambda units: units * scale),
        "trace_options": st.integers(0, 1) if is_first else U16,
        "hops": st.integers(0, 2**31 - 1) if is_first else U16,
        "receiver_identity": BYTES,
        "receiver_node_identity": BYTES,
        "callback_point": st.lists(st.builds(MessageIdentifier, BYTES, version, partition), max_size=4).map(tuple),
        "callback_key": I64,
        "callback_receiver_identity": BYTES,
        "callback_receiver_node_identity": BYTES,
        "socket_identity": BYTES,
        "signature": BYTES,
        "domain": TEXT,
        "routing": st.lists(st.builds(RoutingEntry, routes, BYTES), max_size=4).map(tuple),
        "extension": EXTENSIONS,
    }
    return Message(**{name: draw(values[name]) for name in layout.names()})


def common_messages() -> st.SearchStrategy[Message]:
    """Messages with every field set to something that every format can say, as far as it has the field at all."""
    return st.builds(
        Message,
        identity=BYTES,
        version=U16,
        partition=BYTES,
        bodies=st.tuples(LAST_BODIES),
        distribution=st.integers(0, 1),
        correlation_id=BYTES,
        ttl_ticks=st.integers(-(2**63) // 10_000 + 1, 2**63 // 10_000 - 1).map(lambda units: units * 10_000),
        trace_options=st.integers(0, 1),
        hops=U16,
        receiver_identity=BYTES,
        receiver_node_identity=BYTES,
        callback_point=st.lists(st.builds(MessageIdentifier, BYTES, U16, BYTES), max_size=4).map(tuple),
        callback_key=I64,
        callback_receiver_identity=BYTES,
        callback_receiver_node_identity=BYTES,
        signature=BYTES,
        domain=TEXT,
        routing=st.lists(st.builds(RoutingEntry, URIS, BYTES), max_size=4).map(tuple),
        extension=EXTENSIONS,
    )


@st.composite
def disguises(draw: st.DrawFn, layout: Layout, worn: Layout) -> Message:
    """A message whose bodies, and perhaps other fields, are frames of a message in another format (or the same).

    What an attacker tries who decides about the bodies only: the frames of the other message in their order, with or
    without its envelope and its last frame, whose place the last frame of the carrying message takes.
    """
    message = draw(messages(layout))
    frames = encode(draw(messages(worn)), worn)
    first = draw(st.sampled_from([0, 1, 2]) | st.integers(0, len(frames) - 1))
    last = draw(st.sampled_from([len(frames), len(frames) - 1, len(frames) - 2]))
    bodies = frames[first:last] + [b""] * draw(st.integers(0, 2)) or [b""]
    if not layout.several_bodies:
        bodies = [draw(st.sampled_from([frames[-1], bodies[-1], b"".join(frames)]) | st.sampled_from(frames))]
    changes: dict[str, Any] = {"bodies": tuple(bodies)}
    for name in draw(st.sets(st.sampled_from(["receiver_identity", "correlation_id", "signature", "socket_identity"]))):
        if name in layout.names():
            changes[name] = draw(st.sampled_from(frames))
    return message.clone(**changes)


ENVELOPES = st.lists(st.binary(max_size=8), max_size=6)
"""What sockets may put in front: nothing at all, or any number of frames."""

GARBAGE = st.lists(
    st.one_of(
        st.just(b""),
        st.binary(max_size=12),
        st.binary(min_size=8, max_size=8),
        WORDS_THAT_LOOK_LIKE_VERSIONS,
        st.binary(max_size=200).map(lambda tail: b"\x06\x00" + tail),
    ),
    max_size=40,
)
