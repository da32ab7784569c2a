"""Messages and their bodies on the command line: how ``send`` and ``trace`` build a message, and show its answer."""

from __future__ import annotations

import sys
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from hopline.cli.errors import UsageError
from hopline.cli.terminal import output_is_unicode
from hopline.display import bodies as display
from hopline.display.bodies import plain_keys, read_body
from hopline.message import Message, MessageIdentifier, printable, printable_name

STANDARD_INPUT = "-"

KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="NAME, NAME/VERSION or NAME/VERSION/PARTITION.")]
VersionOption = Annotated[int | None, typer.Option("--version", help="Version of the kind.")]
PartitionOption = Annotated[str | None, typer.Option("--partition", help="Partition of the kind.")]
JsonBytesOption = Annotated[bool, typer.Option("--json-bytes", help="Send the body as JSON, not as MessagePack.")]
RawOption = Annotated[bool, typer.Option("--raw", "--text", help="Send the body unchanged, as bytes or text.")]
HexOption = Annotated[bool, typer.Option("--hex", help="The body is written in hex.")]
FileOption = Annotated[str | None, typer.Option("--file", help="Read the body from a file, or - for stdin.")]
ToNodeOption = Annotated[
    str | None,
    typer.Option("--to-node", metavar="NODE", help="Send to this node: its identity, how it begins, or its address."),
]


class BodyEncoding(Enum):
    """How the body on the command line becomes the body of the message."""

    MSGPACK = "JSON, sent as MessagePack"
    JSON = "JSON, sent as it is"
    RAW = "bytes or text, sent as they are"
    HEX = "hex, sent as bytes"


def chosen_encoding(*, json_bytes: bool, raw: bool, hex_body: bool) -> BodyEncoding:
    """Return the encoding that the options choose.

    Raises:
        UsageError: If more than one is chosen.
    """
    options = {
        BodyEncoding.JSON: json_bytes,
        BodyEncoding.RAW: raw,
        BodyEncoding.HEX: hex_body,
    }
    chosen = [encoding for encoding, is_chosen in options.items() if is_chosen]
    if len(chosen) > 1:
        raise UsageError("--json-bytes, --raw and --hex exclude each other")
    return chosen[0] if chosen else BodyEncoding.MSGPACK


def encode_body(text: str | None, file: str | None, encoding: BodyEncoding) -> bytes:
    """Return the body of a message, from an argument or from a file.

    Raises:
        UsageError: If both are given, or the content does not fit the encoding.
    """
    content = _read_content(text, file)
    if encoding is BodyEncoding.RAW:
        return content
    if encoding is BodyEncoding.HEX:
        return _from_hex(content)
    try:
        value = msgspec.json.decode(content) if content.strip() else {}  # no body: a payload without fields
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the body is not JSON ({error}); --raw sends text as it is") from None
    if encoding is BodyEncoding.JSON:
        return content
    return msgspec.msgpack.encode(value)


def _read_content(text: str | None, file: str | None) -> bytes:
    if file is None:
        return (text or "").encode()
    if text is not None:
        raise UsageError("BODY and --file exclude each other: give one, not both")
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"--file: {file} cannot be read: {error.strerror}") from None


def _from_hex(content: bytes) -> bytes:
    try:
        return bytes.fromhex(content.decode("ascii", "replace"))
    except ValueError:
        raise UsageError("the body is not hex: --hex takes pairs of hex digits") from None


def new_message(kind: MessageIdentifier, body: bytes, timeout: float) -> Message:
    """Return a message that begins a flow, and whose lifetime is the time that its sender waits."""
    return Message.flow_start(
        kind.identity,
        body,
        version=kind.version,
        partition=kind.partition,
        ttl=timedelta(seconds=timeout),
    )


def body_text(body: bytes) -> str:
    """Return a body as text, in the characters that standard output can encode."""
    return display.body_text(body, ascii_only=not output_is_unicode())


def answer_document(answer: Message, seconds: float) -> dict[str, Any]:
    """Return an answer as a document for ``--json``."""
    form, value = read_body(answer.body)
    route = []
    for hop in answer.routing:
        uri = printable(hop.uri)
        node = printable_name(hop.identity)
        route.append({"uri": uri, "node": node})
    return {
        "kind": str(answer.identifier),
        "seconds": round(seconds, 6),
        "form": form,
        "body": plain_keys(value),
        "raw": answer.body.hex(),
        "correlation_id": printable_name(answer.correlation_id),
        "route": route,
    }
