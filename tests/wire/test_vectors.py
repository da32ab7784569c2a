"""Byte for byte what the reference wrote, field for field what it read; and where we differ, why."""

from __future__ import annotations

from typing import Any

import pytest

from hopline import Message, WireFormat
from hopline.wire import MacAlgorithm, Reason, RemoteError, decode, detect, encode, has_valid_signature, layouts, peek
from hopline.wire.reader import Reader
from hopline.wire.writer import Writer
from tests.wire.vectors import FILES, VARIANTS, Case, cases, frames_of, label, load

WRITTEN = list(cases("cases"))
HAND_MADE = list(cases("decode_cases"))

# Where reading differs from the reference on purpose: it never looks at the format's number, so it reads what claims to
# be of another format, and cannot read what another revision wrote. We tell by structure, and refuse unknown numbers.
UNKNOWN_NUMBER = {"wire_version_other", "wire_version_5", "wire_version_7"}
# Ours reads both widths of the version frame; the readers of 2016 take four bytes only.
BOTH_WIDTHS = {"wire_version_2_bytes"}
# Frames of another format: ours recognises it.
OTHER_FORMAT = {"v6_frames_everything_set": WireFormat.V6, "v5_frames_everything_set": WireFormat.V5}
# Frames that an earlier revision wrote, by that revision: the newest reader fails on them or misreads the version.
REVISIONS = {
    "97a55ea": layouts.V4A,
    "6040660": layouts.V4B,
    "a59d2a5": layouts.V4C,
    "119bdc3": layouts.V4D,
    "a0c3c08": layouts.V4E,
    "6856f30": layouts.V4,
    "01520dc": layouts.V5_INT32,
}
# All body frames are kept, and `body` is the first of them; the reference keeps the one that the offset points at.
SEVERAL_BODIES = {"body_two_frames_offset_2": b"BODY-B", "body_two_frames_offset_3": b"BODY-A"}
# Nothing tells unknown fixed frames on an early layout from the fields that came later: they are taken for these.
AMBIGUOUS: dict[tuple[str, str], dict[str, object]] = {
    ("V4A", "extra_fixed_frames"): {"signature": b"FUTURE-1", "domain": "FUTURE-2"},
    ("V4B", "extra_fixed_frames"): {"domain": "FUTURE-1"},
    ("V4D", "extra_fixed_frames"): {
        "callback_key": int.from_bytes(b"FUTURE-1", "little"),
        "callback_receiver_node_identity": b"FUTURE-2",
    },
    ("V4E", "extra_fixed_frames"): {"callback_receiver_node_identity": b"FUTURE-1"},
}
# With 15 fixed frames the message version may be text of any width, so one byte is not too short.
TEXT_VERSION = {("V4D", "version_frame_1_byte")}


def is_plain(case: Case) -> bool:
    return not (
        case.name in UNKNOWN_NUMBER | BOTH_WIDTHS | set(SEVERAL_BODIES) | set(OTHER_FORMAT)
        or case.name.startswith("written_by_")
        or (case.layout.name, case.name) in AMBIGUOUS
        or (case.layout.name, case.name) in TEXT_VERSION
    )


def read(case: Case) -> Message:
    return decode(case.frames, first=layouts.FIRST_TICKS)


@pytest.mark.parametrize("case", WRITTEN, ids=label)
def test_encode_gives_the_frames_that_the_reference_wrote(case: Case) -> None:
    assert encode(case.message, case.layout) == case.frames
    assert Writer(case.message, case.layout).write() == case.frames


# A two-byte text version with 15 fixed frames is taken for the number that it became a few weeks later.
TWO_BYTE_TEXT = {("V4C", "version_258")}


@pytest.mark.parametrize("case", [c for c in WRITTEN if (c.layout.name, c.name) not in TWO_BYTE_TEXT], ids=label)
def test_decode_gives_the_fields_that_the_reference_read(case: Case) -> None:
    message = read(case)
    assert message == case.decoded
    assert message.socket_identity == case.decoded.socket_identity
    assert message.wire_format is case.layout.wire_format
    assert Reader(case.frames, case.layout).read() == message
    assert Message(*peek(case.frames)[:3]).identifier == message.identifier


@pytest.mark.parametrize("case", WRITTEN, ids=label)
def test_a_message_read_and_written_again_is_the_same_frames(case: Case) -> None:
    # The reference reverses the lists here, and forgets the socket identity; `reencoded_frames` shows it.
    message = Reader(case.frames, case.layout).read()
    assert encode(message.clone(socket_identity=case.frames[0]), case.layout) == case.frames


@pytest.mark.parametrize("case", [c for c in HAND_MADE if is_plain(c) and not c.fails], ids=label)
def test_what_the_reference_reads_of_unusual_frames_we_read_too(case: Case) -> None:
    assert read(case) == case.decoded


@pytest.mark.parametrize("case", [c for c in HAND_MADE if is_plain(c) and c.fails], ids=label)
def test_what_the_reference_cannot_read_is_a_remote_error(case: Case) -> None:
    with pytest.raises(RemoteError):
        read(case)


@pytest.mark.parametrize("case", [c for c in HAND_MADE if c.name in UNKNOWN_NUMBER], ids=label)
def test_an_unknown_number_of_the_format_is_refused(case: Case) -> None:
    with pytest.raises(RemoteError) as caught:
        read(case)
    assert caught.value.reason in (Reason.UNKNOWN_VERSION, Reason.UNKNOWN_FORMAT)
    assert caught.value.position == 1


