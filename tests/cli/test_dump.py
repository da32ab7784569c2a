"""How values look in the dump, and how it fits a narrow terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hopline import Message, WireFormat, annotate, encode
from hopline.cli.dump import WIDTH_FOR_MEANINGS, Dump, raw, shown, summary
from hopline.wire import Annotation

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
        ("signature", b"\x80\x81", ""),
        ("callback_key", b"\x00", ""),
        ("domain", "", ""),
        ("domain", "orders", "'orders'"),
        ("domain", "x" * 100, "'" + "x" * 44 + "..."),
        ("ttl_ticks", 0, "0"),
        ("ttl_ticks", 15_000_000, "1.5 s (15000000 ticks)"),
        ("body.offset", 18, "18 (n-18)"),
        ("body.offset", 0, "0"),
        ("hops", 3, "3"),
    ],
)
def test_values_are_shown_as_people_read_them(name: str, value: object, text: str) -> None:
    assert shown(name, value) == text


def test_bytes_are_shown_by_their_beginning() -> None:
    assert raw(b"") == "empty"
    assert raw(b"\x01\x02") == "0102"
    assert raw(bytes(1234)) == "00" * 12 + ".. (1,234)"


def rendered(width: int, *, colour: bool = False) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=colour, color_system="truecolor" if colour else None
    )
    console.print(Dump("one", annotate(encode(Message(b"HELLO"), WireFormat.V5))))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_a_narrow_terminal_gets_the_dump_without_meanings() -> None:
    assert "the kind of message" in rendered(WIDTH_FOR_MEANINGS)
    narrow = rendered(100)
    assert "the kind of message" not in narrow
    assert all(len(line) <= 100 for line in narrow.splitlines())


def test_a_terminal_gets_colours() -> None:
    assert "\x1b[" in rendered(160, colour=True)


def test_a_summary_needs_a_message_or_a_fault() -> None:
    with pytest.raises(ValueError, match="a message or a fault"):
        summary("x", Annotation([], None, (), None, None))
