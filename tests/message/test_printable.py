"""Whatever a stranger chose, a log or a terminal gets one line of printable text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.message import (
    LONGEST_NAME,
    LONGEST_TEXT,
    MessageIdentifier,
    printable,
    printable_json,
    printable_lines,
    printable_name,
)

ANY_TEXT = st.text(st.characters(codec=None))
LONGEST_ESCAPE = len("\\U0001f600")


@given(st.one_of(ANY_TEXT, st.binary()))
def test_everything_becomes_one_printable_line(text: str | bytes) -> None:
    assert printable(text).isprintable()
    assert printable_name(text).isprintable()


@given(ANY_TEXT, st.integers(0, 50))
def test_no_more_is_shown_than_was_asked_for(text: str, limit: int) -> None:
    assert len(printable(text, limit)) <= limit * LONGEST_ESCAPE + len("... (50 characters)")


@pytest.mark.parametrize("text", ["plain", "café", "заказ", "注文", "a\\b", ""])
def test_printable_text_of_any_script_stays_as_it_is(text: str) -> None:
    assert printable(text) == printable(text.encode()) == printable_json(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\r\n", "two\\nlines\\r\\n"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31mred", "\\x9b31mred"),  # the same in one character of C1
        ("gnp\u202eexe.", "gnp\\u202eexe."),
        ("\u2066isolated\u2069", "\\u2066isolated\\u2069"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        (b"\xff\x1b", "\\xff\\x1b"),
    ],
)
def test_what_a_terminal_obeys_is_escaped(text: str | bytes, shown: str) -> None:
    assert printable(text) == shown


def test_what_is_long_is_cut_and_says_how_long_it_was() -> None:
    assert printable("x" * 5_000) == "x" * LONGEST_TEXT + "... (5,000 characters)"
    assert printable("é" * 5_000, limit=3) == "ééé... (5,000 characters)"
    assert printable("é".encode() * 300, limit=3) == "ééé... (600 bytes)"
    assert printable("x" * 5_000, limit=None) == "x" * 5_000


def test_an_identity_that_a_socket_can_have_is_never_cut() -> None:
    assert printable_name(b"n" * 255) == "n" * 255


def test_the_kind_of_a_message_is_printable_and_short() -> None:
    kind = MessageIdentifier(b"ORDER\n" + b"x" * 20_000_000, b"1.1\x1b" * 1_000_000, b"\x9b" * 20_000_000)
    assert str(kind).isprintable()
    assert len(str(kind)) < 3 * LONGEST_NAME * LONGEST_ESCAPE
    assert str(MessageIdentifier(b"ORDER", 2, b"eu")) == "ORDER/2/eu"


def test_line_breaks_stay_where_there_are_lines() -> None:
    assert printable_lines("one\n\x1b[2Jtwo\r\n") == "one\n\\x1b[2Jtwo\\r\n"
    assert printable_lines("one\ntwo", limit=5) == "one\nt... (7 characters)"


@given(st.recursive(ANY_TEXT.map(lambda text: text.encode("utf-8", "replace").decode()), st.lists))
def test_json_is_printable_and_has_the_same_value(value: object) -> None:
    document = json.dumps(value, ensure_ascii=False)
    for ascii_only in (False, True):
        escaped = printable_json(document, ascii_only=ascii_only)
        assert escaped.isprintable()
        assert escaped.isascii() or not ascii_only
        assert json.loads(escaped) == value


def test_json_escapes_are_those_of_json() -> None:
    assert printable_json('"\x9b \u202e \x7f é 😀"') == '"\\u009b \\u202e \\u007f é 😀"'
    assert printable_json('"é 😀"', ascii_only=True) == '"\\u00e9 \\ud83d\\ude00"'
