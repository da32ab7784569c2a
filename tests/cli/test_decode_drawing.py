"""How values look in the dump, and how it fits a narrow terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hopline import Message, WireFormat
from hopline.cli.commands.decode.drawing import NEEDED_WIDTH, draw_message, summary_line
from hopline.display.frames import plural, raw, shown
from hopline.message import write_extension
from hopline.wire import Annotation, annotate, encode

GUID = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("identity", b"HELLO", "'HELLO'"),
        ("identity", "домен".encode(), "'домен'"),
        ("identity", b"", ""),
        ("receiver_identity", b"\x01" + GUID.encode(), f"actor '{GUID}'"),
        ("receiver_identity", b"\x00" + GUID.encode(), f"hub '{GUID}'"),
        ("signature", bytes(range(128, 144)), "16 bytes"),
        ("signature", b"\x80\x81", "8081"),
        ("receiver_identity", b"\x00", "00"),
        ("domain", "", ""),
        ("domain", "orders", "'orders'"),
        ("domain", "x" * 100, "'" + "x" * 44 + "..."),
        ("ttl_ticks", 0, "0"),
        ("ttl_ticks", 15_000_000, "1.5 s (15000000 ticks)"),
        ("body.offset", 18, "18 (n-18)"),
        ("body.offset", 0, "0"),
        ("hops", 3, "3"),
        ("extension", write_extension({"traceparent": "00-1-2-01"}), "{'traceparent': '00-1-2-01'}"),
        ("extension", write_extension({"\x1b[31m": "\u202e"}), "{'\\x1b[31m': '\\u202e'}"),
        ("extension", write_extension({"a": "x" * 900}), "{'a': '" + "x" * 150 + "..."),
    ],
)
def test_values_are_shown_as_people_read_them(name: str, value: object, text: str) -> None:
    assert shown(name, value) == text


def test_bytes_are_shown_by_their_beginning() -> None:
    assert raw(b"") == "empty"
    assert raw(b"\x01\x02") == "0102"
    assert raw(bytes(1234)) == "00" * 12 + ".. (1,234)"


def drawn(width: int) -> list[str]:
    message = Message(b"HELLO", callback_receiver_identity=b"\x00" + GUID.encode())
    return draw_message("one", annotate(encode(message, WireFormat.V5)), width).plain.splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 110, 130, 140, 150, 240])
def test_the_dump_fits_the_terminal_and_loses_no_value(width: int) -> None:
    lines = drawn(width)
    assert max(map(len, lines[1:])) <= max(width, 60)
    assert "value" in lines[1]
    assert "'HELLO'" in "".join(lines)
    assert GUID in "".join(line.strip() for line in lines)
    assert ("bytes" in lines[1]) is (width >= NEEDED_WIDTH["bytes"])
    assert ("the kind of" in "".join(lines)) is (width >= NEEDED_WIDTH["meaning"])


def test_a_terminal_gets_colours() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor")
    with console.capture() as capture:
        console.print(draw_message("one", annotate(encode(Message(b"HELLO"), WireFormat.V5)), 160))
    assert "\x1b[" in capture.get()


def test_reserved_words_are_shown_only_when_they_say_something() -> None:
    frames = encode(Message(b"HELLO"), WireFormat.V5)
    assert "reserved" not in draw_message("one", annotate(frames), 160).plain
    frames[-5] = frames[-5][:6] + b"\x01\x00"
    assert "reserved.3" in draw_message("one", annotate(frames), 160).plain


def test_counts_and_labels_are_said_properly() -> None:
    assert (plural(1, "frame"), plural(2, "frame"), plural(1234, "byte")) == ("1 frame", "2 frames", "1,234 bytes")


def test_a_summary_needs_a_message_or_a_fault() -> None:
    with pytest.raises(ValueError, match="a message or a fault"):
        summary_line("x", Annotation([], None, (), None, None))
