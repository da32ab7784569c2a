"""The careful writer: walks a layout table, and names the field that cannot be written.

Like the careful reader it is the authority: the compiled encoders leave to it whatever they cannot write.
"""

from __future__ import annotations

from collections.abc import Sequence
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

_U16_MAX = 2**16 - 1
_I32_MAX = 2**31 - 1
_I64_MAX = 2**63 - 1
_RANGES = {
    Type.U16: (0, _U16_MAX),
    Type.I32: (-_I32_MAX - 1, _I32_MAX),
    Type.I64: (-_I64_MAX - 1, _I64_MAX),
    Type.WORDS: (0, _U16_MAX),
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
        layout = self.layout
        socket_identity = as_bytes("socket_identity", self.message.socket_identity)
        frames = [socket_identity, b""]
        if layout.has_body_offset:
            frames += self.message.bodies
        for entries in reversed(layout.entries):
            for nth, entry in enumerate(self._entries(entries)):
                rows = reversed(entries.fields)
                frames += [self._entry_field(entries, nth, entry, row) for row in rows]
        if layout.meta:
            meta = self._meta() + self._extension
            frames.append(meta)
        else:
            if self._extension:
                frames.append(self._extension)
            frames += map(self._field, reversed(layout.fixed))
        self._check_size(frames)
        return frames

    # -- what follows from the message's shape ----------------------------------------------------------------------

    def _descriptors(self) -> dict[str, int]:
        """Return counts, offsets and divisors: the numbers that are not fields of the message itself."""
        numbers: dict[str, int] = {}
        layout = self.layout
        has_extension_frame = bool(self._extension) and not layout.meta
        below = len(layout.fixed) + has_extension_frame
        meta_entries = tuple(row for row in layout.meta if isinstance(row, Entries))
        for entries in layout.entries or meta_entries:
            name = entries.name
            count = len(self._entries(entries))
            if count > self.limits.entries:
                raise LocalError(name, f"at most {self.limits.entries} entries", count)
            numbers[f"{name}.count"] = count
            numbers[f"{name}.offset"] = below + 1 if count else 0
            numbers[f"{name}.divisor"] = entries.divisor
            if layout.entries:
                below += count * entries.divisor
        bodies = len(self.message.bodies)
        numbers["body.count"] = bodies
        numbers["body.offset"] = below + bodies
        return numbers

    def _entries(self, entries: Entries) -> Sequence[Any]:
        """Return the entries of the message that a row stands for, after checking their types."""
        name = entries.name
        values = getattr(self.message, name)
        entry_class = ENTRY_CLASS[name]
        if not isinstance(values, tuple | list):
            raise LocalError(name, f"a tuple of {entry_class.__name__}", values)
        for nth, entry in enumerate(values):
            if not isinstance(entry, entry_class):
                raise LocalError(f"{name}[{nth}]", f"a {entry_class.__name__}", entry)
        return values

    def _check_bodies(self) -> None:
        bodies = self.message.bodies
        if not isinstance(bodies, tuple | list):
            raise LocalError("bodies", "a tuple of bytes", bodies)
        most = self.limits.frames if self.layout.several_bodies else 1
        count = len(bodies)
        if not 1 <= count <= most:
            expected = "one body frame" if most == 1 else "at least one body frame"
            raise LocalError("bodies", expected, count)
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
        limits = self.limits
        count = len(frames)
        if count > limits.frames:
            raise LocalError("frames", f"at most {limits.frames}", count)
        sizes = [len(frame) for frame in frames]
        largest = max(sizes)
        if largest > limits.frame_size:
            raise LocalError("frames", f"at most {limits.frame_size} bytes in one", largest)
        total = sum(sizes)
        if total > limits.message_size:
            raise LocalError("frames", f"at most {limits.message_size} bytes together", total)

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
            names = [word.name for word in row.words]
            numbers = [in_range(name, self._value(name), row.type) for name in names]
            return WORDS.pack(*numbers)
        value = self._value(row.name)
        if row.empty is Empty.NO_ENTRIES and not value:
            return b""
        return encode_value(row.name, value, row)

    @staticmethod
    def _entry_field(entries: Entries, nth: int, entry: Any, row: Field) -> bytes:
        name = f"{entries.name}[{nth}].{row.name}"
        value = getattr(entry, row.name)
        return encode_value(name, value, row)

    # -- the meta frame of V6 ---------------------------------------------------------------------------------------

    def _meta(self) -> bytes:
        parts: list[bytes] = []
        for row in self.layout.meta:
            if isinstance(row, Field):
                content = self._field(row)
                parts.append(sized(row, content))
                continue
            for nth, entry in enumerate(self._entries(row)):
                fields = [sized(field, self._entry_field(row, nth, entry, field)) for field in row.fields]
                content = b"".join(fields)
                parts.append(with_length(content))
        return b"".join(parts)


def sized(row: Field, content: bytes) -> bytes:
    """Return the content of a field, behind its length if that varies."""
    return content if row.type.width else with_length(content)


def with_length(content: bytes) -> bytes:
    """Return a content behind its length; a length beyond i32 is beyond the limits too."""
    length = len(content)
    return length.to_bytes(4, "little") + content


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
        number_of = {ours: theirs for theirs, ours in row.values.items()}
        if as_integer(name, value) not in number_of:
            choices = ", ".join(map(str, number_of))
            raise LocalError(name, f"one of {choices}", value)
        value = number_of[value]
    if row.scale != 1:
        value = _in_units(as_integer(name, value), row.scale)
    if row.minimum is not None and as_integer(name, value) < row.minimum:
        raise LocalError(name, f"at least {row.minimum}", value)
    number = in_range(name, value, row.type)
    is_signed = row.type is not Type.U16
    return number.to_bytes(row.type.width, "little", signed=is_signed)


def _in_units(number: int, scale: int) -> int:
    """Return a number in units of a scale, rounded away from zero: a remaining lifetime must not become "no limit"."""
    units, remainder = divmod(abs(number), scale)
    units += remainder > 0
    most = _I64_MAX // scale  # no more than a reader can convert back
    units = min(units, most)
    return units if number > 0 else -units


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
    number = as_integer(name, value)
    low, high = _RANGES[kind]
    if not low <= number <= high:
        raise LocalError(name, f"{low} to {high} ({kind.value})", value)
    return number
