"""Messages and commands after the handshake, and what is too much."""

from __future__ import annotations

import pytest

from hopline.zmtp import Limits, Ping, Pong, SocketType, Subscription, Version, Violation
from tests.zmtp.peers import COMMAND, LONG, MORE, SMALL, chunks, command, connected, frame, message

VERSIONS = list(Version)
WITH_COMMANDS = [Version.V3_0, Version.V3_1]
MANY_BYTES = 20 * 1024 * 1024
PIECE = 64 * 1024


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 254, 255, 256, 257, 65_535, 65_536])
def test_frames_of_any_size_arrive(version: Version, size: int) -> None:
    frames = [b"x" * size, b"y" * size]
    assert connected(version).receive(message(*frames)) == [frames]
    assert connected(version).receive(message(frames[0]) * 2) == [[frames[0]], [frames[0]]]


def test_a_short_content_may_be_in_a_long_frame() -> None:
    sent = frame(b"", MORE | LONG) + frame(b"a", LONG)
    assert connected().receive(sent + message(b"next")) == [[b"", b"a"], [b"next"]]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (frame(b"", 0x08), "reserved flags of a frame are set: 0x08"),
        (frame(b"", 0x81), "reserved flags of a frame are set: 0x81"),
        (frame(b"", 0x40 | LONG), "reserved flags"),
        (command(b"PING", b"\0\0", COMMAND | MORE), "a command where there can be none"),
        (frame(b"", COMMAND), "without a name"),
        (frame(b"\x05PING", COMMAND), "without a name"),
        (command(b"PING"), "a PING of the wrong size"),
        (command(b"PING", b"\0"), "a PING of the wrong size"),
        (command(b"PING", b"\0\0" + b"c" * 17), "a PING of the wrong size"),
        (command(b"ERROR"), "an ERROR without its reason"),
    ],
)
def test_what_breaks_the_rules_closes_the_connection(sent: bytes, reason: str) -> None:
    connection = connected()
    first, violation, *rest = connection.receive(message(b"a") + sent + message(b"b"))
    assert first == [b"a"]
    assert isinstance(violation, Violation)
    assert reason in violation.reason
    assert not rest
    assert connection.is_closed
    assert connection.take_output() == b""  # an ERROR belongs to handshakes


def test_zmtp_2_0_has_no_commands() -> None:
    connection = connected(Version.V2_0)
    assert connection.receive(command(b"PING", b"\0\0")) == [Violation("a command where there can be none")]


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (frame(b"x" * 401)[:9], "a frame of 401 bytes, where at most 400 are allowed"),
        (frame(b"", LONG)[:1] + b"\xff" * 8, "a frame of 18446744073709551615 bytes"),
        (frame(b"x" * 400, MORE) * 2 + frame(b"x" * 256, MORE)[:9], "a message of more than 1000 bytes"),
        (frame(b"", MORE) * 5, "a message of more than 4 frames"),
        (frame(b"", MORE) * 4 + frame(b""), "a message of more than 4 frames"),
        (frame(b"", MORE) * 4 + frame(b"", MORE | LONG), "a message of more than 4 frames"),
        (frame(b"", MORE) * 4 + frame(b"", LONG), "a message of more than 4 frames"),
        (frame(b"", MORE) * 5 + command(b"PING", b"\0\0"), "a message of more than 4 frames"),
        (frame(b"x" * 121, COMMAND)[:2], "a frame of 121 bytes, where at most 120 are allowed"),
    ],
)
def test_a_limit_that_is_broken_closes_the_connection_before_the_bytes_have_come(sent: bytes, reason: str) -> None:
    connection = connected(limits=SMALL)
    (violation,) = connection.receive(sent)
    assert isinstance(violation, Violation)
    assert reason in violation.reason


@pytest.mark.parametrize(
    "frames",
    [
        [b"x" * 400],
        [b"x" * 400, b"x" * 400],
        [b"x" * 300, b"x" * 400, b"x" * 300],
        [b"x" * 255] * 4,  # short frames are bounded by their number
        [b""] * 4,
    ],
)
def test_what_is_within_the_limits_arrives_again_and_again(frames: list[bytes]) -> None:
    connection = connected(limits=SMALL)
    assert connection.receive(message(*frames) * 3) == [frames] * 3


def test_a_short_frame_is_not_held_to_the_limit_of_long_ones() -> None:
    connection = connected(limits=Limits(frame_size=10, message_size=10))
    assert connection.receive(message(b"x" * 255)) == [[b"x" * 255]]


def test_a_command_of_the_largest_size_is_taken() -> None:
    connection = connected(limits=SMALL)
    assert connection.receive(frame(b"\x04PONG".ljust(120, b"x"), COMMAND)) == [Pong(b"x" * 115)]


def test_a_large_frame_is_not_read_until_it_is_complete() -> None:
    content = bytes(MANY_BYTES)
    pieces = chunks(message(content), [PIECE])
    connection = connected()
    connection.receive(pieces[0])
    partial = connection._partial
    for count, piece in enumerate(pieces[1:-1], 2):
        assert connection.receive(piece) == []
        # Appended to what came before, of which nothing was looked at again.
        assert connection.missing == len(message(content)) - count * PIECE
        assert connection._partial is partial
        assert len(partial) == count * PIECE
    assert connection.receive(pieces[-1]) == [[content]]
    assert not partial


