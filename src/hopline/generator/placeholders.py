"""Placeholders for the parts of a message that differ from flow to flow, each as long as the real value.

A message is encoded once with placeholders in it; `frame_templates` finds them in its bytes. They are random, so that
none occurs by accident. Placeholders in text use the letters g to v, which never occur in hex digits.
"""

from __future__ import annotations

from functools import cache

from hopline.generator.randomness import GUID_SIZE, RandomStream
from hopline.generator.topology import IDENTITY_SIZE, URI_SIZE
from hopline.message import ReceiverKind

MAX_ROLES = 12
ID_SIZE = 16
NOISE_SIZES = range(40, 360, 8)
"""Numbers of random digits that a body may have."""
TICKS_PER_MILLISECOND = 10_000

_SEED, _NOISE_SEED = 0x9A3, 0x9A4
_FIRST_LETTER = ord("g")

_stream = RandomStream(_SEED)


def _bytes(size: int) -> bytes:
    return _stream.octets(1, size).tobytes()


def _letters(octets: bytes) -> str:
    return "".join(chr(_FIRST_LETTER + byte % 16) for byte in octets)


# The order of these lines is part of the seed: each one takes the next bytes of the stream.
CORRELATION = _bytes(GUID_SIZE)
NODES = tuple(_bytes(IDENTITY_SIZE) for _ in range(MAX_ROLES))
HUBS = tuple(ReceiverKind.HUB.value + _bytes(IDENTITY_SIZE) for _ in range(MAX_ROLES))
URIS = tuple("tcp:" + _letters(_bytes(URI_SIZE - 4)) for _ in range(MAX_ROLES))
BUSINESS_ID = _letters(_bytes(ID_SIZE))
CALLBACK_KEY = int.from_bytes(_bytes(7), "little")
LIFETIME_MS = int.from_bytes(_bytes(5), "little")
LIFETIME_TICKS = LIFETIME_MS * TICKS_PER_MILLISECOND
SIGNATURES = {size: _bytes(size) for size in (16, 32)}


@cache
def noise(message_index: int, size: int) -> str:
    """Return the placeholder for the random digits in the body of a flow's message."""
    stream = RandomStream(_NOISE_SEED, message_index)
    return _letters(stream.octets(1, size).tobytes())
