"""The protocol's own message that says what went wrong: `KINO.EXCEPTION`, a BSON document of three texts."""

from __future__ import annotations

import struct

import msgspec

from hopline.message.errors import PayloadError
from hopline.message.identifier import MessageIdentifier

EXCEPTION = MessageIdentifier(b"KINO.EXCEPTION")
RECEIPT = MessageIdentifier(b"KINO.RCPTCONFIRM")

_I32 = struct.Struct("<i")
_DOUBLE, _TEXT, _DOCUMENT, _ARRAY, _BINARY, _OBJECT_ID, _BOOL, _TIME, _NULL, _INT32, _INT64 = (
    1, 2, 3, 4, 5, 7, 8, 9, 10, 16, 18,
)  # fmt: skip
_FIXED_SIZES = {_DOUBLE: 8, _OBJECT_ID: 12, _BOOL: 1, _TIME: 8, _NULL: 0, _INT32: 4, _INT64: 8}
_KEYS = ("Message", "ExceptionType", "StackTrace")


class ExceptionReport(msgspec.Struct, frozen=True):
    """What an exception message carries: the text, the type by its full name, and the stack if its sender tells it."""

    text: str
    type_name: str
    stack: str = ""

    def to_body(self) -> bytes:
        """Write the BSON document, as the reference reads it."""
        elements = b"".join(map(_element, _KEYS, (self.text, self.type_name, self.stack)))
        return _I32.pack(len(elements) + 5) + elements + b"\0"

    @classmethod
    def from_body(cls, body: bytes) -> ExceptionReport:
        """Read a BSON document; bytes after it are padding. One that cannot be read becomes a report of just that."""
        try:
            texts = _texts(body)
        except (struct.error, ValueError) as error:
            return cls(f"an exception message that cannot be read: {error}", _full_name(PayloadError))
        return cls(*(texts.get(key, "") for key in _KEYS))

    @classmethod
    def of(cls, error: BaseException, stack: str = "") -> ExceptionReport:
        """Report an error of this process."""
        try:
            text = str(error)
        except Exception as fault:
            text = f"(its text cannot be told: {type(fault).__qualname__})"
        return cls(text, _full_name(type(error)), stack)


def _full_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _element(key: str, text: str) -> bytes:
    value = text.encode("utf-8", "backslashreplace")
    return b"\x02%b\0%b%b\0" % (key.encode(), _I32.pack(len(value) + 1), value)


def _texts(document: bytes) -> dict[str, str]:
    """Give the texts at the top of a BSON document by their keys, skipping whatever else is there."""
    (size,) = _I32.unpack_from(document)
    if not 5 <= size <= len(document) or document[size - 1]:
        raise ValueError(f"a document of {size} bytes in a body of {len(document)}")
    texts: dict[str, str] = {}
    at = 4
    while at < size - 1:
        kind = document[at]
        end = document.index(b"\0", at + 1, size)
        key = document[at + 1 : end].decode("utf-8", "replace")
        at = end + 1
        length = _size_of_value(document, kind, at)
        if at + length > size - 1:
            raise ValueError(f"{key!r} ends after its document")
        if kind == _TEXT:
            texts[key] = document[at + 4 : at + length - 1].decode("utf-8", "replace")
        at += length
    return texts


def _size_of_value(document: bytes, kind: int, at: int) -> int:
    fixed = _FIXED_SIZES.get(kind)
    if fixed is not None:
        return fixed
    (length,) = _I32.unpack_from(document, at)
    extra = {_TEXT: 4, _DOCUMENT: 0, _ARRAY: 0, _BINARY: 5}.get(kind)
    if extra is None or length + extra < 5:
        raise ValueError(f"an element of type {kind} and length {length}")
    return int(length + extra)
