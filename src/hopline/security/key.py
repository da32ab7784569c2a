"""A key: bytes that show themselves to nobody."""

from __future__ import annotations

import hashlib
import hmac
import os

from hopline.message import LocalError

KEY_SIZE = 32
"""Bytes of a new key."""
MIN_KEY_SIZE = 16
"""Bytes that a key must have at least, but for old networks, whose keys are what they are."""


class Key:
    """A secret that several nodes share. Printing it, or what holds it, shows its fingerprint only."""

    __slots__ = ("_secret", "fingerprint")

    def __init__(self, secret: bytes) -> None:
        problem = problem_of(secret)
        if problem:
            del secret  # else a traceback that shows variables would show it
            raise problem
        self._secret = secret
        self.fingerprint = hashlib.sha256(secret).hexdigest()[:8]

    def reveal(self) -> bytes:
        """Give the secret itself, to be written to a key file; never log it."""
        return self._secret

    def __len__(self) -> int:
        return len(self._secret)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        return hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"<Key {self.fingerprint}>"


def problem_of(secret: object) -> LocalError | None:
    """Tell, without telling it, why something cannot be a key."""
    if isinstance(secret, bytes):
        return None if secret else LocalError("key", "at least one byte", "none")
    return LocalError("key", "bytes", type(secret).__name__)


def new_key() -> Key:
    """Draw a key that nobody has."""
    return Key(os.urandom(KEY_SIZE))
