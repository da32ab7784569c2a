"""The bytes of a message with gaps in it, found by the placeholders that stand there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np

from hopline.generator import placeholders
from hopline.generator.draws import Octets


class Gap(IntEnum):
    """What goes into a gap."""

    CORRELATION = 0
    NODE = auto()
    HUB = auto()
    URI = auto()
    ID = auto()
    NOISE = auto()
    KEY = auto()
    MILLISECONDS = auto()
    TICKS = auto()
    SIGNATURE = auto()


@dataclass(frozen=True, slots=True)
class Fill:
    """One gap: where it is, and whose value it takes."""

    gap: Gap
    of: int  # role of a node, hub or address, number of the message for noise
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Template:
    """All frames end to end, where each ends, and the gaps."""

    octets: Octets
    lengths: bytes  # of the frames, as 32-bit numbers
    frames: int
    fills: tuple[Fill, ...]

    @property
    def size(self) -> int:
        """Bytes in all frames."""
        return len(self.octets)


def template_of(frames: Sequence[bytes], letter: int, roles: int) -> Template:
    """Find the gaps in the frames of one message of a play."""
    joined = b"".join(frames)
    fills = tuple(
        Fill(gap, of, at, at + len(pattern))
        for gap, of, pattern in _patterns(letter, roles)
        for at in _places(joined, pattern)
    )
    lengths = np.array([len(frame) for frame in frames], "<i4").tobytes()
    return Template(np.frombuffer(joined, np.uint8), lengths, len(frames), _without_parts(fills))


def _patterns(letter: int, roles: int) -> Iterator[tuple[Gap, int, bytes]]:
    yield Gap.CORRELATION, 0, placeholders.CORRELATION
    for role in range(roles):
        yield Gap.NODE, role, placeholders.NODES[role]
        yield Gap.HUB, role, placeholders.HUBS[role]
        yield Gap.URI, role, placeholders.URIS[role].encode()
    yield Gap.ID, 0, placeholders.ID.encode()
    yield Gap.KEY, 0, placeholders.KEY.to_bytes(8, "little")
    yield Gap.MILLISECONDS, 0, placeholders.LIFETIME_MS.to_bytes(8, "little")
    yield Gap.TICKS, 0, placeholders.LIFETIME_TICKS.to_bytes(8, "little")
    for signature in placeholders.SIGNATURES.values():
        yield Gap.SIGNATURE, 0, signature
    for size in placeholders.NOISE_SIZES:
        yield Gap.NOISE, letter, placeholders.noise(letter, size).encode()


def _places(joined: bytes, pattern: bytes) -> Iterator[int]:
    at = joined.find(pattern)
    while at >= 0:
        yield at
        at = joined.find(pattern, at + 1)


def _without_parts(fills: tuple[Fill, ...]) -> tuple[Fill, ...]:
    """Leave out a shorter noise that is the beginning of a longer one."""
    longest: dict[int, Fill] = {}
    for fill in fills:
        if fill.start not in longest or fill.stop > longest[fill.start].stop:
            longest[fill.start] = fill
    return tuple(longest.values())
