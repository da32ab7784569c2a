"""Who may talk to us, in which version, and what is said to the others."""

from __future__ import annotations

import itertools

import pytest

from hopline.zmtp import Connection, Event, PeerError, Ready, SocketType, Version, Violation
from tests.zmtp.peers import (
    COMMAND,
    LONG,
    MORE,
    NUMBERS,
    SIGNATURE,
    SMALL,
    a_property,
    command,
    connected,
    frame,
    greeting,
    message,
    opening,
    ready,
)

# RFC 23, "The Socket-Type Property", as a table of both directions.
PARTNERS = {
    ("PAIR", "PAIR"),
    ("PUB", "SUB"),
    ("PUB", "XSUB"),
    ("REQ", "REP"),
    ("REQ", "ROUTER"),
    ("REP", "DEALER"),
    ("DEALER", "DEALER"),
    ("DEALER", "ROUTER"),
    ("ROUTER", "ROUTER"),
    ("PULL", "PUSH"),
    ("XPUB", "SUB"),
    ("XPUB", "XSUB"),
}
VERSIONS = list(Version)


def the_violation(events: list[Event]) -> str:
    """Return the reason of the one event that there must be."""
    (event,) = events
    assert isinstance(event, Violation)
    return event.reason


@pytest.mark.parametrize(
    ("greeted", "version"),
    [
        (greeting(3, 1), Version.V3_1),
        (greeting(3, 0), Version.V3_0),
        (greeting(3, 2), Version.V3_1),
        (greeting(4, 0), Version.V3_1),
        (greeting(255, 7), Version.V3_1),
    ],
)
def test_two_peers_speak_the_newest_version_that_both_know(greeted: bytes, version: Version) -> None:
    connection = Connection(SocketType.ROUTER)
    assert connection.receive(greeted) == []
    assert connection.version is version
    assert not connection.is_ready
    assert connection.receive(ready("DEALER", b"peer")) == [Ready(version, SocketType.DEALER, b"peer")]
    assert connection.is_ready
    assert not connection.is_closed


@pytest.mark.parametrize("revision", [1, 2])
@pytest.mark.parametrize("identity", [b"", b"peer", b"i" * 255])
def test_a_peer_of_zmtp_2_0_is_ready_after_its_identity(revision: int, identity: bytes) -> None:
    connection = Connection(SocketType.ROUTER)
    greeted = opening(Version.V2_0, "DEALER", identity, revision)
    assert connection.receive(greeted[:-1]) == []
    assert connection.receive(greeted[-1:]) == [Ready(Version.V2_0, SocketType.DEALER, identity)]


def test_messages_that_follow_the_handshake_at_once_are_read() -> None:
    for version in VERSIONS:
        connection = Connection(SocketType.ROUTER)
        events = connection.receive(opening(version) + message(b"a", b"b"))
        assert events == [Ready(version, SocketType.DEALER, b""), [b"a", b"b"]]


def test_the_padding_of_the_signature_and_the_filler_may_be_anything() -> None:
    connection = Connection(SocketType.ROUTER)
    greeted = bytearray(greeting())
    greeted[1:9] = b"\0\0\0\0\0\0\0\x05"  # older peers write the size of their identity there
    greeted[33:64] = b"x" * 31
    assert connection.receive(bytes(greeted) + ready()) == [Ready(Version.V3_1, SocketType.DEALER, b"")]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"G", "not ZMTP"),
        (b"GET / HTTP/1.1\r\n\r\n", "not ZMTP"),
        (b"\0", "not ZMTP"),
        (b"\x01\x00", "not ZMTP"),  # ZMTP 1.0, with an empty identity
        (b"\xff\0\0\0\0\0\0\0\x05\0", "ZMTP 1.0"),  # ZMTP 1.0, with a long identity
        (SIGNATURE + b"\0", "ZMTP 1.0"),
        (greeting(mechanism=b"PLAIN"), "not NULL"),
        (greeting(mechanism=b"CURVE"), "not NULL"),
        (greeting(mechanism=b"NULLX"), "not NULL"),
        (greeting(mechanism=b"null"), "not NULL"),
    ],
)
def test_what_cannot_be_answered_is_refused_without_an_error_command(sent: bytes, reason: str) -> None:
    connection = Connection(SocketType.ROUTER)
    assert reason in the_violation(connection.receive(sent))
    assert connection.is_closed
    assert b"ERROR" not in connection.take_output()


