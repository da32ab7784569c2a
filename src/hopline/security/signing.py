"""How messages are signed, in words: what a domain is set to, and what the signature of another node looks like."""

from __future__ import annotations

import hashlib

from hopline.security import sealed
from hopline.security.domain import Domain, Profile
from hopline.security.provider import DomainSecurity, Security
from hopline.wire import MacAlgorithm

_UNSIGNED = "unsigned"


def signing_of(security: Security, domain: str) -> str | None:
    """Return how a domain is signed here, such as ``sealed, sha256``; None if the domain is not defined."""
    if isinstance(security, DomainSecurity):
        for definition in security.definitions:
            if definition.name == domain:
                return _signing(definition)
    return None


def apparent_signing(signature: bytes) -> str:
    """Return how a signature was made, as far as its size tells: every profile and algorithm has one of its own."""
    if not signature:
        return _UNSIGNED
    return _BY_SIZE.get(len(signature), f"signed with {len(signature)} bytes, which is no algorithm of ours")


def _signing(domain: Domain) -> str:
    return _UNSIGNED if domain.unsigned is True else f"{domain.profile}, {domain.algorithm}"


_BY_SIZE = {
    (sealed.HEADER_SIZE if profile is Profile.SEALED else 0)
    + hashlib.new(algorithm).digest_size: f"{profile}, {algorithm}"
    for profile in Profile
    for algorithm in MacAlgorithm
    if profile is Profile.REFERENCE or algorithm in (MacAlgorithm.SHA256, MacAlgorithm.SHA512)
}
