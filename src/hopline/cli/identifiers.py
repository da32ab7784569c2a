"""Message identifiers and node identities as users write and read them on the command line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from hopline.cli.errors import UsageError
from hopline.message import MAX_VERSION, MessageIdentifier, printable_name, receiver_kind
from hopline.observers.tail import KindPattern
from hopline.routing import KnownNode

_HEX_PREFIX = "hex:"
_SHORT_LENGTH = 8
NO_OTHER_NODE = "no other node is in the network; start one with `hopline node`"
_MOST_LISTED = 5  # nodes in an error
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def parse_kind(text: str, version: int | None = None, partition: str | None = None) -> MessageIdentifier:
    """Parse the kind of a message: ``ORDER``, ``ORDER/2`` or ``ORDER/2/eu``; name and partition may be ``hex:...``.

    Args:
        text: The kind. A name that has slashes of its own is taken whole unless a version follows it.
        version: Overrides the version in `text`.
        partition: Overrides the partition in `text`.

    Raises:
        UsageError: If the name is empty, the version out of range, or ``hex:`` not followed by hex digits.
    """
    name, parsed_version, parsed_partition = _split_kind(text)
    if version is None:
        version = parsed_version
    if partition is None:
        partition = parsed_partition
    if not name or not 0 <= version <= MAX_VERSION:
        expected = f"NAME, NAME/VERSION or NAME/VERSION/PARTITION, with a version of 0 to {MAX_VERSION}"
        raise UsageError(f"{text!r} is not a kind of message: expected {expected}")
    return MessageIdentifier(_to_bytes(name), version, _to_bytes(partition))


def parse_pattern(text: str) -> KindPattern:
    """Parse the kinds that a text names: those of a name in any version, or one as `parse_kind` takes it."""
    kind = parse_kind(text)
    name, _, _ = _split_kind(text)
    if name == text:
        return KindPattern(kind.identity)
    return KindPattern(kind.identity, kind.version, kind.partition or None)


def _split_kind(text: str) -> tuple[str, int, str]:
    """Return the name, the version and the partition that a text has, or the text as a name if it has no version."""
    name, *others = text.split("/")
    has_version = name and len(others) in (1, 2) and others[0].isdigit()
    if not has_version:
        return text, 1, ""
    version = int(others[0])
    partition = others[1] if len(others) == 2 else ""
    return name, version, partition


def _to_bytes(text: str) -> bytes:
    if not text.startswith(_HEX_PREFIX):
        return text.encode()
    try:
        return bytes.fromhex(text.removeprefix(_HEX_PREFIX))
    except ValueError:
        raise UsageError(f"{text!r}: expected hex digits after {_HEX_PREFIX}") from None


def identity_text(identity: bytes) -> str:
    """Return the identity of a node, hub or actor as text, without the byte that marks hubs and actors."""
    has_mark = receiver_kind(identity) is not None
    if has_mark:
        identity = identity[1:]
    return printable_name(identity)


def short_identity(identity: bytes) -> str:
    """Return an identity as text, shortened if it was generated."""
    return shorten_identity(identity_text(identity))


def shorten_identity(name: str) -> str:
    """Cut a generated identity, which is a GUID, to its first characters. A name that a user chose stays whole."""
    is_generated = _GUID.fullmatch(name) is not None
    return name[:_SHORT_LENGTH] if is_generated else name


def find_node(text: str, nodes: Iterable[KnownNode]) -> KnownNode:
    """Return the node whose identity or address is `text`, or the only one whose identity begins with it.

    Raises:
        UsageError: If no node matches, or several begin with `text`.
    """
    by_name = {identity_text(node.identity): node for node in nodes}
    addresses = [node.uri.removeprefix("tcp://") for node in by_name.values()]
    if text in by_name:
        return by_name[text]
    at_address = [node for node in by_name.values() if text in (node.uri, node.uri.removeprefix("tcp://"))]
    if len(at_address) == 1:
        return at_address[0]
    matches = [name for name in by_name if text and name.startswith(text)]
    if len(matches) == 1:
        return by_name[matches[0]]
    if matches:
        raise UsageError(f"several nodes begin with {text!r}: {_listed(matches)}; write more of the identity")
    is_address = ":" in text
    raise UsageError(f"no node {text!r} is known; {_alternatives(text, addresses if is_address else list(by_name))}")


def _alternatives(text: str, names: list[str]) -> str:
    """Return what to write instead of the name, or the address, of a node that is not known."""
    if not names:
        return NO_OTHER_NODE
    closest = difflib.get_close_matches(text, names, 1)
    if closest:
        return f"did you mean {closest[0]}? `hopline nodes` lists all nodes"
    return f"known nodes: {_listed(names)}"


def _listed(names: list[str]) -> str:
    """Return some names as text, and how many more there are."""
    listed = ", ".join(names[:_MOST_LISTED])
    more = len(names) - _MOST_LISTED
    return f"{listed}, and {more} more, which `hopline nodes` lists" if more > 0 else listed
