"""Breaking long lines of text: between the entries of a list if possible, else between words, else anywhere."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, chop_cells

_HANGING = "    "


def wrap(text: str, width: int | None, hanging: str = _HANGING) -> list[str]:
    """Break a line, so that nothing of it is cut off.

    Args:
        text: The line. Entries of a list are separated by ``", "``.
        width: The cells of the terminal; None: the line is not broken.
        hanging: Precedes every line but the first.
    """
    if width is None or cell_len(text) <= width:
        return [text]
    words = text.lstrip(" ")
    indent = text.removesuffix(words)
    room = max(1, width - cell_len(hanging))
    lines: list[str] = []
    line = ""
    for piece in _pieces(words, room):
        longer = f"{line} {piece}" if line else f"{indent}{piece}"
        if line and cell_len(longer) > width:
            lines.append(line)
            line = f"{hanging}{piece}"
        else:
            line = longer
    return [*lines, line]


def _pieces(text: str, room: int) -> Iterator[str]:
    """Return what stays in one line: entries with their comma, words of longer entries, parts of longer words."""
    *entries, last = text.split(", ")
    for entry in [*(f"{entry}," for entry in entries), last]:
        if cell_len(entry) <= room:
            yield entry
            continue
        for word in entry.split(" "):
            yield from chop_cells(word, room) if cell_len(word) > room else (word,)
