"""When the fast paths decline. What they decline is then read and written carefully, with the same result."""

from __future__ import annotations

import struct
import sys
import tracemalloc

import pytest
from tools.compiler.emit import VIEW_ORDER

from hopline import Message, MessageIdentifier
from hopline.errors import LocalError
from hopline.message import RoutingEntry
from hopline.wire import DEFAULT_LIMITS, Layout, Limits, RemoteError, decode, encode, layouts, peek
from hopline.wire.compiled import DECODERS, ENCODERS, VIEWS, v4, v6
from hopline.wire.fast_path import LARGEST_USUAL_LIST, MOST_USUAL_ENTRIES, REMEMBERED_LISTS, STUMBLES, Uris
from hopline.wire.reader import Reader
from hopline.wire.shapes import LARGEST_TEMPLATE, LARGEST_USUAL_SIZE, Heads, Templates, cutter, head_reader
from hopline.wire.writer import Writer

COMPILED = [layouts.LAYOUTS[name] for name in ENCODERS]
FIRSTS = [layouts.FIRST, layouts.FIRST_TICKS]
MULTIPART = [layout for layout in COMPILED if not layout.meta]
WITH_DESCRIPTORS = [layouts.V4, layouts.V5_INT32, layouts.V5]

HELLO = Message(b"HELLO", bodies=(b"world",))
LONG = b"x" * (LARGEST_USUAL_LIST + 1)
TRACED = HELLO.push_router_address("tcp://1:2", b"router").clone(callback_point=(MessageIdentifier(b"ANSWER"),))


def name_of(value: object) -> str:
    return value.name if isinstance(value, Layout) else ""


def declines_to_write(message: Message, layout: Layout, limits: Limits = DEFAULT_LIMITS) -> None:
    with pytest.raises(STUMBLES):
        ENCODERS[layout.name](message, limits)


def declines_to_read(frames: list[bytes], layout: Layout, limits: Limits = DEFAULT_LIMITS) -> None:
    with pytest.raises(STUMBLES):
        DECODERS[layout.name](frames, limits)


@pytest.mark.parametrize("layout", COMPILED, ids=name_of)
def test_the_usual_message_takes_the_fast_path_both_ways(layout: Layout) -> None:
    frames = ENCODERS[layout.name](TRACED, DEFAULT_LIMITS)
    assert DECODERS[layout.name](frames, DEFAULT_LIMITS) == TRACED
    assert VIEWS[layout.name](frames).identifier == TRACED.identifier


@pytest.mark.parametrize("layout", COMPILED, ids=name_of)
@pytest.mark.parametrize(
    "message",
    [
        HELLO.clone(routing=(RoutingEntry("tcp://1:2", LONG),)),
        HELLO.clone(callback_point=(MessageIdentifier(LONG),)),
        HELLO.clone(routing=(RoutingEntry("tcp://1:2", b""),) * (MOST_USUAL_ENTRIES + 1)),
        HELLO.clone(callback_point=(MessageIdentifier(b""),) * (MOST_USUAL_ENTRIES + 1)),
    ],
    ids=["routing", "callbacks", "many routers", "many callbacks"],
)
def test_long_lists_are_not_remembered(layout: Layout, message: Message) -> None:
    declines_to_write(message, layout)
    frames = encode(message, layout)
    assert decode(frames, first=layout if layout in FIRSTS else layouts.FIRST) == message
    assert Reader(frames, layout).read() == message


