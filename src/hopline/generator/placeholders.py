"""Bytes that stand in a template for what differs from flow to flow, each of the size of the real thing."""

from __future__ import annotations

from functools import cache

from hopline.generator.draws import Draws
from hopline.generator.topology import IDENTITY_SIZE, URI_SIZE
from hopline.message import ReceiverKind

MAX_ROLES = 12
ID_SIZE = 16
NOISE_SIZES = range(40, 360, 8)  # digits that a body may have drawn
CORRELATION_SIZE = 36
TICKS_PER_MILLISECOND = 10_000

_draws = Draws(0x9A3)


def _bytes(size: int) -> bytes:
    return _draws.octets(1, size).tobytes()


def _letters(size: int) -> str:
    return "".join(chr(ord("g") + byte % 16) for byte in _bytes(size))  # behind f: never in a hex digit's place


CORRELATION = _bytes(CORRELATION_SIZE)
NODES = tuple(_bytes(IDENTITY_SIZE) for _ in range(MAX_ROLES))
HUBS = tuple(ReceiverKind.HUB.value + _bytes(IDENTITY_SIZE) for _ in range(MAX_ROLES))
URIS = tuple(f"tcp:{_letters(URI_SIZE - 4)}" for _ in range(MAX_ROLES))
ID = _letters(ID_SIZE)  # the business's own number, in a body
KEY = int.from_bytes(_bytes(7), "little")
LIFETIME_MS = int.from_bytes(_bytes(5), "little")
LIFETIME_TICKS = LIFETIME_MS * TICKS_PER_MILLISECOND
SIGNATURES = {size: _bytes(size) for size in (16, 32)}


@cache
def noise(letter: int, size: int) -> str:
    """Give what stands for the part of a body that is drawn, by the number of the message in its flow."""
    return "".join(chr(ord("g") + byte % 16) for byte in Draws(0x9A4, letter).octets(1, size).tobytes())
