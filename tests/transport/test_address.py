from __future__ import annotations

import pytest

from hopline import ArgumentError
from hopline.transport import Address, SocketSettings, advertised, parse, resolve
from hopline.transport.libzmq import ZmqTransport


@pytest.mark.parametrize(
    ("text", "host", "first", "last"),
    [
        ("tcp://127.0.0.1:5101", "127.0.0.1", 5101, 5101),
        ("tcp://*:5101-5130", "*", 5101, 5130),
        ("tcp://example.org:80/", "example.org", 80, 80),
        ("tcp://[::1]:5101", "[::1]", 5101, 5101),
        ("tcp://127.0.0.1:0", "127.0.0.1", 0, 0),
        ("tcp://127.0.0.1:*", "127.0.0.1", 0, 0),
    ],
)
def test_an_address_is_a_host_and_ports(text: str, host: str, first: int, last: int) -> None:
    assert parse(text) == Address(host, first, last)


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1:5101",
        "tcp://127.0.0.1",
        "tcp://:5101",
        "ipc:///tmp/socket",
        "inproc://health",
        "udp://127.0.0.1:5101",
        "tcp://127.0.0.1:70000",
        "tcp://127.0.0.1:5103-5101",
        "tcp://127.0.0.1:5101-70000",
        "tcp://a:b:c",
        "tcp://127.0.0.1:5101/path",
        "",
    ],
)
def test_what_is_no_address_is_refused_by_the_name_of_its_field(text: str) -> None:
    with pytest.raises(ArgumentError, match="heartbeat_address"):
        parse(text, "heartbeat_address")


def test_a_single_port_is_one_candidate_and_a_range_is_tried_upwards() -> None:
    assert parse("tcp://127.0.0.1:5101").candidates == ["tcp://127.0.0.1:5101"]
    assert parse("tcp://127.0.0.1:5101-5103").candidates == [f"tcp://127.0.0.1:{port}" for port in (5101, 5102, 5103)]
    assert parse("tcp://127.0.0.1:0").candidates == ["tcp://127.0.0.1:*"]


@pytest.mark.parametrize(
    ("text", "is_loopback"),
    [
        ("tcp://127.0.0.1:1", True),
        ("tcp://127.9.9.9:1", True),
        ("tcp://localhost:1", True),
        ("tcp://[::1]:1", True),
        ("tcp://*:1", False),
        ("tcp://0.0.0.0:1", False),
        ("tcp://[::]:1", False),
        ("tcp://10.0.0.1:1", False),
        ("tcp://example.org:1", False),
    ],
)
def test_only_loopback_is_reached_by_this_machine_alone(text: str, is_loopback: bool) -> None:
    assert parse(text).is_loopback is is_loopback


def test_an_address_reads_as_it_was_written() -> None:
    for text in ("tcp://127.0.0.1:5101", "tcp://*:5101-5130"):
        assert str(parse(text)) == text


def test_names_are_looked_up() -> None:
    assert resolve("tcp://localhost:5101") == "tcp://127.0.0.1:5101"
    assert resolve("tcp://127.0.0.1:5101") == "tcp://127.0.0.1:5101"
    assert resolve("tcp://[::1]:5101") == "tcp://[::1]:5101"
    with pytest.raises(ArgumentError, match="looked up"):
        resolve("tcp://no-such-host.invalid:5101")


def test_what_is_advertised_can_be_reached_from_elsewhere() -> None:
    assert advertised("tcp://127.0.0.1:5101") == "tcp://127.0.0.1:5101"
    assert advertised("tcp://0.0.0.0:5101", "localhost") == "tcp://127.0.0.1:5101"
    assert advertised("tcp://0.0.0.0:5101", "10.1.2.3") == "tcp://10.1.2.3:5101"
    with pytest.raises(ArgumentError, match="advertise"):
        advertised("tcp://0.0.0.0:5101", "not a host")


@pytest.mark.parametrize(
    ("uri", "is_reached"),
    [
        ("tcp://10.0.0.1:5101", True),
        ("tcp://[::1]:5101", True),
        ("tcp://node1.example.org:5101", False),  # looking it up would hold every socket of the process up
        ("tcp://localhost:5101", False),
        ("tcp://*:5101", False),
        ("tcp://10.0.0.1:5101-5102", False),
        ("tcp://10.0.0.1:0", False),
        ("tcp://10.0.0.1:5101/", False),
        ("ipc:///tmp/socket", False),
    ],
)
def test_strangers_are_reached_at_numbers_only(uri: str, is_reached: bool) -> None:
    assert ZmqTransport(SocketSettings(), None).can_connect(uri) is is_reached