@pytest.mark.parametrize("layout", COMPILED, ids=name_of)
def test_what_a_peer_can_make_us_remember_is_bounded(layout: Layout) -> None:
    """Read and forward messages whose lists are as large as a memory keeps, each list a new one."""
    module = sys.modules[ENCODERS[layout.name].__module__]
    memories = [value for value in vars(module).values() if hasattr(value, "cache_info")]
    assert memories
    for memory in memories:
        assert memory.cache_info().maxsize == REMEMBERED_LISTS
        memory.cache_clear()
    samples = 64
    tracemalloc.start()
    for number in range(samples):
        routing = (RoutingEntry(f"tcp://1:{number}", b"n%d" % number),) * MOST_USUAL_ENTRIES
        callbacks = (MessageIdentifier(b"m%d" % number),) * MOST_USUAL_ENTRIES
        frames = ENCODERS[layout.name](HELLO.clone(routing=routing, callback_point=callbacks), DEFAULT_LIMITS)
        DECODERS[layout.name]([bytes(bytearray(frame)) for frame in frames], DEFAULT_LIMITS)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(memory.cache_info().currsize for memory in memories)
    assert kept / samples * REMEMBERED_LISTS < 64 * 1024 * 1024


@pytest.mark.parametrize("layout", COMPILED, ids=name_of)
@pytest.mark.parametrize(
    "limits", [Limits(frames=3), Limits(entries=1), Limits(frame_size=50), Limits(message_size=50)], ids=str
)
def test_what_may_be_beyond_a_limit_is_looked_at_carefully(layout: Layout, limits: Limits) -> None:
    large = TRACED.push_router_address("tcp://3:4", b"router")
    declines_to_write(large, layout, limits)
    declines_to_read(encode(large, layout), layout, limits)


@pytest.mark.parametrize("layout", COMPILED, ids=name_of)
@pytest.mark.parametrize(
    "changes", [{"bodies": ("text",)}, {"socket_identity": "text"}, {"bodies": (b"1", b"2")}], ids=str
)
def test_odd_bodies_and_types_are_left_to_the_careful_writer(layout: Layout, changes: dict[str, object]) -> None:
    declines_to_write(HELLO.clone(**changes), layout)


def test_what_only_looks_like_bytes_is_no_field_of_a_meta_frame() -> None:
    for name in ("partition", "identity", "signature", "correlation_id"):
        message = HELLO.clone(**{name: memoryview(b"bytes")})
        declines_to_write(message, layouts.V6)
        with pytest.raises(LocalError, match=f"{name}: expected bytes"):
            encode(message, layouts.V6)


@pytest.mark.parametrize("layout", FIRSTS, ids=name_of)
def test_numbers_that_the_first_format_refuses_are_declined(layout: Layout) -> None:
    declines_to_write(HELLO.clone(hops=-1), layout)
    declines_to_write(HELLO.clone(version=1000), layout)
    for position, content in ((15, struct.pack("<i", -1)), (2, b"no delimiter"), (8, b"\x02\0\0\0")):
        frames = encode(HELLO, layout)
        frames[-position] = content
        declines_to_read(frames, layout)
        with pytest.raises(STUMBLES):
            VIEWS[layout.name](frames)


def test_a_lifetime_that_is_no_whole_millisecond_is_declined() -> None:
    declines_to_write(HELLO.clone(ttl_ticks=1), layouts.FIRST)
    frames = encode(HELLO, layouts.FIRST)
    frames[-3] = struct.pack("<q", 2**62)
    declines_to_read(frames, layouts.FIRST)


@pytest.mark.parametrize("layout", [*FIRSTS, layouts.V4, layouts.V5_INT32], ids=name_of)
@pytest.mark.parametrize("uri", ["tcp://1:2/", "other:scheme", "nowhere"])
def test_unusual_uris_are_declined(layout: Layout, uri: str) -> None:
    declines_to_write(HELLO.push_router_address(uri, b"r"), layout)
    for odd in (b"other:scheme", b"tcp://" + LONG):
        frames = encode(TRACED, layout)
        frames[frames.index(b"tcp://1:2")] = odd
        declines_to_read(frames, layout)


def test_the_memory_for_uris_is_bounded() -> None:
    uris = Uris()
    for port in range(REMEMBERED_LISTS + 100):
        assert uris[b"tcp://1:%d" % port] == f"tcp://1:{port}"
    assert len(uris) == 100


@pytest.mark.parametrize("layout", MULTIPART, ids=name_of)
def test_entries_that_lead_outside_are_declined(layout: Layout) -> None:
    for name in ("routing", "callback_point"):
        for offset in (0, 100):
            frames = encode(TRACED, layout)
            point_entries(frames, layout, name, offset)
            declines_to_read(frames, layout)


