"""The wire formats that a node reads, as it declares them in the extension of its announcements.

A node of the reference declares nothing. A declaration is untrusted, as the whole extension is: one that is not a list
of names, or is too long, counts as none, and names of unknown formats are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hopline.message import WireFormat, read_extension, write_extension

READS: Final = "reads"
"""The name of the declaration in the extension."""

MOST_FORMATS = 16  # in one declaration; there are five today
_BY_NAME = {str(wire_format): wire_format for wire_format in WireFormat}


def declare_formats(formats: Iterable[WireFormat]) -> bytes:
    """Return the extension of an announcement of a node that reads these formats."""
    return write_extension(format_entry(formats))


def format_entry(formats: Iterable[WireFormat]) -> dict[str, list[str]]:
    """Return the entry of the extension that declares these formats."""
    names = [str(wire_format) for wire_format in formats]
    return {READS: names}


@lru_cache(maxsize=64)  # most nodes declare the same, and each keeps what all others declare
def declared_formats(extension: bytes) -> frozenset[WireFormat]:
    """Return the formats that are declared in the extension of an announcement; none without a declaration."""
    if not extension:
        return frozenset()
    content = read_extension(extension)
    names = content.get(READS)
    if not isinstance(names, list) or len(names) > MOST_FORMATS:
        return frozenset()
    formats = set()
    for name in names:
        if isinstance(name, str) and name in _BY_NAME:
            formats.add(_BY_NAME[name])
    return frozenset(formats)


OWN_DECLARATION = declare_formats(WireFormat)
"""The declaration of every Hopline node: it reads all formats, whichever it is configured to write."""
