"""The bytes of a message with gaps in it, found by the placeholders that stand there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np

from hopline.generator import placeholders
from hopline.generator.randomness import Octets


class SlotKind(IntEnum):
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
class Slot:
    """One gap: where it is, and whose value it takes."""

    gap: SlotKind
    of: int  # role of a node, hub or address, number of the message for noise
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FrameTemplate:
    """All frames end to end, where each ends, and the gaps."""

    octets: Octets
    lengths: bytes  # of the frames, as 32-bit numbers
    frames: int
    slots: tuple[Slot, ...]

    @property
    def size(self) -> int:
        """Bytes in all frames."""
        return len(self.octets)


def frame_template_of(frames: Sequence[bytes], message_index: int, roles: int) -> FrameTemplate:
    """Find the gaps in the frames of one message of a template."""
    joined = b"".join(frames)
    slots = tuple(
        Slot(gap, of, at, at + len(pattern))
        for gap, of, pattern in _patterns(message_index, roles)
        for at in _places(joined, pattern)
    )
    lengths = np.array([len(frame) for frame in frames], "<i4").tobytes()
    return FrameTemplate(np.frombuffer(joined, np.uint8), lengths, len(frames), _without_parts(slots))


def _patterns(message_index: int, roles: int) -> Iterator[tuple[SlotKind, int, bytes]]:
    yield SlotKind.CORRELATION, 0, placeholders.CORRELATION
    for role in range(roles):
        yield SlotKind.NODE, role, placeholders.NODES[role]
        yield SlotKind.HUB, role, placeholders.HUBS[role]
        yield SlotKind.URI, role, placeholders.URIS[role].encode()
    yield SlotKind.ID, 0, placeholders.ID.encode()
    yield SlotKind.KEY, 0, placeholders.KEY.to_bytes(8, "little")
    yield SlotKind.MILLISECONDS, 0, placeholders.LIFETIME_MS.to_bytes(8, "little")
    yield SlotKind.TICKS, 0, placeholders.LIFETIME_TICKS.to_bytes(8, "little")
    for signature in placeholders.SIGNATURES.values():
        yield SlotKind.SIGNATURE, 0, signature
    for size in placeholders.NOISE_SIZES:
        yield SlotKind.NOISE, message_index, placeholders.noise(message_index, size).encode()


def _places(joined: bytes, pattern: bytes) -> Iterator[int]:
    at = joined.find(pattern)
    while at >= 0:
        yield at
        at = joined.find(pattern, at + 1)


def _without_parts(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """Leave out a shorter noise that is the beginning of a longer one."""
    longest: dict[int, Slot] = {}
    for fill in slots:
        if fill.start not in longest or fill.stop > longest[fill.start].stop:
            longest[fill.start] = fill
    return tuple(longest.values())
