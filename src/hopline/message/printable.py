r"""Text that a stranger chose, made fit for a log or a terminal.

Identities, partitions, correlation ids, node names and reasons come off the wire: they may hold anything, at any
length. A line break forges a record of a log, an escape sequence (also as one character, C1) takes over a terminal, a
bidirectional override makes a line read backwards, and a name of 20 MB fills a disk. So whatever leaves for a log or a
terminal passes `printable`, which escapes every character that is not printable as Python writes it (``\\n``,
``\\x1b``, ``\\u202e``) and cuts what is long. Printable text, of any script, stays as it is.

JSON has escapes of its own: `printable_json` uses these, so that a program reads the very value that was there.
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
    r"""Return a text as one line without anything that a terminal obeys, cut to `limit` characters if there is one.

    Bytes are read as UTF-8; those that are not become ``\\xff``.
    """
    size = len(text)
    if isinstance(text, bytes):
        # Of what is cut anyway no more is decoded than is shown.
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
    r"""Return a text of several lines with its line breaks (``\\n``) kept, and nothing else that a terminal obeys."""
    lines = "\n".join(_escaped(line) for line in text[:limit].split("\n"))
    return lines if limit is None or len(text) <= limit else f"{lines}... ({len(text):,} characters)"


def printable_json(document: str, *, ascii_only: bool = False) -> str:
    """Return a JSON document of one line with what is not printable escaped by JSON's own rules: its value is the same.

    With `ascii_only` every character outside ASCII is, for an output that has no others.
    """
    if document.isprintable() and not (ascii_only and not document.isascii()):
        return document

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character.isprintable() and not ascii_only:
            return character
        units = character.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

    return _NOT_PLAIN.sub(escape, document)


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