def test_a_large_frame_is_not_read_where_messages_precede_it() -> None:
    content = bytes(MANY_BYTES // 10)
    before = message(b"a", b"b") + frame(b"c", MORE)
    pieces = chunks(before + message(content) + message(b"z"), [PIECE])
    connection = connected()
    assert connection.receive(pieces[0]) == [[b"a", b"b"]]
    for count, piece in enumerate(pieces[1:-1], 2):
        assert connection.receive(piece) == []
        assert len(connection._partial) == count * PIECE - len(before)
    assert connection.receive(pieces[-1]) == [[b"c", content], [b"z"]]


# -- signs of life -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", WITH_COMMANDS)
@pytest.mark.parametrize(
    ("tenths", "seconds"), [(b"\0\0", 0.0), (b"\0\x01", 0.1), (b"\x01\x2c", 30.0), (b"\xff\xff", 6553.5)]
)
@pytest.mark.parametrize("context", [b"", b"c", b"c" * 16])
def test_a_ping_is_reported_and_answered(version: Version, tenths: bytes, seconds: float, context: bytes) -> None:
    connection = connected(version)
    assert connection.receive(command(b"PING", tenths + context)) == [Ping(seconds)]
    assert connection.take_output() == command(b"PONG", context)


def test_pings_are_answered_in_their_order() -> None:
    connection = connected()
    connection.receive(b"".join(command(b"PING", b"\0\0" + context) for context in (b"1", b"2", b"3")))
    assert connection.take_output() == b"".join(command(b"PONG", context) for context in (b"1", b"2", b"3"))
    assert connection.take_output() == b""


@pytest.mark.parametrize("context", [b"", b"ctx", b"c" * 20])
def test_a_pong_is_reported(context: bytes) -> None:
    connection = connected()
    assert connection.receive(command(b"PONG", context)) == [Pong(context)]
    assert connection.take_output() == b""


def test_commands_may_come_between_the_frames_of_a_message() -> None:
    connection = connected()
    ping = command(b"PING", b"\0\0")
    sent = frame(b"a", MORE) + ping + frame(b"x" * 300, MORE) + ping + command(b"PONG") + frame(b"b")
    assert connection.receive(sent) == [Ping(0), Ping(0), Pong(b""), [b"a", b"x" * 300, b"b"]]


@pytest.mark.parametrize("name", [b"", b"HELLO", b"ping", b"PINGS", b"JOIN", b"n" * 255])
def test_unknown_commands_are_ignored(name: bytes) -> None:
    connection = connected()
    assert connection.receive(message(b"a") + command(name, b"whatever") + message(b"b")) == [[b"a"], [b"b"]]
    assert connection.take_output() == b""


# -- subscriptions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", [SocketType.PUB, SocketType.XPUB])
@pytest.mark.parametrize("topic", [b"", b"topic", b"\0\1", b"t" * 300])
def test_a_publisher_learns_of_subscriptions(ours: SocketType, topic: bytes) -> None:
    wanted, unwanted = Subscription(topic, is_wanted=True), Subscription(topic, is_wanted=False)
    for version in VERSIONS:
        connection = connected(version, ours, "SUB")
        assert connection.receive(message(b"\1" + topic) + message(b"\0" + topic)) == [wanted, unwanted]
    for version in WITH_COMMANDS:
        connection = connected(version, ours, "XSUB")
        assert connection.receive(command(b"SUBSCRIBE", topic) + command(b"CANCEL", topic)) == [wanted, unwanted]


@pytest.mark.parametrize("said", [(b"",), (b"\2topic",), (b"hello", b"\1topic")])
def test_what_else_a_subscriber_says_means_nothing_to_a_publisher(said: tuple[bytes, ...]) -> None:
    connection = connected(ours=SocketType.PUB, theirs="XSUB")
    assert connection.receive(message(*said) + message(b"\1t")) == [Subscription(b"t", is_wanted=True)]


@pytest.mark.parametrize("ours", [SocketType.SUB, SocketType.XSUB])
def test_a_subscriber_takes_messages_and_no_subscriptions(ours: SocketType) -> None:
    connection = connected(ours=ours, theirs="PUB")
    sent = message(b"\1topic", b"body") + command(b"SUBSCRIBE", b"t") + command(b"CANCEL", b"t") + message(b"\0")
    assert connection.receive(sent) == [[b"\1topic", b"body"], [b"\0"]]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_wanted", [True, False])
def test_our_own_subscriptions_are_understood_by_our_own_publishers(version: Version, is_wanted: bool) -> None:
    subscriber = connected(version, SocketType.SUB, "PUB")
    publisher = connected(version, SocketType.PUB, "SUB")
    sent = subscriber.subscription(b"topic", is_wanted=is_wanted)
    assert publisher.receive(sent) == [Subscription(b"topic", is_wanted)]
