"""The protocol's message that reports an exception: `KINO.EXCEPTION`, a BSON document.

Two generations of the reference write and need different documents:

* since 2019-04-12, three texts at the top: `Message`, `ExceptionType` and `StackTrace`;
* before, `Exception`, a document inside with .NET's own fields of an exception, and `StackTrace`. A reader of that time
  does not complete the caller's promise without `Exception`.

`to_body` writes both, so that either generation reads it. `from_body` takes each text from the top if it is there, and
from the document inside otherwise.
"""

from __future__ import annotations

import struct

import msgspec

from hopline.errors import PayloadError
from hopline.message.identifier import MessageIdentifier

EXCEPTION = MessageIdentifier(b"KINO.EXCEPTION")
RECEIPT = MessageIdentifier(b"KINO.RCPTCONFIRM")

_I32 = struct.Struct("<i")
# The types of BSON elements.
_DOUBLE = 1
_TEXT = 2
_DOCUMENT = 3
_ARRAY = 4
_BINARY = 5
_OBJECT_ID = 7
_BOOL = 8
_TIME = 9
_NULL = 10
_INT32 = 16
_INT64 = 18
_FIXED_SIZES = {
    _DOUBLE: 8,
    _OBJECT_ID: 12,
    _BOOL: 1,
    _TIME: 8,
    _NULL: 0,
    _INT32: 4,
    _INT64: 8,
}
_KEYS = ("Message", "ExceptionType", "StackTrace")  # at the top of the document
_INNER = "Exception"
_INNER_KEYS = ("Message", "ClassName", "StackTraceString")  # the same three inside it, before 2019
# The class must be one that any .NET process has, with the HRESULT of that class: the reader makes an instance of it.
_INNER_CLASS = "System.Exception"
_INNER_RESULT = -2146233088


class ExceptionReport(msgspec.Struct, frozen=True):
    """The content of an exception message: text, qualified type name, and the traceback if the sender includes it."""

    text: str
    type_name: str
    stack: str = ""

    def to_body(self) -> bytes:
        """Return a BSON document that both generations of the reference read."""
        inner = b"\x03%b\0%b" % (_INNER.encode(), self._inner_document())
        values = (self.text, self.type_name, self.stack)
        texts = map(_text, _KEYS, values)
        return _document(inner + b"".join(texts))

    def _inner_document(self) -> bytes:
        """Return .NET's fields of an exception. Its class is always the same, so the text names the real one."""
        text = f"{self.text} [{self.type_name}]"
        if self.stack:
            text += f" ==> {self.stack}"
        return _document(
            _text("ClassName", _INNER_CLASS)
            + _text("Message", text)
            + _nulls("Data", "InnerException", "HelpURL", "StackTraceString", "RemoteStackTraceString")
            + _number("RemoteStackIndex", 0)
            + _nulls("ExceptionMethod")
            + _number("HResult", _INNER_RESULT)
            + _nulls("Source", "WatsonBuckets")
        )

    @classmethod
    def from_body(cls, body: bytes) -> ExceptionReport:
        """Return the report in a body, ignoring bytes behind it; one that cannot be read is reported as such."""
        try:
            texts, inner = _read(body)
            has_all = texts.keys() >= set(_KEYS)
            if inner and not has_all:
                inner_texts, _ = _read(inner)
                for key, inner_key in zip(_KEYS, _INNER_KEYS, strict=True):
                    texts.setdefault(key, inner_texts.get(inner_key))
        except (struct.error, ValueError) as error:
            return cls(f"an exception message that cannot be read: {error}", _full_name(PayloadError))
        return cls(*(texts.get(key) or "" for key in _KEYS))

    @classmethod
    def of(cls, error: BaseException, stack: str = "") -> ExceptionReport:
        """Return the report of an exception of this process."""
        try:
            text = str(error)
        except Exception as fault:
            text = f"(its text cannot be shown: {type(fault).__qualname__})"
        return cls(text, _full_name(type(error)), stack)


def _full_name(kind: type) -> str:
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _document(elements: bytes) -> bytes:
    return _I32.pack(len(elements) + 5) + elements + b"\0"


def _text(key: str, text: str) -> bytes:
    value = text.encode("utf-8", "backslashreplace")
    return b"\x02%b\0%b%b\0" % (key.encode(), _I32.pack(len(value) + 1), value)


def _number(key: str, number: int) -> bytes:
    return b"\x10%b\0%b" % (key.encode(), _I32.pack(number))


def _nulls(*keys: str) -> bytes:
    return b"".join(b"\x0a%b\0" % key.encode() for key in keys)


def _read(document: bytes) -> tuple[dict[str, str | None], bytes]:
    """Return the texts at the top of a BSON document by their keys, and the document inside, empty if there is none."""
    (size,) = _I32.unpack_from(document)
    if not 5 <= size <= len(document) or document[size - 1]:
        raise ValueError(f"a document of {size} bytes in a body of {len(document)}")
    texts: dict[str, str | None] = {}
    inner = b""
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
        elif kind == _DOCUMENT and key == _INNER:
            inner = document[at : at + length]
        at += length
    return texts, inner


def _size_of_value(document: bytes, kind: int, at: int) -> int:
    fixed = _FIXED_SIZES.get(kind)
    if fixed is not None:
        return fixed
    (length,) = _I32.unpack_from(document, at)
    extra = {_TEXT: 4, _DOCUMENT: 0, _ARRAY: 0, _BINARY: 5}.get(kind)
    if extra is None or length + extra < 5:
        raise ValueError(f"an element of type {kind} and length {length}")
    return int(length + extra)
