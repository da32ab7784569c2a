"""Bodies of messages as people write them on a command line, and read them there."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from hopline.cli.console import UsageError, output_is_unicode
from hopline.display import bodies as display
from hopline.display.bodies import plain_keys, read_body
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


def body_text(body: bytes) -> str:
    """Return a body for people, in the characters that the output has."""
    return display.body_text(body, ascii_only=not output_is_unicode())


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
