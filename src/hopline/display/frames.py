"""The frames of a message as rows for people: place, name, value, bytes and meaning, from the end.

Whatever a peer put into a frame, the texts here are harmless: printable, short, of one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hopline.message import TICKS_PER_MICROSECOND, read_extension
from hopline.wire import Annotation, Reading, Word

_RAW_BYTES = 12
_VALUE_CHARACTERS = 48
_EXTENSION_CHARACTERS = 160
_TICKS_PER_SECOND = 1_000_000 * TICKS_PER_MICROSECOND


@dataclass(frozen=True, slots=True)
class FrameRow:
    """A frame, a word of a packed frame, or a field of the meta frame."""

    place: str  # such as n-6, or @12 for a field of the meta frame; empty for a word
    field: str
    value: str
    raw: str
    meaning: str
    is_word: bool
    is_selector: bool


def frame_rows(annotation: Annotation) -> list[FrameRow]:
    """Return what was read of a message, without reserved fields that are empty."""
    return [
        _row(reading) for reading in annotation.readings if reading.value or not reading.name.startswith("reserved.")
    ]


def unread_positions(annotation: Annotation) -> list[int]:
    """Return the frames that were not read because of a fault, counted from the end, without the one at fault."""
    read = {reading.position for reading in annotation.readings}
    at_fault = annotation.fault.position if annotation.fault else None
    positions: Iterable[int] = range(1, len(annotation.frames) + 1)
    return [position for position in positions if position not in read and position != at_fault]


def _row(reading: Reading) -> FrameRow:
    is_word = isinstance(reading.row, Word)
    has_parts = reading.value is None or isinstance(reading.value, tuple)
    place = f"n-{reading.position}" if reading.offset is None else f"@{reading.offset}"
    return FrameRow(
        place="" if is_word else place,
        field=reading.name,
        value="" if has_parts else shown(reading.name, reading.value),
        raw="" if is_word else raw(reading.raw),
        meaning=reading.row.meaning,
        is_word=is_word,
        is_selector=reading.row.selector,
    )


def raw(content: bytes) -> str:
    """Return the beginning of some bytes in hex, and how many there are."""
    if not content:
        return "empty"
    if len(content) <= _RAW_BYTES:
        return content.hex()
    return f"{content[:_RAW_BYTES].hex()}.. ({len(content):,})"


def shown(name: str, value: Any) -> str:
    """Return a value as text; whatever a peer put into it, nothing of it reaches a terminal or a page unescaped."""
    if name == "extension":
        return _cut(ascii(read_extension(value)), _EXTENSION_CHARACTERS)
    if isinstance(value, bytes):
        return _bytes(value)
    if isinstance(value, str):
        return _cut(repr(value)) if value else ""
    if name == "ttl_ticks" and value:
        return f"{value / _TICKS_PER_SECOND:g} s ({value} ticks)"
    if name.endswith(".offset") and value:
        return f"{value} (n-{value})"
    return str(value)


def _bytes(value: bytes) -> str:
    """Return bytes as text when that is what they are, perhaps behind a type byte as in actor and hub identities."""
    if not value:
        return ""
    text = value.decode("utf-8", "replace")
    if text.isprintable() and "\ufffd" not in text:
        return _cut(repr(text))
    kind = {0: "hub ", 1: "actor "}.get(value[0], "")
    if kind and text[1:].isprintable() and len(text) > 1 and "\ufffd" not in text:
        return kind + _cut(repr(text[1:]))
    return value.hex() if len(value) <= _RAW_BYTES else plural(len(value), "byte")


def _cut(text: str, longest: int = _VALUE_CHARACTERS) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def plural(number: int, noun: str) -> str:
    """Return a number of things as text."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
