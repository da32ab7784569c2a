"""Edges of the codec: offsets, limits, and what cannot be written."""

from __future__ import annotations

import copy
import struct
import tracemalloc
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from tools.compiler.emit import VIEW_ORDER

from hopline import Message, MessageIdentifier, WireFormat
from hopline.errors import ArgumentError, LocalError
from hopline.message import RoutingEntry
from hopline.wire import Layout, Limits, Reason, RemoteError, annotate, decode, detect, encode, layouts, peek
from hopline.wire.reader import Reader
from hopline.wire.shapes import MOST_SHAPES, Heads, Packers, Shapes, cutter, head_reader, sections
from tests.wire.test_laws import assert_both_paths_agree

HELLO = Message(b"HELLO", bodies=(b"world",))


def fault(frames: list[bytes], **options: object) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        decode(frames, **options)  # type: ignore[arg-type]
    return caught.value


def words(*numbers: int) -> bytes:
    return struct.pack("<4H", *numbers)


# -- offsets -----------------------------------------------------------------------------------------------------------


def swept(position: int, filler: bytes) -> Iterator[list[bytes]]:
    """Every small combination of offset, count and divisor in a descriptor, over frames that all read as something."""
    frames = [filler] * 7 + encode(HELLO, WireFormat.V5)[-17:]
    frames[-2] = words(20, 1, 0, 0)
    for offset in range(len(frames) + 4):
        for count in range(5):
            for divisor in range(6):
                frames[-position] = words(offset, count, divisor, 0)
                yield list(frames)


@pytest.mark.parametrize("position", [12, 13], ids=["callbacks", "routers"])
@pytest.mark.parametrize("number", [b"\x05\x00", b"\x04\x00\x00\x00"], ids=["V5", "V4"])
def test_offsets_counts_and_divisors_mean_the_same_on_both_paths(position: int, number: bytes) -> None:
    read = 0
    for frames in swept(position, b"tcp://1:2"):
        frames[-1] = number
        assert_both_paths_agree(frames, layouts.V5)
        read += bool(detect(frames)) and not isinstance(outcome_of(frames), RemoteError)
    assert 200 < read < 840


def outcome_of(frames: list[bytes]) -> Message | RemoteError:
    try:
        return decode(frames)
    except RemoteError as error:
        return error


@pytest.mark.parametrize("rows", [(5, 6), (13, 14)], ids=["callbacks", "routers"])
def test_offsets_and_counts_of_the_first_format_mean_the_same_on_both_paths(rows: tuple[int, int]) -> None:
    frames = [b"tcp://1:2"] * 7 + encode(HELLO, WireFormat.FIRST)[-15:]
    for offset in range(-3, len(frames) + 4):
        for count in range(-2, 6):
            frames[-rows[0]] = struct.pack("<i", offset)
            frames[-rows[1]] = struct.pack("<i", count)
            assert_both_paths_agree(list(frames), layouts.FIRST)


def test_body_offset_and_count_mean_the_same_on_both_paths() -> None:
    for wire_format in (WireFormat.V4, WireFormat.V5):
        frames = [b"a", b"b", b"c", *encode(HELLO, wire_format)]
        for offset in range(len(frames) + 3):
            for count in range(6):
                frames[-2] = words(offset, count, 0, 0)
                assert_both_paths_agree(list(frames), layouts.V5)
    frames = [b"a", b"b", b"c", *encode(HELLO, WireFormat.V6)]
    for offset in range(len(frames) + 3):
        for count in range(6):
            frames[-1] = frames[-1][:-8] + words(offset, count, 0, 0)
            assert_both_paths_agree(list(frames), layouts.V6)