@pytest.mark.parametrize(
    ("properties", "identity"),
    [
        (a_property(b"Socket-Type", b"DEALER"), b""),
        (a_property(b"socket-type", b"DEALER") + a_property(b"IDENTITY", b"me"), b"me"),
        (a_property(b"IDentity", b"me") + a_property(b"SOCKET-TYPE", b"DEALER"), b"me"),
        (a_property(b"X-Unknown", b"?") + a_property(b"Socket-Type", b"DEALER") + a_property(b"X-Empty", b""), b""),
        (a_property(b"Socket-Type", b"DEALER") + a_property(b"Identity", b"i" * 255), b"i" * 255),
    ],
)
@pytest.mark.parametrize("version", [Version.V3_0, Version.V3_1])
def test_ready_says_what_the_peer_is(version: Version, properties: bytes, identity: bytes) -> None:
    connection = Connection(SocketType.ROUTER)
    events = connection.receive(opening(version)[:64] + command(b"READY", properties))
    assert events == [Ready(version, SocketType.DEALER, identity)]


DEALER = a_property(b"Socket-Type", b"DEALER")


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (command(b"READY"), "cannot talk to one of type ''"),
        (command(b"READY", a_property(b"Identity", b"me")), "cannot talk to one of type ''"),
        (command(b"READY", a_property(b"Socket-Type", b"PUB")), "a ROUTER socket cannot talk to one of type 'PUB'"),
        (command(b"READY", a_property(b"Socket-Type", b"dealer")), "'dealer'"),
        (command(b"READY", a_property(b"Socket-Type", b"\n\xff" + b"x" * 50)), r"'\n\ufffdxxxxxxxxxxxxxx'"),
        (command(b"READY", DEALER[:-1]), "cut off"),
        (command(b"READY", DEALER[:14]), "cut off"),
        (command(b"READY", DEALER[:3]), "cut off"),
        (command(b"READY", DEALER + b"\x08"), "cut off"),
        (command(b"READY", DEALER + DEALER), "twice"),
        (command(b"READY", DEALER + a_property(b"x", b"1") + a_property(b"X", b"2")), "twice"),
        (command(b"READY", DEALER + a_property(b"", b"")), "without a name"),
        (command(b"READY", DEALER + a_property(b"Identity", b"i" * 256)), "at most 255 bytes"),
        (command(b"READY", DEALER + a_property(b"Identity", b"\0me")), "do not begin with zero"),
        (command(b"PING", b"\0\0"), "other than READY"),
        (command(b"ready", DEALER), "other than READY"),
        (command(b"SUBSCRIBE"), "other than READY"),
        (frame(b"", COMMAND), "without a name"),
        (frame(b"\x06READY", COMMAND), "without a name"),
        (command(b"ERROR"), "without its reason"),
        (command(b"ERROR", b"\x05No!"), "without its reason"),
        (command(b"ERROR", b"\x02No!"), "without its reason"),
        (message(b"early"), "before the handshake"),
        (frame(b"", MORE), "before the handshake"),
        (frame(b"early", LONG), "before the handshake"),
        (command(b"READY", DEALER, COMMAND | MORE), "a command where there can be none"),
        (frame(b"", 0x08), "reserved flags of a frame are set: 0x08"),
        (frame(b"", 0x80 | COMMAND), "reserved flags"),
        (command(b"READY", b"x" * 8 * 1024), "at most 8192 are allowed"),
    ],
)
def test_a_handshake_that_breaks_the_rules_is_answered_with_an_error(sent: bytes, reason: str) -> None:
    connection = Connection(SocketType.ROUTER)
    connection.receive(greeting())
    connection.take_output()
    violation = the_violation(connection.receive(sent))
    assert reason in violation
    assert connection.is_closed
    told = violation.encode("ascii", "replace")
    assert connection.take_output() == command(b"ERROR", bytes((len(told),)) + told)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"\x01" + frame(b""), "a ROUTER socket cannot talk to one of type '1'"),
        (b"\x0b" + frame(b""), "'11'"),
        (b"\x05" + frame(b"me", MORE), "does not end with an identity"),
        (b"\x05" + frame(b"\0me"), "do not begin with zero"),
        (b"\x05" + frame(b"i" * 256), "at most 255 bytes"),
        (b"\x05" + frame(b"me", COMMAND), "a command where there can be none"),
        (b"\x05" + frame(b"me", 0x10), "reserved flags"),
        (b"\x05" + frame(b"i" * 8193)[:9], "at most 8192 are allowed"),
    ],
)
def test_a_greeting_of_zmtp_2_0_that_breaks_the_rules_is_refused_in_silence(sent: bytes, reason: str) -> None:
    connection = Connection(SocketType.ROUTER)
    connection.receive(SIGNATURE + b"\x01")
    connection.take_output()
    assert reason in the_violation(connection.receive(sent))
    assert connection.take_output() == b""


