"""Numbers drawn by seed: the same on every machine and with every version of numpy, for no float is involved."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
Octets: TypeAlias = npt.NDArray[np.uint8]

_MASK = (1 << 64) - 1
_32_BITS = 1 << 32
_HEX_PAIRS = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_GUID_PLACES = np.array([at for at in range(36) if at not in (8, 13, 18, 23)])


class Draws:
    """A stream of raw bits. Streams of other seeds or purposes are independent of it."""

    def __init__(self, *seed: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([part & _MASK for part in seed]))

    def raw(self, count: int) -> npt.NDArray[np.uint64]:
        """Draw numbers of 64 bits."""
        return np.asarray(self._bits.random_raw(count), np.uint64)

    def octets(self, rows: int, columns: int) -> Octets:
        """Draw bytes, in rows."""
        words = -(-columns // 8)
        return self.raw(rows * words).astype("<u8", copy=False).view(np.uint8).reshape(rows, words * 8)[:, :columns]

    def below(self, limit: int, count: int) -> Numbers:
        """Draw numbers from 0 up to, not including, a limit."""
        raw = self.raw(count)
        if limit > _32_BITS:  # then what a remainder favours is not seen: microseconds of many hours
            return (raw % np.uint64(limit)).astype(np.int64)
        return (((raw >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)

    def small(self, count: int) -> Numbers:
        """Draw numbers of 16 bits, most of them far below the middle: how long things take, in shape."""
        words = self.raw(-(-count // 4)).astype("<u8", copy=False).view("<u2")[:count].astype(np.int64)
        return (words * words) >> 16


def hashed(seed: int, numbers: Numbers) -> npt.NDArray[np.uint64]:
    """Mix numbers into 64 bits that look drawn (splitmix64): what belongs to a flow can be told again at any time."""
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
            (seed * 0xD1342543DE82EF95 + 1) & _MASK
        )
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def hex_digits(octets: Octets) -> Octets:
    """Write bytes as lower-case hex digits, two a byte."""
    return _HEX_PAIRS[octets].reshape(len(octets), -1)


def guids(seed: int, numbers: Numbers) -> Octets:
    """Give the GUID text of each number: 36 bytes a row."""
    halves = np.stack([hashed(seed, numbers), hashed(~seed, numbers)], axis=1).astype(">u8", copy=False)
    digits = hex_digits(halves.view(np.uint8).reshape(len(numbers), 16))
    digits[:, 12] = ord("4")  # a random GUID says so
    text = np.full((len(numbers), 36), ord("-"), np.uint8)
    text[:, _GUID_PLACES] = digits
    return text
