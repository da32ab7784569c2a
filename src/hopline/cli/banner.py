"""What nodes and servers say of their security when they start."""

from __future__ import annotations

from hopline.node import Network
from hopline.security import DomainSecurity
from hopline.transport import Curve


def security_of(network: Network) -> str:
    """Return what is signed and what is encrypted, and who is let in."""
    security = network.security
    signed = "nothing is signed"
    if isinstance(security, DomainSecurity):
        domains = [f"{one.name} ({one.profile})" for one in security.definitions if one.unsigned is not True]
        signed = f"signed: {', '.join(domains)}" if domains else signed
    return f"{signed}; {encryption_of(network.curve)}"


def encryption_of(curve: Curve | None) -> str:
    """Return whether links are encrypted, and who is let in."""
    if curve is None:
        return "nothing is encrypted"
    if not curve.admitted:
        return "encrypted; lets in everybody who knows the network's public key (admitted is empty)"
    count = len(curve.admitted)
    return f"encrypted; lets in {count} admitted key{'' if count == 1 else 's'}"