def test_the_size_of_a_handshake_is_limited() -> None:
    connection = Connection(SocketType.ROUTER, limits=SMALL)
    connection.receive(greeting())
    assert "at most 120 are allowed" in the_violation(connection.receive(frame(b"x" * 121, COMMAND)[:2]))
    connection = Connection(SocketType.ROUTER, limits=SMALL)
    sent = opening(Version.V2_0, identity=b"i" * 121)
    assert "at most 120 are allowed" in the_violation(connection.receive(sent[:14]))


@pytest.mark.parametrize("name", NUMBERS)
def test_socket_types_have_the_names_and_numbers_of_the_rfcs(name: str) -> None:
    assert SocketType[name].number == NUMBERS[name]
    assert SocketType[name].wire_name == name.encode()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("ours", "theirs"), list(itertools.product(NUMBERS, NUMBERS)))
def test_only_sockets_that_fit_together_become_ready(version: Version, ours: str, theirs: str) -> None:
    connection = Connection(SocketType[ours])
    (event,) = connection.receive(opening(version, theirs))
    if (ours, theirs) in PARTNERS or (theirs, ours) in PARTNERS:
        assert event == Ready(version, SocketType[theirs], b"")
    else:
        assert isinstance(event, Violation)


def test_an_error_during_the_handshake_is_reported() -> None:
    connection = Connection(SocketType.ROUTER)
    assert connection.receive(greeting() + command(b"ERROR", b"\x03No!") + ready()) == [PeerError("No!")]
    assert connection.is_closed


@pytest.mark.parametrize(("content", "reason"), [(b"\x03No!", "No!"), (b"\x00", ""), (b"\x01\xff", "\ufffd")])
def test_an_error_after_the_handshake_is_reported(content: bytes, reason: str) -> None:
    connection = connected()
    events = connection.receive(message(b"a") + command(b"ERROR", content) + message(b"b"))
    assert events == [[b"a"], PeerError(reason)]
    assert connection.is_closed
    assert not connection.is_ready


def test_a_second_ready_is_ignored_as_any_unknown_command_is() -> None:
    connection = connected()
    assert connection.receive(ready("PUB") + message(b"a")) == [[b"a"]]


def test_a_closed_connection_ignores_bytes_and_keeps_none() -> None:
    refused = Connection(SocketType.ROUTER)
    refused.receive(b"garbage")
    ended = connected()
    ended.receive(frame(b"a", MORE) + command(b"ERROR", b"\0") + b"\0")
    for connection in (refused, ended):
        connection.take_output()
        for sent in (greeting(), ready(), message(b"a"), command(b"PING", b"\0\0"), b"", b"\xff"):
            assert connection.receive(sent) == []
            assert connection.take_output() == b""
            assert connection.is_closed
        assert not connection._partial
        assert not connection._frames


def test_there_is_no_ping_before_the_handshake_nor_for_old_versions() -> None:
    assert Connection(SocketType.ROUTER).ping(1) == b""
    assert connected(Version.V2_0).ping(1) == b""
    assert connected(Version.V3_0).ping(1) == b""
    assert connected(Version.V3_1).ping(1) != b""


def test_versions_know_what_they_can_do() -> None:
    assert [version.has_commands for version in VERSIONS] == [False, True, True]
    assert [version.has_heartbeats for version in VERSIONS] == [False, False, True]
