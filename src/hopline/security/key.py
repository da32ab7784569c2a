"""A secret key whose text form never contains the secret."""

from __future__ import annotations

import hashlib
import hmac
import os

from hopline.errors import ArgumentError, ArgumentTypeError

KEY_SIZE = 32
"""Bytes of a new key."""
MIN_KEY_SIZE = 16
"""Bytes that a key must have at least; networks of profile `reference` may have shorter ones."""


class Key:
    """A secret that several nodes share. Printing it, or what holds it, shows its fingerprint only."""

    __slots__ = ("_secret", "fingerprint")

    def __init__(self, secret: bytes) -> None:
        problem = problem_of(secret)
        if problem:
            del secret  # a traceback that shows variables would show it
            raise problem
        self._secret = secret
        self.fingerprint = hashlib.sha256(secret).hexdigest()[:8]

    def reveal(self) -> bytes:
        """Return the secret itself, to be written to a key file. Never log it."""
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


def problem_of(secret: object) -> ArgumentError | None:
    """Return the error if something cannot be a key, else None. The error does not contain the secret."""
    if not isinstance(secret, bytes):
        return ArgumentTypeError("key", "bytes", type(secret).__name__)
    if not secret:
        return ArgumentError("key", "at least one byte", "none")
    return None


def new_key() -> Key:
    """Return a new random key."""
    return Key(os.urandom(KEY_SIZE))
