"""How a layout is written down: the vocabulary of the tables in `hopline.wire.layouts`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from struct import Struct

from hopline.message import MessageIdentifier, RoutingEntry, WireFormat


class Type(Enum):
    """What the bytes of a field are. Integers are little endian; the value is the name in the documentation."""

    BYTES = "bytes"
    TEXT = "text"
    URI = "uri"
    VERSION_TEXT = "version text"
    U16 = "u16"
    I32 = "i32"
    I64 = "i64"
    WORDS = "4 x u16"

    @property
    def width(self) -> int:
        """How many bytes the type needs; 0 for those that take any number. Surplus bytes are ignored on reading."""
        return _WIDTHS.get(self, 0)


# What a `Type.URI` must look like; it is written without a slash at its end.
ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

# What an entry of each list is in a message.
ENTRY_CLASS: dict[str, type[MessageIdentifier] | type[RoutingEntry]] = {
    "callback_point": MessageIdentifier,
    "routing": RoutingEntry,
}

WORDS = Struct("<4H")  # a packed frame

_WIDTHS = {Type.U16: 2, Type.I32: 4, Type.I64: 8, Type.WORDS: 8}


class Empty(Enum):
    """When a field's bytes are none at all."""

    NEVER = "never"
    UNSET = "when unset"
    NO_ENTRIES = "when there are no entries"
    ALWAYS = "always"
    ABSENT = "left out when unset"


@dataclass(frozen=True, slots=True)
class Word:
    """One 16-bit word of a packed frame, lowest bits first."""

    name: str
    meaning: str
    selector: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a table.

    `position` counts from the end of what the row stands in: ``n-6`` of a message's frames, or the frame that many
    above the bottom one of an entry. In the meta frame of V6 it is the order. `name` is the `Message` attribute that
    the field holds, or a name with a dot (``routing.offset``) for what only the codec needs.
    """

    position: int
    name: str
    type: Type
    meaning: str
    empty: Empty = Empty.NEVER
    selector: bool = False
    words: tuple[Word, ...] = ()
    scale: int = 1  # how many of the message's units one unit on the wire is
    values: Mapping[int, int] | None = None  # wire value to message value, where only these are allowed
    minimum: int | None = None
    erratum: str = ""  # where the document is wrong or silent, and what holds


@dataclass(frozen=True, slots=True)
class Entries:
    """A repeated group. `fields` go upwards from the bottom frame, which is the one that an offset points at."""

    name: str
    fields: tuple[Field, ...]
    meaning: str
    position: int = 0  # the order in the meta frame of V6

    @property
    def divisor(self) -> int:
        """How many frames we write for one entry; a reader takes the received number instead."""
        return len(self.fields)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """One format, or one dialect of a format.

    `fixed` are the frames that every message ends with, n-1 first. `entries` stand above them, the group nearest to
    the end first. `meta`, for V6, is what stands inside frame n-1. `extension` stands right above the fixed frames, or
    behind the last row of `meta`, if it is there at all.
    """

    name: str
    wire_format: WireFormat
    title: str
    fixed: tuple[Field, ...]
    entries: tuple[Entries, ...] = ()
    meta: tuple[Field | Entries, ...] = ()
    number: bytes = b""  # what the last frame says, or the first bytes of the meta frame
    several_bodies: bool = True  # the oldest layouts have, or had, one body frame only
    extension: Field | None = None

    @property
    def has_body_offset(self) -> bool:
        """Whether the body stands above the entries and is found by its offset; else it is the last frame."""
        return self.fixed[0].name != "bodies"

    @property
    def restores_socket_identity(self) -> bool:
        """Whether a reader takes the socket identity from the envelope. The multipart readers never did."""
        return bool(self.meta)

    def names(self) -> Iterator[str]:
        """Every `Message` attribute that the layout has a place for."""
        for row in self.meta or self.fixed:
            if isinstance(row, Entries):
                yield row.name
            elif row.words:
                yield from (word.name for word in row.words if "." not in word.name)
            elif "." not in row.name:
                yield row.name
        yield from (entries.name for entries in self.entries)
        if self.extension is not None:
            yield self.extension.name
        if self.has_body_offset:
            yield "bodies"
        if self.restores_socket_identity:
            yield "socket_identity"