@pytest.mark.parametrize("case", [c for c in HAND_MADE if c.name in BOTH_WIDTHS], ids=label)
def test_a_version_frame_of_two_bytes_is_read_like_one_of_four(case: Case) -> None:
    four_bytes = [*case.frames[:-1], case.frames[-1].ljust(4, b"\0")]
    assert read(case) == decode(four_bytes)


@pytest.mark.parametrize("case", [c for c in HAND_MADE if c.name in OTHER_FORMAT], ids=label)
def test_frames_of_another_format_are_recognised(case: Case) -> None:
    message = read(case)
    assert message.wire_format is OTHER_FORMAT[case.name]
    assert encode(message.clone(socket_identity=case.frames[0]), message.wire_format) == case.frames


@pytest.mark.parametrize("case", [c for c in HAND_MADE if c.name.startswith("written_by_")], ids=label)
def test_frames_of_an_earlier_revision_are_read_as_their_writer_meant_them(case: Case) -> None:
    revision = case.name.split("_")[2]
    assert detect(case.frames) is REVISIONS[revision]
    message = read(case)
    assert encode(message.clone(socket_identity=case.frames[0]), REVISIONS[revision]) == case.frames


@pytest.mark.parametrize("case", [c for c in HAND_MADE if c.name in SEVERAL_BODIES], ids=label)
def test_several_body_frames_are_all_kept(case: Case) -> None:
    assert read(case) == case.decoded.clone(bodies=(b"BODY-A", b"BODY-B"))
    assert case.decoded.body == SEVERAL_BODIES[case.name]


@pytest.mark.parametrize("case", [c for c in HAND_MADE if (c.layout.name, c.name) in AMBIGUOUS], ids=label)
def test_unknown_frames_on_an_early_layout_are_taken_for_the_later_fields(case: Case) -> None:
    assert read(case) == case.decoded.clone(**AMBIGUOUS[case.layout.name, case.name])


@pytest.mark.parametrize("case", [c for c in HAND_MADE if (c.layout.name, c.name) in TEXT_VERSION], ids=label)
def test_a_short_version_in_a_layout_that_may_hold_text_is_text(case: Case) -> None:
    assert read(case).version == case.frames[-7]


def test_a_two_byte_version_in_a_layout_that_may_hold_text_is_a_number() -> None:
    case = next(c for c in WRITTEN if (c.layout.name, c.name) in TWO_BYTE_TEXT)
    assert read(case) == case.decoded.clone(version=258)


LIVE = [(file, capture) for file in ("live", "live2") for capture in load(file)["captures"]]
EVERY_CAPTURE = pytest.mark.parametrize(
    "capture", [capture for _, capture in LIVE], ids=[f"{file}-{c['wire']}-{c['node']}" for file, c in LIVE]
)
LIVE_LAYOUTS = {**FILES, **VARIANTS}
# The keys of the two domains of the signing nodes, as the notes of the captures say.
LIVE_KEYS = {"shop": b"shop-0123456789abcdef", "infra": b"infra-0123456789abcdef"}


@EVERY_CAPTURE
def test_live_traffic_is_read_and_written_again_byte_for_byte(capture: dict[str, Any]) -> None:
    layout = LIVE_LAYOUTS[capture["wire"]]
    for recorded in capture["messages"]:
        frames = frames_of(recorded["frames"])
        message = decode(frames)
        assert detect(frames) is layout
        assert message == Reader(frames, layout).read()
        assert message.wire_format is layout.wire_format
        assert message.identity == recorded["identity"].encode()
        body_and_headers = encode(message, layout)[2:]
        assert body_and_headers == frames[-len(body_and_headers) :]
        assert body_and_headers == Writer(message, layout).write()[2:]
        assert message.socket_identity == (frames[0] if layout.meta else b"")


@EVERY_CAPTURE
def test_every_signature_of_live_traffic_verifies(capture: dict[str, Any]) -> None:
    messages = [decode(frames_of(recorded["frames"])) for recorded in capture["messages"]]
    signed = [message for message in messages if message.signature]
    note = capture.get("note", "")
    assert bool(signed) == ("signed domains" in note)
    algorithm = MacAlgorithm.MD5 if "HMAC-MD5" in note else MacAlgorithm.SHA256
    for message in signed:
        assert has_valid_signature(message, LIVE_KEYS[message.domain], algorithm)
        assert not has_valid_signature(message, b"another key", algorithm)
    if signed:
        assert {message.domain for message in signed} == set(LIVE_KEYS)
        # What a node tells only itself is in no domain; everything in a domain is signed.
        assert not any(message.domain for message in messages if not message.signature)


def test_every_recorded_case_is_in_one_test() -> None:
    """Guard the lists above: a case that differs is in one of them, and a name that no vector has hides a mistake."""
    names = [case.name for case in HAND_MADE]
    places = [(case.layout.name, case.name) for case in HAND_MADE]
    by_name = UNKNOWN_NUMBER | BOTH_WIDTHS | set(SEVERAL_BODIES) | set(OTHER_FORMAT)
    assert by_name <= set(names)
    assert set(AMBIGUOUS) | TEXT_VERSION <= set(places)
    assert {(case.layout.name, case.name) for case in WRITTEN} >= TWO_BYTE_TEXT
    different = [
        (name in by_name) + name.startswith("written_by_") + (place in AMBIGUOUS) + (place in TEXT_VERSION)
        for name, place in zip(names, places, strict=True)
    ]
    assert set(different) == {0, 1}
    assert sum(map(is_plain, HAND_MADE)) == different.count(0)
