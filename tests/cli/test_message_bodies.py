"""Bodies and kinds as people write them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from hopline import MessageIdentifier
from hopline.cli.errors import UsageError
from hopline.cli.identifiers import find_node, parse_kind
from hopline.cli.message_bodies import BodyEncoding, body_text, encode_body
from hopline.display.bodies import read_body
from hopline.routing import KnownNode
from tests.cli.commands import Command, prepare, run


@pytest.mark.parametrize(
    ("text", "writing", "body"),
    [
        ('{"a": 1}', BodyEncoding.MSGPACK, b"\x81\xa1a\x01"),
        (None, BodyEncoding.MSGPACK, b"\x80"),
        ('{"a": 1}', BodyEncoding.JSON, b'{"a": 1}'),
        ("grüß", BodyEncoding.RAW, "grüß".encode()),
        ("0a 02", BodyEncoding.HEX, b"\x0a\x02"),
        (None, BodyEncoding.RAW, b""),
    ],
)
def test_a_body_is_written_as_asked(text: str | None, writing: BodyEncoding, body: bytes) -> None:
    assert encode_body(text, None, writing) == body


def test_a_body_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\x00\xff")
    assert encode_body(None, str(tmp_path / "body"), BodyEncoding.RAW) == b"\x00\xff"
    with pytest.raises(UsageError, match="not both"):
        encode_body("x", str(tmp_path / "body"), BodyEncoding.RAW)


@pytest.mark.parametrize(
    ("body", "form", "shown"),
    [
        (b"", "empty", "(empty)"),
        (msgspec.msgpack.encode({"a": [1, b"\xff"]}), "MessagePack", '{\n  "a": [\n    1,\n    "ff"\n  ]\n}'),
        (b'{"a":1}', "JSON", '{\n  "a": 1\n}'),
        (b"5", "JSON", "5"),
        (b"A", "text", "A"),
        (b"hello\nyou", "text", "hello\nyou"),
        (b"\xff\xfe\x00", "bytes", "fffe00"),
        (b"\x1b[31m", "bytes", "1b5b33316d"),
    ],
)
def test_a_body_is_read_for_what_it_is(body: bytes, form: str, shown: str) -> None:
    assert read_body(body)[0] == form
    assert body_text(body) == shown


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ORDER", MessageIdentifier(b"ORDER")),
        ("ORDER/2", MessageIdentifier(b"ORDER", 2)),
        ("ORDER/2/eu", MessageIdentifier(b"ORDER", 2, b"eu")),
        ("a/b", MessageIdentifier(b"a/b")),
        ("hex:00ff/3", MessageIdentifier(b"\x00\xff", 3)),
    ],
)
def test_a_kind_is_read_as_it_is_shown(text: str, kind: MessageIdentifier) -> None:
    assert parse_kind(text) == kind


def test_a_node_is_meant_by_how_its_identity_begins() -> None:
    nodes = [KnownNode(b"abc-1", "tcp://a:1"), KnownNode(b"abd-2", "tcp://a:2")]
    assert find_node("abd", nodes) is nodes[1]
    with pytest.raises(UsageError, match="several nodes begin with 'ab': abc-1, abd-2"):
        find_node("ab", nodes)
    with pytest.raises(UsageError, match="no node 'x' is known; known nodes: abc-1, abd-2"):
        find_node("x", nodes)


def test_a_node_that_is_not_known_is_refused_with_what_to_write_instead() -> None:
    nodes = [KnownNode(b"shop-%d" % number, f"tcp://10.0.0.{number}:5101") for number in range(9)]
    for text, problem in {
        "zzz": "known nodes: shop-0, shop-1, shop-2, shop-3, shop-4, and 4 more, which `hopline nodes` lists",
        "shp-7": "did you mean shop-7?",
        "10.0.0.7:511": "did you mean 10.0.0.7:5101?",
        "localhost:1": "known nodes: 10.0.0.0:5101, 10.0.0.1:5101, ",
    }.items():
        with pytest.raises(UsageError, match=re.escape(f"no node '{text}' is known; {problem}")):
            find_node(text, nodes)
    with pytest.raises(UsageError, match="no other node is in the network; start one with `hopline node`"):
        find_node("shop-1", [])


def test_every_command_teaches_with_an_example(tmp_path: Path) -> None:
    for command in ("rendezvous", "node", "send", "trace", "stats", "routes", "keys new", "keys show", "keys curve"):
        done = run(tmp_path, *command.split(), "--help")
        assert done.returncode == 0
        assert "Example" in done.stdout
        assert f"hopline {command}" in done.stdout


def test_the_stack_of_an_error_is_shown_when_asked_for(tmp_path: Path) -> None:
    assert "Traceback" not in run(tmp_path, "node", "--app", "nowhere:app").stderr
    assert "Traceback" in run(tmp_path, "node", "--app", "nowhere:app", "--debug").stderr


def test_logs_may_be_json_lines(tmp_path: Path) -> None:
    prepare(tmp_path)
    with Command(tmp_path, "node", "--app", "greeter:Greeter", "--embedded", "--log-json") as node:
        node.line("is ready")
        record = json.loads(node.line("this node serves as the rendezvous"))
        assert (record["level"], record["logger"], record["correlation_id"]) == ("info", "hopline.network", "-")
        assert node.stop() == 0
