"""Hopline's extension of a message: a small map that helps to observe a network, and that delivery never depends on.

The documents of the protocol say how a format grows: new frames come on top, and readers ignore what they do not know.
The extension is one such frame (or, in V6, the bytes behind the last field of the meta frame), which holds a
MessagePack map. It is untrusted: bytes that are longer than `LARGEST_EXTENSION`, or no map of names to plain values,
count as no extension, never as an error. A node that forwards a message keeps names that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from hopline.errors import LocalError

LARGEST_EXTENSION = 1_024  # bytes; a trace context with all the state that its standard asks for takes two thirds

Plain: TypeAlias = str | int | float | bool | None
ExtensionValue: TypeAlias = Plain | list[Plain] | dict[str, Plain]

# Not recursive, so that no nesting in received bytes reaches the recursion limit of the interpreter.
_decode = msgspec.msgpack.Decoder(dict[str, ExtensionValue]).decode
_encode = msgspec.msgpack.Encoder().encode


def read_extension(raw: bytes) -> dict[str, ExtensionValue]:
    """Return the entries of an extension; none if the bytes are no extension."""
    if not raw or len(raw) > LARGEST_EXTENSION:
        return {}
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


def usable_extension(raw: bytes) -> bytes:
    """Return the bytes unchanged if they are an extension, else no bytes."""
    if not raw or len(raw) > LARGEST_EXTENSION:
        return b""
    try:
        _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return b""
    return raw


def write_extension(entries: Mapping[str, object]) -> bytes:
    """Return an extension with these entries; no bytes if there are none.

    Raises:
        LocalError: It would be larger than `LARGEST_EXTENSION`, or no peer could read it.
    """
    if not entries:
        return b""
    try:
        raw = _encode(entries)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalError("extension", f"names and plain values ({error})", dict(entries)) from None
    if not usable_extension(raw):
        raise LocalError("extension", f"names and plain values, in at most {LARGEST_EXTENSION} bytes", dict(entries))
    return raw
