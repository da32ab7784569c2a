"""Bodies of messages as people write and read them."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from hopline.cli.console import UsageError, json_line
from hopline.cli.machine import plain
from hopline.message import Message, printable, printable_name

STANDARD_INPUT = "-"


class Writing(Enum):
    """How the body that was given becomes bytes."""

    MSGPACK = "MessagePack, made of JSON"
    JSON = "JSON"
    RAW = "bytes as they are"
    HEX = "hex"


def body_of(text: str | None, file: str | None, writing: Writing) -> bytes:
    """Make the body of a message, of an argument or of a file."""
    if text is not None and file is not None:
        raise UsageError("give the body or --file, not both")
    if file is not None:
        given = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
    else:
        given = (text or "").encode()
    if writing is Writing.RAW:
        return given
    if writing is Writing.HEX:
        try:
            return bytes.fromhex(given.decode("ascii", "replace"))
        except ValueError:
            raise UsageError("the body is not hex") from None
    try:  # without a body, a payload without fields
        value = msgspec.json.decode(given) if given.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the body is not JSON ({error}); --raw sends text as it is") from None
    return given if writing is Writing.JSON else msgspec.msgpack.encode(value)


def read_body(body: bytes) -> tuple[str, Any]:
    """Guess what a body is: MessagePack, JSON, text, or bytes; and read it."""
    if not body:
        return "empty", None
    text = _text(body)
    try:
        value = msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    else:
        if not (isinstance(value, int) and text is not None):  # any letter is a number too
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
    return text if all(char.isprintable() or char in "\n\r\t" for char in text) else None


def body_text(body: bytes) -> str:
    """Write a body for people."""
    form, value = read_body(body)
    if form == "empty":
        return "(empty)"
    if form == "text":
        return "\n".join(printable(line, limit=None) for line in str(value).splitlines())
    if form == "bytes":
        return body.hex()
    try:
        # Escaped before it is laid out: a line break in a value is none of the layout's.
        return msgspec.json.format(json_line(plain_keys(value)), indent=2)
    except (TypeError, ValueError):
        return printable(repr(value))


def as_document(message: Message, seconds: float) -> dict[str, Any]:
    """Write an answer for machines."""
    form, value = read_body(message.body)
    return {
        "kind": str(message.identifier),
        "seconds": round(seconds, 6),
        "form": form,
        "body": plain_keys(value),
        "raw": message.body.hex(),
        "correlation_id": printable_name(message.correlation_id),
        "road": [{"uri": printable(hop.uri), "node": printable_name(hop.identity)} for hop in message.routing],
    }


def plain_keys(value: Any) -> Any:
    """Turn a value into what JSON has; the keys of its objects are text."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(plain(key)): plain_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_keys(item) for item in value]
    return str(value) if isinstance(value, msgspec.msgpack.Ext) else plain(value)
