"""Kinds of messages and identities, as people write and read them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hopline.cli.console import UsageError
from hopline.message import MAX_VERSION, MessageIdentifier, printable_name, receiver_kind
from hopline.routing import KnownNode

_HEX = "hex:"
_SHORT = 8
_GENERATED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def kind_of(text: str, version: int | None = None, partition: str | None = None) -> MessageIdentifier:
    """Read the kind of a message: ``ORDER``, ``ORDER/2`` or ``ORDER/2/eu``; any part may be ``hex:...``."""
    parts = text.split("/")
    if len(parts) in (2, 3) and parts[0] and parts[1].isdigit():
        name, said_version, said_partition = parts[0], int(parts[1]), parts[2] if len(parts) == 3 else ""
    else:
        name, said_version, said_partition = text, 1, ""
    number = said_version if version is None else version
    if not name or not 0 <= number <= MAX_VERSION:
        raise UsageError(f"{text!r} is no kind of message: expected NAME, NAME/VERSION or NAME/VERSION/PARTITION")
    return MessageIdentifier(_bytes(name), number, _bytes(said_partition if partition is None else partition))


def _bytes(text: str) -> bytes:
    if not text.startswith(_HEX):
        return text.encode()
    try:
        return bytes.fromhex(text.removeprefix(_HEX))
    except ValueError:
        raise UsageError(f"{text!r} is not hex") from None


def name_of(identity: bytes) -> str:
    """Write the identity of a node, hub or actor, without the byte that says which of these it is."""
    text = identity[1:] if receiver_kind(identity) is not None else identity
    return printable_name(text)


def short(identity: bytes) -> str:
    """Write enough of an identity to tell it from others."""
    return shortened(name_of(identity))


def shortened(name: str) -> str:
    """Cut an identity that was generated, which is a GUID, to its beginning. One that somebody chose stays whole."""
    return name[:_SHORT] if _GENERATED.fullmatch(name) else name


def kind_text(identifier: MessageIdentifier) -> str:
    """Write the kind of a message."""
    return str(identifier)


def node_named(text: str, known: Iterable[KnownNode]) -> KnownNode:
    """Find the node that somebody means by its identity, or by how that begins."""
    nodes = list(known)
    found = [node for node in nodes if name_of(node.identity) == text]
    found = found or [node for node in nodes if text and name_of(node.identity).startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{text!r} may be any of {', '.join(name_of(node.identity) for node in found)}")
    there_are = ", ".join(name_of(node.identity) for node in nodes) or "none"
    raise UsageError(f"no node {text!r} is known; there are: {there_are}")