@pytest.mark.parametrize("layout", [layouts.V4, layouts.V5], ids=lambda layout: layout.name)
def test_several_bodies_are_read_whether_the_offset_is_of_the_top_or_of_the_bottom_one(layout: Layout) -> None:
    message = HELLO.clone(bodies=(b"one", b"two", b"three"), callback_point=(MessageIdentifier(b"X"),))
    frames = encode(message, layout)
    assert decode(frames).bodies == message.bodies
    offset, count, _, _ = struct.unpack("<4H", frames[-2])
    assert (offset, count) == (23, 3)
    assert frames[-offset] == b"one"  # what a reader that knows one body only takes
    frames[-2] = words(21, 3, 0, 0)
    assert decode(frames).bodies == message.bodies


def test_several_bodies_above_unknown_frames_or_without_entries_are_never_mixed_with_headers() -> None:
    bodies = (b"one", b"two", b"three")
    full = HELLO.clone(bodies=bodies, callback_key=7, callback_receiver_node_identity=b"node")
    for layout in (layouts.V4, layouts.V5):
        frames = encode(full, layout)
        for offset in (20, 18):  # of the first, of the lowest
            frames[-2] = words(offset, 3, 0, 0)
            assert detect(frames) is layout
            assert decode(frames) == full
        frames = encode(full.clone(callback_point=(MessageIdentifier(b"CB", 1, b"PART"),)), layout)
        fixed, callbacks = frames[-17:], frames[-20:-17]
        fixed[-12] = words(20, 1, 3, 0)
        for offset in (25, 23):
            fixed[-2] = words(offset, 3, 0, 0)
            assert decode([b"", b"", *bodies, *callbacks, b"new", b"newer", *fixed]).bodies == bodies


def test_an_early_layout_has_one_body() -> None:
    with pytest.raises(LocalError, match="bodies: expected one body frame"):
        encode(HELLO.clone(bodies=(b"one", b"two")), layouts.V4A)


def test_a_fault_says_what_where_expected_and_found() -> None:
    frames = encode(HELLO, WireFormat.V5)
    frames[-3] = b"\x01\x02"
    error = fault(frames)
    assert (error.reason, error.field, error.position, error.found) == (Reason.TOO_SHORT, "ttl_ticks", 3, b"\x01\x02")
    assert str(error) == "too_short: ttl_ticks at n-3: expected 8 bytes (i64), found 2 bytes 0102"
    frames[-3] = b""
    assert str(fault(frames)).endswith("found an empty frame")


def test_a_fault_in_the_meta_frame_has_its_byte() -> None:
    frames = encode(HELLO, WireFormat.V6)
    frames[-1] = frames[-1][:20]
    error = fault(frames)
    assert (error.reason, error.position, error.offset) == (Reason.LENGTH_OUT_OF_RANGE, 1, 17)
    assert error.place == "n-1, byte 17"


def test_a_fault_of_the_whole_message_has_no_place() -> None:
    error = fault([b""])
    assert error.reason is Reason.TOO_FEW_FRAMES
    assert error.place == "the message"


def test_a_long_value_is_shown_by_its_beginning() -> None:
    assert str(fault([b"", b"?" * 100])).endswith("found 100 bytes " + "3f" * 24 + "...")


