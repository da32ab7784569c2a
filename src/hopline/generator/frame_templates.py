"""Frames with slots: where in an encoded message the values go that differ from flow to flow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np

from hopline.generator import placeholders
from hopline.generator.randomness import Octets


class SlotKind(IntEnum):
    """The kind of value that a slot takes."""

    CORRELATION = 0
    NODE = auto()
    HUB = auto()
    URI = auto()
    BUSINESS_ID = auto()
    NOISE = auto()
    CALLBACK_KEY = auto()
    MILLISECONDS = auto()
    TICKS = auto()
    SIGNATURE = auto()


@dataclass(frozen=True, slots=True)
class Slot:
    """A range of bytes to fill in. `owner` is a role (node, hub, URI) or the index of a message (noise)."""

    kind: SlotKind
    owner: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FrameTemplate:
    """All frames of a message end to end, their lengths, and the slots in them."""

    octets: Octets
    lengths: bytes  # 32-bit numbers
    frame_count: int
    slots: tuple[Slot, ...]

    @property
    def size(self) -> int:
        """The number of bytes in all frames."""
        return len(self.octets)


def frame_template_of(frames: Sequence[bytes], message_index: int, roles: int) -> FrameTemplate:
    """Return the template of an encoded message, with a slot for every placeholder that occurs in it."""
    joined = b"".join(frames)
    slots: list[Slot] = []
    for kind, owner, pattern in _patterns(message_index, roles):
        size = len(pattern)
        slots += [Slot(kind, owner, start, start + size) for start in _occurrences(joined, pattern)]
    lengths = np.array([len(frame) for frame in frames], "<i4")
    octets = np.frombuffer(joined, np.uint8)
    return FrameTemplate(octets, lengths.tobytes(), len(frames), _longest(slots))


def _patterns(message_index: int, roles: int) -> Iterator[tuple[SlotKind, int, bytes]]:
    yield SlotKind.CORRELATION, 0, placeholders.CORRELATION
    for role in range(roles):
        yield SlotKind.NODE, role, placeholders.NODES[role]
        yield SlotKind.HUB, role, placeholders.HUBS[role]
        yield SlotKind.URI, role, placeholders.URIS[role].encode()
    yield SlotKind.BUSINESS_ID, 0, placeholders.BUSINESS_ID.encode()
    yield SlotKind.CALLBACK_KEY, 0, _eight_bytes(placeholders.CALLBACK_KEY)
    yield SlotKind.MILLISECONDS, 0, _eight_bytes(placeholders.LIFETIME_MS)
    yield SlotKind.TICKS, 0, _eight_bytes(placeholders.LIFETIME_TICKS)
    for signature in placeholders.SIGNATURES.values():
        yield SlotKind.SIGNATURE, 0, signature
    for size in placeholders.NOISE_SIZES:
        noise = placeholders.noise(message_index, size)
        yield SlotKind.NOISE, message_index, noise.encode()


def _eight_bytes(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _occurrences(joined: bytes, pattern: bytes) -> Iterator[int]:
    start = joined.find(pattern)
    while start >= 0:
        yield start
        start = joined.find(pattern, start + 1)


def _longest(slots: list[Slot]) -> tuple[Slot, ...]:
    """Return the longest slot at each position: a short noise is a prefix of every longer one."""
    by_start: dict[int, Slot] = {}
    for slot in slots:
        other = by_start.get(slot.start)
        if other is None or slot.stop > other.stop:
            by_start[slot.start] = slot
    return tuple(by_start.values())
