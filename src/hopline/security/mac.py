"""HMAC with a key that is taken in once: half the price of `hmac.digest` for a message of usual size.

RFC 2104, section 4, describes it: what the hash is after the first block, which is the key, is kept and copied.
"""

from __future__ import annotations

import hashlib

_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


class Mac:
    """Makes the HMAC of one content after the other. The key itself is not kept."""

    __slots__ = ("_inner", "_outer", "size")

    def __init__(self, secret: bytes, algorithm: str) -> None:
        self._inner, self._outer = hashlib.new(algorithm), hashlib.new(algorithm)
        self.size = self._inner.digest_size
        if len(secret) > self._inner.block_size:
            secret = hashlib.new(algorithm, secret).digest()
        block = secret.ljust(self._inner.block_size, b"\0")
        self._inner.update(block.translate(_INNER))
        self._outer.update(block.translate(_OUTER))

    def of(self, content: bytes) -> bytes:
        """Give the HMAC of a content."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        return outer.digest()
