"""What we write, byte by byte, as RFC 15 (ZMTP 2.0), RFC 23 (3.0) and RFC 37 (3.1) have it."""

from __future__ import annotations

import math

import pytest

from hopline.zmtp import Connection, SocketType, Version, encode_into, encode_message
from hopline.zmtp import commands as zmtp_commands
from tests.zmtp.peers import connected, greeting

GREETING = (
    b"\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f"  # signature
    b"\x03\x01"  # version
    b"NULL\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"  # mechanism, 20 bytes
    b"\x00"  # as-server
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"  # filler, 31 bytes
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)
# 6 for the name, 22 for the socket type, 16 for the identity: 44 = 0x2c bytes
READY = b"\x04\x2c\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER\x08Identity\x00\x00\x00\x03me!"


def test_our_greeting_begins_with_what_every_version_understands_and_goes_on_as_the_peer_does() -> None:
    connection = Connection(SocketType.ROUTER, b"me!")
    assert connection.take_output() == GREETING[:11]
    connection.receive(greeting()[:11])
    assert connection.take_output() == GREETING[11:]
    connection.receive(greeting()[11:])
    assert connection.take_output() == READY


def test_output_is_taken_once_and_in_the_order_in_which_it_came_up() -> None:
    connection = Connection(SocketType.ROUTER, b"me!")
    connection.receive(greeting())
    assert connection.take_output() == GREETING + READY
    assert connection.take_output() == b""


@pytest.mark.parametrize("revision", [1, 2])
def test_to_zmtp_2_0_our_greeting_ends_with_the_socket_type_and_the_identity(revision: int) -> None:
    connection = Connection(SocketType.ROUTER, b"me!")
    connection.receive(greeting(major=revision)[:11])
    assert connection.take_output() == b"\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x03" + b"\x06" + b"\x00\x03me!"


def test_an_identity_of_255_bytes_makes_a_long_ready() -> None:
    connection = Connection(SocketType.DEALER, b"i" * 255)
    connection.receive(greeting())
    # 1 + 5 for the name, 1 + 11 + 4 + 6 for the socket type, 1 + 8 + 4 + 255 for the identity: 296 = 0x128 bytes
    header = b"\x06\x00\x00\x00\x00\x00\x00\x01\x28"
    body = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\xff" + b"i" * 255
    assert connection.take_output()[64:] == header + body


@pytest.mark.parametrize("identity", [b"i" * 256, b"\0", b"\0abc"])
def test_an_identity_that_a_peer_would_refuse_is_refused_at_once(identity: bytes) -> None:
    with pytest.raises(ValueError, match="at most 255 bytes that do not begin with zero"):
        Connection(SocketType.DEALER, identity)


@pytest.mark.parametrize(
    ("time_to_live", "tenths"),
    [
        (0, b"\x00\x00"),
        (0.001, b"\x00\x01"),  # zero would mean forever
        (0.1, b"\x00\x01"),
        (1.1, b"\x00\x0b"),
        (30, b"\x01\x2c"),
        (6553.5, b"\xff\xff"),
        (10_000, b"\xff\xff"),
        (math.inf, b"\xff\xff"),
        (-1, b"\x00\x00"),
    ],
)
def test_a_ping_carries_its_time_to_live_in_tenths_of_a_second(time_to_live: float, tenths: bytes) -> None:
    assert connected().ping(time_to_live) == b"\x04\x07\x04PING" + tenths


def test_a_ping_may_carry_a_context() -> None:
    assert zmtp_commands.ping(1, b"ctx") == b"\x04\x0a\x04PING\x00\x0actx"


def test_a_pong_repeats_the_context_of_the_ping() -> None:
    connection = connected()
    connection.receive(b"\x04\x0a\x04PING\x00\x0actx")
    connection.receive(b"\x04\x07\x04PING\x00\x0a")
    assert connection.take_output() == b"\x04\x08\x04PONGctx" + b"\x04\x05\x04PONG"


@pytest.mark.parametrize(
    ("version", "is_wanted", "expected"),
    [
        (Version.V3_1, True, b"\x04\x0c\x09SUBSCRIBEab"),
        (Version.V3_1, False, b"\x04\x09\x06CANCELab"),
        (Version.V3_0, True, b"\x00\x03\x01ab"),
        (Version.V3_0, False, b"\x00\x03\x00ab"),
        (Version.V2_0, True, b"\x00\x03\x01ab"),
        (Version.V2_0, False, b"\x00\x03\x00ab"),
    ],
)
def test_a_subscription_is_a_command_since_3_1_and_was_a_message_before(
    version: Version, is_wanted: bool, expected: bytes
) -> None:
    connection = connected(version, SocketType.SUB, "PUB")
    assert connection.subscription(b"ab", is_wanted=is_wanted) == expected


def test_a_long_topic_makes_a_long_command() -> None:
    topic = b"t" * 246
    expected = b"\x06\x00\x00\x00\x00\x00\x00\x01\x00\x09SUBSCRIBE" + topic
    assert connected(ours=SocketType.SUB, theirs="PUB").subscription(topic) == expected
    assert connected(ours=SocketType.SUB, theirs="PUB").subscription(topic[1:]) == b"\x04\xff\x09SUBSCRIBE" + topic[1:]


def test_an_error_names_its_reason() -> None:
    assert zmtp_commands.error("No!") == b"\x04\x0a\x05ERROR\x03No!"
    assert zmtp_commands.error("Nö") == b"\x04\x09\x05ERROR\x02N?"
    assert zmtp_commands.error("x" * 256) == b"\x06\x00\x00\x00\x00\x00\x00\x01\x06\x05ERROR\xff" + b"x" * 255


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([b""], b"\x00\x00"),
        ([b"a"], b"\x00\x01a"),
        ([b"", b""], b"\x01\x00\x00\x00"),
        ([b"a", b"bc", b""], b"\x01\x01a\x01\x02bc\x00\x00"),
        ([b"x" * 254], b"\x00\xfe" + b"x" * 254),
        ([b"x" * 255], b"\x00\xff" + b"x" * 255),
        ([b"x" * 256], b"\x02\x00\x00\x00\x00\x00\x00\x01\x00" + b"x" * 256),
        ([b"x" * 255, b"y" * 255], b"\x01\xff" + b"x" * 255 + b"\x00\xff" + b"y" * 255),
        ([b"x" * 256, b""], b"\x03\x00\x00\x00\x00\x00\x00\x01\x00" + b"x" * 256 + b"\x00\x00"),
        ([b"", b"x" * 65_536], b"\x01\x00\x02\x00\x00\x00\x00\x00\x01\x00\x00" + b"x" * 65_536),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_message_is_its_frames_with_flags_and_sizes(frames: list[bytes], expected: bytes) -> None:
    assert encode_message(frames) == expected
    pieces = [b"before"]
    assert encode_into(pieces, frames) == len(expected)
    assert b"".join(pieces) == b"before" + expected
    connection = connected(ours=SocketType.DEALER)
    assert connection.receive(expected) == [frames]