def point_entries(frames: list[bytes], layout: Layout, name: str, offset: int) -> None:
    for row in layout.fixed:
        names = [word.name for word in row.words]
        if row.name == f"{name}.offset":
            frames[-row.position] = struct.pack("<i", offset)
        elif f"{name}.offset" in names:
            frames[-row.position] = struct.pack("<H", offset) + frames[-row.position][2:]


@pytest.mark.parametrize("layout", WITH_DESCRIPTORS, ids=name_of)
@pytest.mark.parametrize("body", [(0, 1), (18, 2), (18, 0), (100, 1)], ids=str)
def test_odd_bodies_are_left_to_the_careful_reader(layout: Layout, body: tuple[int, int]) -> None:
    for message in (HELLO, TRACED):
        frames = encode(message, layout)
        frames[-2] = struct.pack("<4H", *body, 0, 0)
        declines_to_read(frames, layout)


@pytest.mark.parametrize("layout", WITH_DESCRIPTORS, ids=name_of)
def test_a_version_frame_below_an_empty_one_is_a_body_of_the_first_format(layout: Layout) -> None:
    frames = encode(TRACED, layout)
    frames[-2] = b""
    declines_to_read(frames, layout)
    with pytest.raises(STUMBLES):
        VIEWS[layout.name](frames)


def test_an_early_layout_under_the_number_four_is_declined() -> None:
    for layout in (layouts.V4A, layouts.V4B, layouts.V4C, layouts.V4D, layouts.V4E):
        frames = encode(HELLO, layout)
        declines_to_read(frames, layouts.V4)
        with pytest.raises(STUMBLES):
            VIEWS["V4"](frames)


def test_what_a_v4_view_remembers_is_bounded() -> None:
    v4._numbers.clear()
    for hops in range(REMEMBERED_LISTS + 100):
        assert VIEWS["V4"](encode(HELLO.clone(hops=hops), layouts.V4)).hops == hops
    assert len(v4._numbers) == 100


@pytest.mark.parametrize("message", [HELLO, TRACED], ids=["minimal", "traced"])
@pytest.mark.parametrize("position", [2, 5, 7, 12, 13])
def test_a_v4_view_takes_no_frame_of_another_width_for_one_that_it_remembers(position: int, message: Message) -> None:
    usual = encode(message, layouts.V4)
    assert VIEWS["V4"](usual).identifier == message.identifier
    for other in (usual[-position] + b"\0", usual[-position][:-1], b""):
        frames = [*usual[:-position], other, *usual[len(usual) - position + 1 :]]
        with pytest.raises(STUMBLES):
            VIEWS["V4"](frames)


def test_a_meta_frame_alone_is_no_message() -> None:
    meta = encode(HELLO, layouts.V6)[-1]
    for read in (decode, peek):
        with pytest.raises(RemoteError, match="too_few_frames"):
            read([meta])


def test_a_body_descriptor_that_is_too_short_makes_the_view_decline() -> None:
    frames = encode(HELLO, layouts.V5)
    frames[-2] = b""
    with pytest.raises(STUMBLES):
        VIEWS["V5"](frames)