@pytest.mark.parametrize(
    ("position", "content", "reason"),
    [
        (8, struct.pack("<i", 2), Reason.BAD_VALUE),
        (12, struct.pack("<q", 1), Reason.BAD_VALUE),
        (15, struct.pack("<i", -1), Reason.BAD_VALUE),
        (3, struct.pack("<q", 2**63 // 10_000 + 1), Reason.BAD_VALUE),
        (15, b"", Reason.TOO_SHORT),
    ],
)
def test_values_that_the_first_format_does_not_allow_are_refused(position: int, content: bytes, reason: Reason) -> None:
    frames = encode(HELLO, WireFormat.FIRST)
    frames[-position] = content
    error = fault(frames)
    assert (error.reason, error.position) == (reason, position)


def test_the_largest_lifetime_fits_in_the_dialect_that_counts_ticks() -> None:
    message = HELLO.clone(ttl_ticks=2**63 - 1)
    assert decode(encode(message, layouts.FIRST_TICKS), first=layouts.FIRST_TICKS) == message
    assert fault(encode(message, layouts.FIRST_TICKS)).reason is Reason.BAD_VALUE


@pytest.mark.parametrize("wire_format", [WireFormat.FIRST, WireFormat.V4])
def test_a_router_without_a_uri_is_refused_where_the_reference_held_a_uri(wire_format: WireFormat) -> None:
    frames = encode(HELLO.push_router_address("tcp://1:2", b"r"), wire_format)
    frames[frames.index(b"tcp://1:2")] = b"nowhere"
    assert fault(frames).reason is Reason.BAD_URI


# -- limits ------------------------------------------------------------------------------------------------------------

TRACED = HELLO.push_router_address("tcp://1:2", b"r").push_router_address("tcp://3:4", b"s")


@pytest.mark.parametrize("wire_format", WireFormat)
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(frames=3), Reason.TOO_MANY_FRAMES),
        (Limits(entries=1), Reason.TOO_MANY_ENTRIES),
        (Limits(frame_size=20), Reason.FRAME_TOO_LARGE),
        (Limits(message_size=60), Reason.MESSAGE_TOO_LARGE),
    ],
    ids=lambda value: value if isinstance(value, Reason) else "",
)
def test_every_limit_is_named_in_both_directions(wire_format: WireFormat, limits: Limits, reason: Reason) -> None:
    message = TRACED.clone(bodies=(b"x" * 30,))
    frames = encode(message, wire_format)
    assert fault(frames, limits=limits).reason is reason
    with pytest.raises(LocalError, match="at most"):
        encode(message, wire_format, limits=limits)


@pytest.mark.parametrize("wire_format", WireFormat)
def test_a_message_that_just_fits_is_read_and_written(wire_format: WireFormat) -> None:
    frames = encode(TRACED, wire_format)
    limits = Limits(frames=len(frames), entries=2, frame_size=max(map(len, frames)), message_size=sum(map(len, frames)))
    assert decode(frames, limits=limits) == TRACED
    assert peek(frames, limits=limits).identity == b"HELLO"
    assert encode(TRACED, wire_format, limits=limits) == frames


@pytest.mark.parametrize("wire_format", WireFormat)
def test_large_lists_are_read_and_written(wire_format: WireFormat) -> None:
    message = HELLO.clone(
        routing=tuple(RoutingEntry(f"tcp://10.0.0.1:{port}", b"router-%d" % port) for port in range(1000)),
        callback_point=tuple(MessageIdentifier(b"M%d" % number) for number in range(1000)),
    )
    assert decode(encode(message, wire_format)) == message


def hostile_messages() -> Iterator[list[bytes]]:
    """Messages that claim far more than they hold, as large as the limits allow."""
    frames = [b"x" * 8] * 8000 + encode(HELLO, WireFormat.V5)[-17:]
    for divisor in (0, 1, 2, 3, 0xFFFF):
        for count in (1000, 0xFFFF):
            frames[-12] = frames[-13] = words(18, count, divisor, 0)
            yield list(frames)
    meta = encode(HELLO.push_router_address("", b""), WireFormat.V6)[-1]
    for length in (0, 4, 2**31 - 1, 2**32 - 1):
        yield [b"", b"", b"", meta.replace(bytes([8, 0, 0, 0]), length.to_bytes(4, "little")) + bytes(1_000_000)]


def test_memory_stays_bounded_whatever_a_message_claims() -> None:
    for frames in hostile_messages():
        size = sum(map(len, frames)) + 64 * len(frames)
        tracemalloc.start()
        outcome_of(frames)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 40 * size


