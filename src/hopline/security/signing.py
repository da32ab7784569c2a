"""Describe signatures for people: how a domain is signed here, and how a received signature was apparently made."""

from __future__ import annotations

import hashlib

from hopline.security import sealed
from hopline.security.domain import STRONG_ALGORITHMS, Domain, Profile
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
    """Return how a signature was apparently made: its size differs for every profile and algorithm."""
    if not signature:
        return _UNSIGNED
    return _BY_SIZE.get(len(signature), f"signed with {len(signature)} bytes, which is no algorithm of ours")


def _signing(domain: Domain) -> str:
    return _UNSIGNED if domain.unsigned is True else f"{domain.profile}, {domain.algorithm}"


def _by_size() -> dict[int, str]:
    """Return the description of every possible signature by its size in bytes."""
    descriptions: dict[int, str] = {}
    for algorithm in MacAlgorithm:
        size = hashlib.new(algorithm).digest_size
        descriptions[size] = f"{Profile.REFERENCE}, {algorithm}"
        if algorithm in STRONG_ALGORITHMS:
            descriptions[sealed.HEADER_SIZE + size] = f"{Profile.SEALED}, {algorithm}"
    return descriptions


_BY_SIZE = _by_size()