@pytest.fixture
def fresh_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the shapes and templates of whatever ran before."""
    heads: Heads = {}
    monkeypatch.setattr(v6, "_heads", heads)
    monkeypatch.setattr(v6, "_read_head", head_reader(layouts.V6, VIEW_ORDER, heads))
    monkeypatch.setattr(v6, "_cut", cutter(layouts.V6, {}))
    for memory in ("_cuts", "_known", "_written"):
        monkeypatch.setattr(v6, memory, {})
    monkeypatch.setattr(v6, "_templates", Templates(layouts.V6))


# A V6 entry of 8 + 4 bytes: its size, the size of its text, no text, the size of its identity, four bytes of it.
ENTRY = struct.pack("<iii", 12, 0, 4) + b"node"


def with_entry(entry: bytes) -> list[bytes]:
    frames = encode(HELLO.push_router_address("", b"node"), layouts.V6)
    assert ENTRY in frames[-1]
    frames[-1] = frames[-1].replace(ENTRY, entry)
    return frames


@pytest.mark.parametrize(
    "entry",
    [
        struct.pack("<iii", 4, 0, 4) + b"node",
        struct.pack("<iii", 11, 0, 4) + b"node",
        struct.pack("<iii", 12, 0, 5) + b"node",
        struct.pack("<iii", 12, 9, 4) + b"node",
        struct.pack("<iii", -1, 0, 4) + b"node",
        struct.pack("<iii", 12, -1, 4) + b"node",
        struct.pack("<iii", 200, 0, 4) + b"node",
    ],
    ids=["far too small", "too small", "identity too long", "text too long", "negative", "negative text", "too large"],
)
@pytest.mark.usefixtures("fresh_shapes")
def test_entries_whose_sizes_lie_are_declined(entry: bytes) -> None:
    usual = with_entry(ENTRY)
    assert DECODERS["V6"](usual, DEFAULT_LIMITS).routing[0].identity == b"node"  # so that the shape is known
    declines_to_read(with_entry(entry), layouts.V6)


@pytest.mark.usefixtures("fresh_shapes")
def test_a_frame_of_a_known_length_with_other_sizes_is_measured_again() -> None:
    one, other = Message(b"ABCD", partition=b"xy"), Message(b"AB", partition=b"wxyz")
    for _ in range(2):
        for message in (one, other):
            frames = encode(message, layouts.V6)
            assert DECODERS["V6"](frames, DEFAULT_LIMITS) == message
            assert VIEWS["V6"](frames).identifier == message.identifier


SHAPES_OF_ONE_KIND = (
    HELLO,
    HELLO.clone(callback_receiver_node_identity=b"node", signature=b"s" * 32),
    HELLO.clone(receiver_node_identity=b"node", domain="d"),
    HELLO.clone(domain="orders"),
)


@pytest.mark.usefixtures("fresh_shapes")
@pytest.mark.parametrize("known", SHAPES_OF_ONE_KIND, ids=range(4))
def test_a_kind_may_come_in_several_shapes(known: Message) -> None:
    assert VIEWS["V6"](encode(known, layouts.V6)).identifier == known.identifier
    for hops, message in enumerate(2 * SHAPES_OF_ONE_KIND):
        frames = encode(message.clone(hops=hops), layouts.V6)
        view = VIEWS["V6"](frames)
        assert view == Reader(frames, layouts.V6).view()
        assert (view.receiver_node_identity, view.hops) == (message.receiver_node_identity, hops)
    assert len(v6._heads) == 1  # the first shape of a kind stays the one that is remembered


@pytest.mark.usefixtures("fresh_shapes")
def test_a_kind_with_a_very_long_name_is_not_remembered() -> None:
    for size in (LARGEST_USUAL_SIZE, LARGEST_USUAL_SIZE + 1, 2 * LARGEST_USUAL_SIZE):
        for changes in ({"identity": b"x" * size}, {"partition": b"x" * size}):
            frames = encode(HELLO.clone(**changes), layouts.V6)
            for _ in range(2):
                assert VIEWS["V6"](frames) == Reader(frames, layouts.V6).view()
    assert len(v6._heads) == 2


@pytest.mark.usefixtures("fresh_shapes")
def test_another_number_than_six_is_declined() -> None:
    usual = encode(HELLO, layouts.V6)
    for _ in range(2):  # whether or not the usual one is known
        for number in (b"\x06\x01", b"\x07\x00"):
            frames = [*usual[:-1], number + usual[-1][2:]]
            declines_to_read(frames, layouts.V6)
            with pytest.raises(STUMBLES):
                VIEWS["V6"](frames)
            for read in (decode, peek):
                with pytest.raises(RemoteError, match="unknown_format"):
                    read(frames)
        assert VIEWS["V6"](usual).identity == b"HELLO"


@pytest.mark.usefixtures("fresh_shapes")
def test_what_peek_says_does_not_depend_on_what_was_read_before() -> None:
    good = encode(Message(b"HISTORY", correlation_id=b"c" * 10), layouts.V6)
    at = good[-1].rindex(b"c" * 10) - 4
    bad = [*good[:-1], good[-1][:at] + struct.pack("<i", -1) + good[-1][at + 4 :]]
    before = peek(bad)
    assert decode(good).identity == before.identity == b"HISTORY"
    assert peek(bad) == before


@pytest.mark.usefixtures("fresh_shapes")
@pytest.mark.parametrize("sizes", [(14, 4), (18, 9), (17, 8)], ids=["ends before", "identity too long", "too small"])
def test_a_list_that_does_not_fill_its_section_is_declined(sizes: tuple[int, int]) -> None:
    message = HELLO.clone(callback_point=(MessageIdentifier(b"ABCDEFGH"),), callback_receiver_identity=b"")
    frames = encode(message, layouts.V6)
    assert DECODERS["V6"](frames, DEFAULT_LIMITS) == message
    entry = struct.pack("<iiHi", 18, 0, 1, 8) + b"ABCDEFGH"
    assert entry in frames[-1]
    frames[-1] = frames[-1].replace(entry, struct.pack("<iiHi", sizes[0], 0, 1, sizes[1]) + b"ABCDEFGH")
    declines_to_read(frames, layouts.V6)


NEW_IN_EACH = [
    {"callback_key": number, "correlation_id": b"%036d" % number, "ttl_ticks": number, "signature": b"%032d" % number}
    for number in range(10)
]


@pytest.mark.usefixtures("fresh_shapes")
def test_messages_that_differ_only_in_what_is_new_share_a_template() -> None:
    for new in NEW_IN_EACH:
        message = TRACED.clone(**new)
        frames = ENCODERS["V6"](message, DEFAULT_LIMITS)
        assert frames == Writer(message, layouts.V6, DEFAULT_LIMITS).write()
        assert DECODERS["V6"](frames, DEFAULT_LIMITS) == message
    assert (len(v6._written), len(v6._known), len(v6._templates)) == (1, 1, 1)


@pytest.mark.usefixtures("fresh_shapes")
def test_a_template_is_no_template_for_a_frame_of_its_length_with_other_holes() -> None:
    """Whatever is known by then, a size that lies about a hole is never believed."""
    sizes = [(48, 36), (32, 52), (36, 48)]
    known = [TRACED.clone(signature=b"s" * signature, correlation_id=b"c" * flow) for signature, flow in sizes]
    for message in known * 3:
        frames = ENCODERS["V6"](message, DEFAULT_LIMITS)
        assert frames == Writer(message, layouts.V6, DEFAULT_LIMITS).write()
        assert DECODERS["V6"](frames, DEFAULT_LIMITS) == message
    frames = encode(known[0], layouts.V6)
    for size in range(60):
        meta = frames[-1].replace(struct.pack("<I", 48) + b"s", struct.pack("<I", size) + b"s")
        forged = [*frames[:-1], meta]
        try:
            expected = Reader(forged, layouts.V6).read()
        except RemoteError:
            declines_to_read(forged, layouts.V6)
        else:
            assert DECODERS["V6"](forged, DEFAULT_LIMITS) == expected


@pytest.mark.usefixtures("fresh_shapes")
def test_the_memory_for_templates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v6, "MOST_TEMPLATES", 10)
    for number in range(15):
        message = HELLO.clone(receiver_identity=b"hub %03d" % number)
        assert decode(encode(message, layouts.V6)) == message
    assert (len(v6._written), len(v6._known)) == (5, 5)


@pytest.mark.usefixtures("fresh_shapes")
def test_large_frames_are_no_templates() -> None:
    message = HELLO.clone(receiver_identity=b"x" * LARGEST_TEMPLATE)
    for _ in range(2):
        assert decode(encode(message, layouts.V6)) == message
    assert (v6._written, v6._known, v6._cuts) == ({}, {}, {})