class Counting(list[bytes]):
    """Frames that count how often one is looked at."""

    looks = 0

    def __getitem__(self, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204
        self.looks += 1
        return super().__getitem__(at)


@pytest.mark.parametrize("divisor", [1, 2, 3])
def test_the_work_grows_with_the_frames_and_no_faster(divisor: int) -> None:
    def looks(entries: int) -> int:
        frames = Counting([b"tcp://x"] * (4 * entries) + encode(HELLO, WireFormat.V5)[-17:])
        frames[-12] = frames[-13] = words(18, entries, divisor, 0)
        frames[-2] = words(18, 1, 0, 0)
        decode(frames)
        return frames.looks

    assert looks(300) > 300  # so many that both times it is the careful path
    assert looks(900) < 3.2 * looks(300)


def test_the_memory_for_shapes_is_bounded() -> None:
    shapes: Shapes = {}
    heads: Heads = {}
    cut, read_head = cutter(layouts.V6, shapes), head_reader(layouts.V6, VIEW_ORDER, heads)
    packers = Packers(sections(layouts.V6).tail)
    for number in range(MOST_SHAPES + 100):
        meta = encode(Message(b"%d" % number, correlation_id=b"x" * number), WireFormat.V6)[-1]
        assert b"x" * number in cut(meta)
        assert read_head(meta)[0] == b"%d" % number
        assert packers[0, number](0, b"", number, b"x" * number, 0, 2, 1) == meta[-24 - number :]
    assert len(shapes) == len(heads) == len(packers) == 100
    for length in (3, 4, 3, 4):  # the same length of the frame, divided otherwise
        meta = encode(Message(b"X", domain="x" * length, signature=b"y" * (20 - length)), WireFormat.V6)[-1]
        assert b"x" * length in cut(meta)


@pytest.mark.parametrize("layout", [layouts.V5, layouts.V5_INT32], ids=lambda layout: layout.name)
def test_fixed_frames_alone_are_too_few_even_if_one_is_named_as_the_body(layout: Layout) -> None:
    alone = encode(HELLO, layout)[-17:]
    for offset in range(1, 18):
        alone[-2] = words(offset, 1, 0, 0)
        assert fault(alone).reason is Reason.TOO_FEW_FRAMES
        assert_both_paths_agree(alone, layouts.V5)


@pytest.mark.parametrize("wire_format", WireFormat)
def test_the_format_of_what_was_read_writes_the_same_frames_again(wire_format: WireFormat) -> None:
    frames = encode(HELLO, wire_format)
    assert decode(frames).wire_format is wire_format  # a peer that needs four bytes for the number 5 gets four
    assert peek(frames).wire_format is wire_format
    assert encode(decode(frames), wire_format) == frames


def test_a_meta_frame_alone_is_too_little_even_if_it_names_itself_as_the_body() -> None:
    meta = encode(HELLO, WireFormat.V6)[-1]
    alone = [meta[:-8] + words(1, 1, 0, 0)]
    assert fault(alone).reason is Reason.TOO_FEW_FRAMES
    assert_both_paths_agree(alone, layouts.V6)
    assert decode([b"", *alone]).body == alone[0]


def test_a_v6_message_behind_a_very_long_envelope_is_not_taken_for_the_first_format() -> None:
    frames = [b"peer"] * 30 + encode(HELLO.clone(bodies=(b"",)), WireFormat.V6)
    assert decode(frames).wire_format == "v6"
    assert peek(frames).wire_format == "v6"


# -- what cannot be written --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "layout", "field"),
    [
        (HELLO.clone(hops=70_000), layouts.V5, "hops"),
        (HELLO.clone(hops=-1), layouts.FIRST, "hops"),
        (HELLO.clone(version=70_000), layouts.V6, "version"),
        (HELLO.clone(version=b"1.1"), layouts.V5, "version"),
        (HELLO.clone(version=b"1.0"), layouts.FIRST, "version"),
        (HELLO.clone(version=70_000), layouts.FIRST, "version"),
        (HELLO.clone(version=None), layouts.FIRST, "version"),
        (HELLO.clone(bodies=()), layouts.V5, "bodies"),
        (HELLO.clone(bodies=None), layouts.V5, "bodies"),
        (HELLO.clone(bodies=b"bytes"), layouts.V6, "bodies"),
        (HELLO.clone(routing=None), layouts.V5, "routing"),
        (HELLO.clone(routing=(("tcp://1:2", b"r"),)), layouts.V6, "routing[0]"),
        (HELLO.clone(callback_point=(b"A",)), layouts.FIRST, "callback_point[0]"),
        (HELLO.clone(distribution=[1]), layouts.FIRST, "distribution"),
        (HELLO.clone(bodies=("text",)), layouts.V6, "bodies"),
        (HELLO.clone(bodies=(b"one", b"two")), layouts.FIRST, "bodies"),
        (HELLO.clone(identity="HELLO"), layouts.V5, "identity"),
        (HELLO.clone(identity=7), layouts.V6, "identity"),
        (HELLO.clone(domain=b"bytes"), layouts.V5, "domain"),
        (HELLO.clone(domain="\ud800"), layouts.V6, "domain"),
        (HELLO.clone(distribution=2), layouts.FIRST, "distribution"),
        (HELLO.clone(trace_options=2), layouts.FIRST, "trace_options"),
        (HELLO.clone(ttl_ticks=2**63), layouts.V5, "ttl_ticks"),
        (HELLO.clone(ttl_ticks="soon"), layouts.FIRST, "ttl_ticks"),
        (HELLO.clone(socket_identity="peer"), layouts.V6, "socket_identity"),
        (HELLO.clone(socket_identity=None), layouts.V5, "socket_identity"),
        (HELLO.push_router_address("nowhere", b"r"), layouts.V4, "routing[0].uri"),
        (HELLO.push_router_address(b"tcp://1:2", b"r"), layouts.V5, "routing[0].uri"),  # type: ignore[arg-type]
        (
            HELLO.clone(callback_point=(MessageIdentifier(b"A"), MessageIdentifier(b"B", -1))),
            layouts.V5,
            "callback_point[1].version",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Layout) else value if isinstance(value, str) else "",
)
def test_nonsense_is_a_local_error_that_names_the_field(message: Message, layout: Layout, field: str) -> None:
    with pytest.raises(LocalError) as caught:
        encode(message, layout)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: expected ")


def test_seventy_thousand_hops_are_nonsense_for_a_u16_but_not_for_the_first_format() -> None:
    message = HELLO.clone(hops=70_000)
    with pytest.raises(LocalError, match=r"hops: expected 0 to 65535 \(4 x u16\), found 70000"):
        encode(message, WireFormat.V5)
    assert decode(encode(message, WireFormat.FIRST)).hops == 70_000


def test_a_long_value_is_cut_in_the_error() -> None:
    with pytest.raises(LocalError) as caught:
        encode(HELLO.clone(identity="x" * 1000), WireFormat.V5)
    assert len(str(caught.value)) < 150


LONGEST = (2**63 - 1) // 10_000


@pytest.mark.parametrize(
    ("ttl_ticks", "milliseconds"),
    [(1, 1), (10_000, 1), (10_001, 2), (-1, -1), (0, 0), (2**63 - 1, LONGEST), (-(2**63), -LONGEST)],
)
def test_what_is_left_of_a_lifetime_never_becomes_no_limit(ttl_ticks: int, milliseconds: int) -> None:
    frames = encode(HELLO.clone(ttl_ticks=ttl_ticks), WireFormat.FIRST)
    assert struct.unpack("<q", frames[-3]) == (milliseconds,)
    assert decode(frames).ttl_ticks == 10_000 * milliseconds


def test_the_slash_at_the_end_of_a_uri_goes_where_the_reference_held_a_uri() -> None:
    message = HELLO.push_router_address("tcp://host:5000/", b"r")
    assert decode(encode(message, WireFormat.V4)).routing[0].uri == "tcp://host:5000"
    assert decode(encode(message, WireFormat.V5)).routing[0].uri == "tcp://host:5000/"


NO_FRAMES: list[Any] = [
    ["text"] * 20,
    [None],
    [b"", None],
    [memoryview(frame) for frame in encode(HELLO, WireFormat.V5)],
    [bytearray(frame) for frame in encode(HELLO, WireFormat.V5)],
    [bytearray(b"body") if frame == b"world" else frame for frame in encode(HELLO, WireFormat.V5)],
    [bytearray(b"body") if frame == b"world" else frame for frame in encode(HELLO, WireFormat.V6)],
    b"bytes",
    None,
    deque(encode(HELLO, WireFormat.V5)),
]


@pytest.mark.parametrize("frames", NO_FRAMES, ids=lambda frames: type(frames).__name__)
def test_what_is_no_list_of_bytes_is_the_callers_mistake(frames: Any) -> None:
    with pytest.raises(LocalError, match="bytes"):
        decode(frames)
    with pytest.raises(LocalError, match="bytes"):
        annotate(frames)


def test_frames_may_be_a_tuple() -> None:
    for wire_format in WireFormat:
        assert decode(tuple(encode(HELLO, wire_format))) == HELLO


def test_a_format_that_is_none_is_the_callers_mistake() -> None:
    assert encode(HELLO, "v5") == encode(HELLO, WireFormat.V5)  # type: ignore[arg-type]
    several = HELLO.clone(bodies=(b"1", b"2"))
    assert encode(several, "v5") == encode(several, WireFormat.V5)  # type: ignore[arg-type]
    for nonsense in ("v7", 5, None):
        with pytest.raises(LocalError, match="wire_format: expected a WireFormat or a Layout"):
            encode(HELLO, nonsense)  # type: ignore[arg-type]
    with pytest.raises(LocalError, match="first: expected layouts"):
        decode(encode(HELLO, WireFormat.FIRST), first="ticks")  # type: ignore[arg-type]


def test_a_limit_must_leave_room_for_something() -> None:
    with pytest.raises(ArgumentError, match="entries: expected a number, at least 1, found 0"):
        Limits(entries=0)


def test_peek_honours_the_number_of_frames() -> None:
    for wire_format in WireFormat:
        with pytest.raises(RemoteError, match="too_many_frames"):
            peek(encode(HELLO, wire_format), limits=Limits(frames=3))


@pytest.mark.parametrize("layout", layouts.LAYOUTS.values(), ids=lambda layout: layout.name)
def test_peek_reads_what_a_router_needs_and_nothing_else(layout: Layout) -> None:
    message = HELLO.clone(hops=3, receiver_identity=b"\x01actor", version=258 if layout.name[:3] != "V4C" else 1)
    frames = encode(message, layout)
    for row in layout.fixed:
        if row.name in ("ttl_ticks", "callback_key", "correlation_id"):
            frames[-row.position] = b""  # broken or not, who cares
    view = peek(frames, first=layout if layout.wire_format == "first" else layouts.FIRST)
    assert (view.identity, view.version, view.hops) == (b"HELLO", message.version, 3)
    assert (view.receiver_identity, view.wire_format) == (b"\x01actor", layout.wire_format)


def test_errors_survive_copying() -> None:
    error = fault([b""])
    assert copy.copy(error).args == error.args
    assert str(copy.deepcopy(error)) == str(error)
    with pytest.raises(LocalError) as caught:
        encode(HELLO.clone(hops=10**5000), WireFormat.V5)
    assert str(copy.copy(caught.value)).endswith("found a huge int")


def test_a_reader_keeps_what_it_read_before_the_fault() -> None:
    frames = encode(HELLO, WireFormat.V5)
    frames[-7] = b""
    reader = Reader(frames, layouts.V5)
    with pytest.raises(RemoteError):
        reader.read()
    assert [reading.name for reading in reader.readings][-1] == "identity"


def test_a_dialect_of_the_first_format_that_is_no_layout_is_the_callers_mistake() -> None:
    frames = encode(HELLO, layouts.FIRST)
    for read in (decode, peek):
        with pytest.raises(LocalError, match="first: expected"):
            read(frames, first="FIRST")  # type: ignore[arg-type]
