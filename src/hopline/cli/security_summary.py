"""The security of a node or server in one line, for the lines that they print when they are ready."""

from __future__ import annotations

from hopline.display.frames import plural
from hopline.node import Network
from hopline.security import DomainSecurity
from hopline.transport import Curve


def describe_security(network: Network) -> str:
    """Return which domains are signed, and whether links are encrypted."""
    return f"{_describe_signatures(network)}; {describe_encryption(network.curve)}"


def _describe_signatures(network: Network) -> str:
    security = network.security
    if not isinstance(security, DomainSecurity):
        return "not signed"
    signed = [domain for domain in security.definitions if domain.unsigned is not True]
    if not signed:
        return "not signed"
    domains = ", ".join(f"{domain.name} ({domain.profile})" for domain in signed)
    return f"signed: {domains}"


def describe_encryption(curve: Curve | None) -> str:
    """Return whether links are encrypted, and which peers may connect."""
    if curve is None:
        return "not encrypted"
    if not curve.admitted:
        return "encrypted; admits every peer that has the network's public key (admitted is empty)"
    return f"encrypted; admits {plural(len(curve.admitted), 'key')}"
