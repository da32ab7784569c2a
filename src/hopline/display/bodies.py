"""Bodies of messages as people read them: MessagePack, JSON, text, or bytes in hex."""

from __future__ import annotations

from typing import Any

import msgspec

from hopline.message import printable, printable_json


def read_body(body: bytes) -> tuple[str, Any]:
    """Return what a body is by its looks (MessagePack, JSON, text or bytes), and its value."""
    if not body:
        return "empty", None
    text = _text(body)
    try:
        value = msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    else:
        may_be_text = isinstance(value, int) and text is not None  # any letter is a number too
        if not may_be_text:
            return "MessagePack", value
    if text is None:
        return "bytes", body
    try:
        return "JSON", msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return "text", text


def _text(body: bytes) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    is_readable = all(char.isprintable() or char in "\n\r\t" for char in text)
    return text if is_readable else None


def body_text(body: bytes, *, ascii_only: bool = False) -> str:
    """Return a body as text of one or several lines, without anything that a terminal or a page obeys."""
    form, value = read_body(body)
    if form == "empty":
        return "(empty)"
    if form == "text":
        lines = str(value).splitlines()
        printable_lines = [printable(line, limit=None) for line in lines]
        return "\n".join(printable_lines)
    if form == "bytes":
        return body.hex()
    try:
        content = msgspec.json.encode(plain_keys(value))
        # Escape before formatting: a line break in a value must not become one of the layout.
        document = printable_json(content.decode(), ascii_only=ascii_only)
        return msgspec.json.format(document, indent=2)
    except (TypeError, ValueError):
        return printable(repr(value))


def plain_keys(value: Any) -> Any:
    """Return a value as what JSON has; the keys of its objects are text."""
    if isinstance(value, dict):
        return {_key_text(key): plain_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_keys(item) for item in value]
    if isinstance(value, msgspec.msgpack.Ext):
        return str(value)
    return plain(value)


def _key_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    return str(plain(key))


def plain(value: Any) -> Any:
    """Return a value as what JSON has: bytes as hex, entries as objects."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.structs.asdict(value))
    return value
