r"""Make untrusted text safe for a log or a terminal.

Identities, partitions, correlation ids, node names and reasons come off the wire: they may hold anything, at any
length. A line break forges a log record, an escape sequence (also as one character, C1) controls a terminal, a
bidirectional override makes a line read backwards, and a name of 20 MB fills a disk. So everything that is written to a
log or a terminal passes `printable`, which escapes every character that is not printable as Python writes it (``\\n``,
``\\x1b``, ``\\u202e``) and cuts what is long. Printable text, of any script, stays as it is.

JSON has escapes of its own: `printable_json` uses these, so that a program reads the original value.
"""

from __future__ import annotations

import re

LONGEST_NAME = 256
"""Characters of a name that are shown: any identity that libzmq can address is shown in full."""
LONGEST_TEXT = 4_000
"""Characters of any other text."""
LONGEST_LINES = 32_000
"""Characters of a text of several lines, such as a traceback."""

_BYTES_PER_CHARACTER = 4  # in UTF-8, at the most
_NOT_PLAIN = re.compile(r"[^ -~]")


def printable(text: str | bytes, limit: int | None = LONGEST_TEXT) -> str:
    r"""Return a text as one line without control sequences, cut to `limit` characters if there is one.

    Bytes are read as UTF-8; those that are not become ``\\xff``.
    """
    size = len(text)
    if isinstance(text, bytes):
        # Decode no more than can be shown.
        start = text if limit is None else text[: limit * _BYTES_PER_CHARACTER + 1]
        text = start.decode("utf-8", "backslashreplace")
        unit = "bytes"
    else:
        unit = "characters"
    if limit is None or len(text) <= limit:
        return _escaped(text)
    return f"{_escaped(text[:limit])}... ({size:,} {unit})"


def printable_name(name: str | bytes) -> str:
    """Return the name of a node, actor, hub, domain or flow as one short line."""
    return printable(name, LONGEST_NAME)


def printable_lines(text: str, limit: int | None = LONGEST_LINES) -> str:
    r"""Return a text of several lines with its line breaks (``\\n``) kept, and no other control characters."""
    lines = text[:limit].split("\n")
    shown = "\n".join(map(_escaped, lines))
    if limit is None or len(text) <= limit:
        return shown
    return f"{shown}... ({len(text):,} characters)"


def printable_json(document: str, *, ascii_only: bool = False) -> str:
    """Return a JSON document of one line with what is not printable escaped by JSON's own rules: its value is the same.

    With `ascii_only` every character outside ASCII is, for an output that has no others.
    """
    is_displayable = document.isascii() or not ascii_only
    if document.isprintable() and is_displayable:
        return document

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character.isprintable() and not ascii_only:
            return character
        code_units = character.encode("utf-16-be", "surrogatepass")
        escapes = []
        for at in range(0, len(code_units), 2):
            code_unit = code_units[at : at + 2]
            escapes.append(f"\\u{code_unit.hex()}")
        return "".join(escapes)

    return _NOT_PLAIN.sub(escape, document)


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    characters = []
    for character in text:
        is_safe = character.isprintable()
        characters.append(character if is_safe else repr(character)[1:-1])
    return "".join(characters)
