"""The wire formats that a node reads, as it declares them in the extension of its announcements.

A node of the reference declares nothing. What others declare is untrusted, as the whole extension is: a declaration
that is no list of names, or too long for one, is none, and names of formats that are not known here are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hopline.message import WireFormat, read_extension, write_extension

READS: Final = "reads"
"""The name of the declaration in the extension."""

MOST_FORMATS = 16  # that a declaration may name; there are five today
_BY_NAME = {str(wire_format): wire_format for wire_format in WireFormat}


def declare_formats(formats: Iterable[WireFormat]) -> bytes:
    """Return the extension of an announcement whose node reads these formats."""
    return write_extension({READS: [str(wire_format) for wire_format in formats]})


def declared_formats(extension: bytes) -> frozenset[WireFormat]:
    """Return the formats that the sender of an announcement declares to read; none, if it declares nothing."""
    names = read_extension(extension).get(READS) if extension else None
    if not isinstance(names, list) or len(names) > MOST_FORMATS:
        return frozenset()
    return frozenset(_BY_NAME[name] for name in names if isinstance(name, str) and name in _BY_NAME)


OWN_DECLARATION = declare_formats(WireFormat)  # Hopline reads them all, whatever it is set to write
