"""Which addresses may be bound: without keys, only those that other machines cannot reach."""

from __future__ import annotations

from hopline.message import ArgumentError
from hopline.transport.address import parse


def require_secure_bind(address: str, field: str, *, is_protected: bool) -> None:
    """Raise `ArgumentError` for an address that other machines can reach, unless something keeps strangers out.

    Args:
        address: The address that is going to be bound.
        field: The setting that names it.
        is_protected: Whether messages are signed or links encrypted, or the network around is declared to be trusted.

    """
    if not is_protected and not parse(address, field).is_loopback:
        expected = "a loopback address, or keys, or open_without_keys = true if everybody around is trusted"
        raise ArgumentError(field, expected, address)
