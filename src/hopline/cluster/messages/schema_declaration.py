"""The fingerprints of a node's payloads, as it declares them in the extension of its announcements.

The extension is small, and an announcement names its messages already. So the declaration is a list with one number for
each message of the announcement, in the order in which they are named first; nil stands for a message without a
fingerprint. If an announcement names more than `MOST_FINGERPRINTS` messages, the others have none.

A declaration is untrusted, as the whole extension is: one that is not such a list counts as none. A node of the
reference declares nothing and ignores what it receives; its rendezvous server drops the declarations that it relays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hopline.cluster.messages.format_declaration import OWN_DECLARATION, format_entry
from hopline.cluster.messages.service import identifier_of
from hopline.cluster.messages.service_pb2 import RegisterExternalMessageRoute
from hopline.message import MessageIdentifier, WireFormat, read_extension, write_extension

SCHEMAS: Final = "schemas"
"""The name of the declaration in the extension."""

MOST_FINGERPRINTS = 180  # each takes at most 5 bytes of an extension
_LARGEST = (1 << 32) - 1


def declaration_of(
    content: RegisterExternalMessageRoute, fingerprint_of: Callable[[MessageIdentifier], int | None]
) -> bytes:
    """Return the extension of an announcement: which formats this node reads, and the fingerprints of its payloads."""
    fingerprints = [fingerprint_of(identifier) for identifier in _announced(content)[:MOST_FINGERPRINTS]]
    if not any(value is not None for value in fingerprints):
        return OWN_DECLARATION
    return write_extension({**format_entry(WireFormat), SCHEMAS: fingerprints})


def declared_fingerprints(extension: bytes, content: RegisterExternalMessageRoute) -> dict[MessageIdentifier, int]:
    """Return the fingerprints that are declared in the extension of an announcement."""
    if not extension:
        return {}
    values = read_extension(extension).get(SCHEMAS)
    announced = _announced(content)
    if not isinstance(values, list) or len(values) > len(announced):
        return {}
    return {
        identifier: value
        for identifier, value in zip(announced, values, strict=False)
        if type(value) is int and 0 <= value <= _LARGEST
    }


def _announced(content: RegisterExternalMessageRoute) -> list[MessageIdentifier]:
    contracts = (contract for route in content.routes for contract in route.message_contracts)
    return list(dict.fromkeys(map(identifier_of, contracts)))
