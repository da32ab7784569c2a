"""The frames of a message as rows for people: place, name, value, bytes and meaning, from the end.

Whatever a peer put into a frame, the texts here are harmless: printable, short, of one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopline.message import TICKS_PER_MICROSECOND, read_extension
from hopline.wire import Annotation, Reading, Word

_RAW_BYTES = 12
_VALUE_CHARACTERS = 48
_EXTENSION_CHARACTERS = 160
_ELLIPSIS = "..."
_KINDS = {0: "hub ", 1: "actor "}  # by the first byte of an identity
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
    rows: list[FrameRow] = []
    for reading in annotation.readings:
        is_reserved = reading.name.startswith("reserved.")
        if reading.value or not is_reserved:
            rows.append(_row(reading))
    return rows


def unread_positions(annotation: Annotation) -> list[int]:
    """Return the frames that were not read because of a fault, counted from the end, without the one at fault."""
    excluded: set[int | None] = {reading.position for reading in annotation.readings}
    if annotation.fault:
        excluded.add(annotation.fault.position)
    count = len(annotation.frames)
    positions = range(1, count + 1)
    return [position for position in positions if position not in excluded]


def _row(reading: Reading) -> FrameRow:
    is_word = isinstance(reading.row, Word)
    is_packed = isinstance(reading.value, tuple)
    has_parts = is_packed or reading.value is None
    is_frame = reading.offset is None
    place = f"n-{reading.position}" if is_frame else f"@{reading.offset}"
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
    beginning = content[:_RAW_BYTES].hex()
    size = len(content)
    return f"{beginning}.. ({size:,})"


def shown(name: str, value: Any) -> str:
    """Return a value as text; whatever a peer put into it, nothing of it reaches a terminal or a page unescaped."""
    if name == "extension":
        extension = ascii(read_extension(value))
        return _cut(extension, _EXTENSION_CHARACTERS)
    if isinstance(value, bytes):
        return _bytes(value)
    if isinstance(value, str):
        return _cut(repr(value)) if value else ""
    if name == "ttl_ticks" and value:
        seconds = value / _TICKS_PER_SECOND
        return f"{seconds:g} s ({value} ticks)"
    if name.endswith(".offset") and value:
        return f"{value} (n-{value})"
    return str(value)


def _bytes(value: bytes) -> str:
    """Return bytes as text when that is what they are, perhaps behind a type byte as in actor and hub identities."""
    if not value:
        return ""
    text = value.decode("utf-8", "replace")
    is_utf8 = "\ufffd" not in text
    if is_utf8 and text.isprintable():
        return _cut(repr(text))
    kind = _KINDS.get(value[0], "")
    name = text[1:]
    has_name = is_utf8 and name and name.isprintable()
    if kind and has_name:
        return kind + _cut(repr(name))
    size = len(value)
    if size <= _RAW_BYTES:
        return value.hex()
    return plural(size, "byte")


def _cut(text: str, longest: int = _VALUE_CHARACTERS) -> str:
    if len(text) <= longest:
        return text
    kept = longest - len(_ELLIPSIS)
    return text[:kept] + _ELLIPSIS


def plural(number: int, noun: str) -> str:
    """Return a number of things as text."""
    ending = "" if number == 1 else "s"
    return f"{number:,} {noun}{ending}"
