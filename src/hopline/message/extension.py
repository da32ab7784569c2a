"""Hopline's extension of a message: a small map of what helps those who watch a network, and nobody needs.

The documents of the protocol say how a format grows: new frames come on top, and readers ignore what they do not know.
The extension is one such frame (or, in V6, the bytes behind the last field of the meta frame), which holds a
MessagePack map. It comes from strangers: what is larger than `LARGEST_EXTENSION`, or no map of names to plain values,
is taken for no extension at all, never for an error. Names that a node does not know stay in the map when the message
goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from hopline.message.errors import LocalError

LARGEST_EXTENSION = 1_024  # bytes; a trace context with all the state that its standard asks for takes two thirds

Plain: TypeAlias = str | int | float | bool | None
ExtensionValue: TypeAlias = Plain | list[Plain] | dict[str, Plain]

# A type that ends, so that no nesting of a stranger's reaches the interpreter's limit of recursion.
_decode = msgspec.msgpack.Decoder(dict[str, ExtensionValue]).decode
_encode = msgspec.msgpack.Encoder().encode


def read_extension(raw: bytes) -> dict[str, ExtensionValue]:
    """Return what an extension says; nothing, if it is none."""
    if not raw or len(raw) > LARGEST_EXTENSION:
        return {}
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


def usable_extension(raw: bytes) -> bytes:
    """Return bytes that were received as an extension as they are, or no bytes if they are none."""
    if not raw or len(raw) > LARGEST_EXTENSION:
        return b""
    try:
        _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return b""
    return raw


def write_extension(entries: Mapping[str, object]) -> bytes:
    """Return the extension that says this; no bytes for no entries.

    Raises:
        LocalError: it would be larger than `LARGEST_EXTENSION`, or no peer could read it.
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
