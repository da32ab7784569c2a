"""The careful writer: walks a layout table, and names the field that cannot be written.

Like the careful reader it is the authority: the compiled encoders leave to it whatever they stumble over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hopline.message import (
    LARGEST_EXTENSION,
    Message,
    usable_extension,
    version_from_text,
    version_to_text,
)
from hopline.wire.errors import LocalError
from hopline.wire.layout import ABSOLUTE_URI, ENTRY_CLASS, WORDS, Empty, Entries, Field, Layout, Type
from hopline.wire.limits import DEFAULT_LIMITS, Limits
from hopline.wire.reader import is_meta_frame

_RANGES = {
    Type.U16: (0, 2**16 - 1),
    Type.I32: (-(2**31), 2**31 - 1),
    Type.I64: (-(2**63), 2**63 - 1),
    Type.WORDS: (0, 2**16 - 1),
}


class Writer:
    """Writes one message in one layout."""

    def __init__(self, message: Message, layout: Layout, limits: Limits = DEFAULT_LIMITS) -> None:
        self.message = message
        self.layout = layout
        self.limits = limits
        self._check_bodies()
        self._extension = self._written_extension()
        self._numbers = self._descriptors()

    def write(self) -> list[bytes]:
        """Return the frames, or raise `LocalError`."""
        frames = [as_bytes("socket_identity", self.message.socket_identity), b""]
        if self.layout.has_body_offset:
            frames += self.message.bodies
        for entries in reversed(self.layout.entries):
            for nth, entry in enumerate(self._entries(entries)):
                frames += [self._entry_field(entries, nth, entry, row) for row in reversed(entries.fields)]
        if self.layout.meta:
            frames.append(self._meta() + self._extension)
        else:
            frames += [self._extension] * bool(self._extension)
            frames += [self._field(row) for row in reversed(self.layout.fixed)]
        self._check_size(frames)
        return frames

    # -- what follows from the message's shape ----------------------------------------------------------------------

    def _descriptors(self) -> dict[str, int]:
        """Work out counts, offsets and divisors: everything that the message itself does not say."""
        numbers: dict[str, int] = {}
        below = len(self.layout.fixed) + bool(self._extension and not self.layout.meta)
        groups = self.layout.entries or tuple(row for row in self.layout.meta if isinstance(row, Entries))
        for entries in groups:
            count = len(self._entries(entries))
            if count > self.limits.entries:
                raise LocalError(entries.name, f"at most {self.limits.entries} entries", count)
            numbers[f"{entries.name}.count"] = count
            numbers[f"{entries.name}.offset"] = below + 1 if count else 0
            numbers[f"{entries.name}.divisor"] = entries.divisor
            if self.layout.entries:
                below += count * entries.divisor
        numbers["body.count"] = len(self.message.bodies)
        numbers["body.offset"] = below + len(self.message.bodies)
        return numbers

    def _entries(self, entries: Entries) -> Sequence[Any]:
        listed = getattr(self.message, entries.name)
        if not isinstance(listed, tuple | list):
            raise LocalError(entries.name, f"a tuple of {ENTRY_CLASS[entries.name].__name__}", listed)
        for nth, entry in enumerate(listed):
            if not isinstance(entry, ENTRY_CLASS[entries.name]):
                raise LocalError(f"{entries.name}[{nth}]", f"a {ENTRY_CLASS[entries.name].__name__}", entry)
        return listed

    def _check_bodies(self) -> None:
        bodies = self.message.bodies
        if not isinstance(bodies, tuple | list):
            raise LocalError("bodies", "a tuple of bytes", bodies)
        most = self.limits.frames if self.layout.several_bodies else 1
        if not 1 <= len(bodies) <= most:
            raise LocalError("bodies", "one body frame" if most == 1 else "at least one body frame", len(bodies))
        for body in bodies:
            as_bytes("bodies", body)
        if not self.layout.has_body_offset and is_meta_frame(bodies[0]):
            # The message would be read as V6: see `hopline.wire.detection`.
            raise LocalError("bodies", "a body that is no V6 meta frame, in this format", bodies[0])

    def _written_extension(self) -> bytes:
        """Return the extension, if the layout has a place for it; refuse what no reader would take for one."""
        if self.layout.extension is None:
            return b""
        extension = as_bytes("extension", self.message.extension)
        if extension and not usable_extension(extension):
            raise LocalError("extension", f"a MessagePack map of at most {LARGEST_EXTENSION} bytes", extension)
        return extension

    def _check_size(self, frames: list[bytes]) -> None:
        if len(frames) > self.limits.frames:
            raise LocalError("frames", f"at most {self.limits.frames}", len(frames))
        largest, size = max(map(len, frames)), sum(map(len, frames))
        if largest > self.limits.frame_size:
            raise LocalError("frames", f"at most {self.limits.frame_size} bytes in one", largest)
        if size > self.limits.message_size:
            raise LocalError("frames", f"at most {self.limits.message_size} bytes together", size)

    # -- fields -----------------------------------------------------------------------------------------------------

    def _value(self, name: str) -> Any:
        if name in self._numbers:
            return self._numbers[name]
        if name == "bodies":
            return self.message.body
        return 0 if "." in name else getattr(self.message, name)

    def _field(self, row: Field) -> bytes:
        if row.name == "version.wire_format":
            return self.layout.number
        if row.empty is Empty.ALWAYS:
            return b""
        if row.words:
            return WORDS.pack(*(in_range(word.name, self._value(word.name), row.type) for word in row.words))
        value = self._value(row.name)
        if row.empty is Empty.NO_ENTRIES and not value:
            return b""
        return encode_value(row.name, value, row)

    @staticmethod
    def _entry_field(entries: Entries, nth: int, entry: Any, row: Field) -> bytes:
        return encode_value(f"{entries.name}[{nth}].{row.name}", getattr(entry, row.name), row)

    # -- the meta frame of V6 ---------------------------------------------------------------------------------------

    def _meta(self) -> bytes:
        parts: list[bytes] = []
        for row in self.layout.meta:
            if isinstance(row, Field):
                parts += sized(row, self._field(row))
                continue
            for nth, entry in enumerate(self._entries(row)):
                content = b"".join(
                    part for field in row.fields for part in sized(field, self._entry_field(row, nth, entry, field))
                )
                parts += (len(content).to_bytes(4, "little"), content)
        return b"".join(parts)


def sized(row: Field, content: bytes) -> Iterable[bytes]:
    """Put the length in front of what varies; a length beyond i32 is beyond the limits too."""
    return (content,) if row.type.width else (len(content).to_bytes(4, "little"), content)


def encode_value(name: str, value: Any, row: Field) -> bytes:
    """Return the bytes of one value as its row has it, or raise `LocalError` for what the row cannot express."""
    match row.type:
        case Type.BYTES:
            return as_bytes(name, value)
        case Type.TEXT | Type.URI:
            return _encode_text(name, value, is_uri=row.type is Type.URI)
        case Type.VERSION_TEXT:
            return _encode_version(name, value)
        case _:
            return _encode_number(name, value, row)


def _encode_text(name: str, value: Any, *, is_uri: bool) -> bytes:
    if not isinstance(value, str):
        raise LocalError(name, "text", value)
    text = value.rstrip("/") if is_uri else value
    if is_uri and not ABSOLUTE_URI.match(text):
        raise LocalError(name, "an absolute URI", value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise LocalError(name, "text that UTF-8 can hold", value) from None


def _encode_version(name: str, value: Any) -> bytes:
    if not isinstance(value, bytes):
        return version_to_text(in_range(name, value, Type.U16))
    number = version_from_text(value)
    if isinstance(number, int):
        raise LocalError(name, f"{number!r}, as the number that the text means", value)
    return value


def _encode_number(name: str, value: Any, row: Field) -> bytes:
    if row.values is not None:
        wire = {ours: theirs for theirs, ours in row.values.items()}
        if as_integer(name, value) not in wire:
            raise LocalError(name, f"one of {', '.join(map(str, wire))}", value)
        value = wire[value]
    if row.scale != 1:
        units, rest = divmod(abs(as_integer(name, value)), row.scale)
        units += rest > 0  # away from zero: what is left of a lifetime must never become "no limit"
        units = min(units, _RANGES[Type.I64][1] // row.scale)  # no further than a reader can turn back
        value = units if value > 0 else -units
    if row.minimum is not None and as_integer(name, value) < row.minimum:
        raise LocalError(name, f"at least {row.minimum}", value)
    number = in_range(name, value, row.type)
    return number.to_bytes(row.type.width, "little", signed=row.type is not Type.U16)


def as_bytes(name: str, value: object) -> bytes:
    """Check that a value is bytes; anything else would fail much later, in the socket."""
    if not isinstance(value, bytes):
        raise LocalError(name, "bytes", value)
    return value


def as_integer(name: str, value: object) -> int:
    """Check that a value is a whole number."""
    if not isinstance(value, int):
        raise LocalError(name, "an integer", value)
    return value


def in_range(name: str, value: object, kind: Type) -> int:
    """Check that a value fits into its type."""
    number, (low, high) = as_integer(name, value), _RANGES[kind]
    if not low <= number <= high:
        raise LocalError(name, f"{low} to {high} ({kind.value})", value)
    return number
