"""Random numbers by seed, the same on every machine and with every version of numpy.

numpy guarantees the raw bits of PCG64 but not the values of its distributions, so everything here is computed from raw
bits with integer arithmetic only.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
Octets: TypeAlias = npt.NDArray[np.uint8]
Words: TypeAlias = npt.NDArray[np.uint64]

GUID_SIZE = 36

_WORD_MASK = (1 << 64) - 1
_MAX_32_BITS = 1 << 32
_HALF_WORD = np.uint64(32)
_ALL_BYTES = bytes(range(256))
_HEX_DIGITS = _ALL_BYTES.hex().encode()
_HEX_PAIRS = np.frombuffer(_HEX_DIGITS, np.uint8).reshape(256, 2)
_HYPHEN = ord("-")
_GUID_HYPHENS = [8, 13, 18, 23]
_GUID_CHARACTERS = np.arange(GUID_SIZE)
_GUID_DIGITS = np.delete(_GUID_CHARACTERS, _GUID_HYPHENS)
_GUID_VERSION_DIGIT = 12

# Constants of splitmix64 (Steele, Lea and Flood, 2014).
_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_MULTIPLIER = np.uint64(0x94D049BB133111EB)
_SEED_MULTIPLIER = 0xD1342543DE82EF95


class RandomStream:
    """A stream of raw bits. Streams with different seeds are independent of each other."""

    def __init__(self, *seed: int) -> None:
        words = [part & _WORD_MASK for part in seed]
        sequence = np.random.SeedSequence(words)
        self._bits = np.random.PCG64(sequence)

    def raw(self, count: int) -> Words:
        """Return random 64-bit numbers."""
        raw = self._bits.random_raw(count)
        return np.asarray(raw, np.uint64)

    def octets(self, rows: int, columns: int) -> Octets:
        """Return a matrix of random bytes."""
        words_per_row = -(-columns // 8)
        words = self.raw(rows * words_per_row)
        octets = _little_endian(words).view(np.uint8)
        row_size = words_per_row * 8
        matrix = octets.reshape(rows, row_size)
        return matrix[:, :columns]

    def below(self, limit: int, count: int) -> Numbers:
        """Return random numbers from 0 up to, not including, `limit`."""
        raw = self.raw(count)
        if limit > _MAX_32_BITS:  # a span in microseconds: the bias of a remainder is negligible
            remainders = raw % np.uint64(limit)
            return remainders.astype(np.int64)
        high_halves = raw >> _HALF_WORD
        scaled = high_halves * np.uint64(limit)
        below_limit = scaled >> _HALF_WORD
        return below_limit.astype(np.int64)

    def small(self, count: int) -> Numbers:
        """Return 16-bit random numbers skewed towards zero, as durations are: squares of uniform ones."""
        words = -(-count // 4)
        raw = self.raw(words)
        uniform = _little_endian(raw).view("<u2")
        wide = uniform[:count].astype(np.int64)
        squares = wide * wide
        return squares >> 16


def _little_endian(words: Words) -> Words:
    return words.astype("<u8", copy=False)


def hashed(seed: int, numbers: Numbers) -> Words:
    """Return a 64-bit hash (splitmix64) of each number.

    It serves where a random value must be a function of a flow's number, so that it can be computed again at any time.
    """
    product = seed * _SEED_MULTIPLIER
    offset = (product + 1) & _WORD_MASK
    mixed = numbers.astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed *= _GOLDEN_GAMMA
        mixed += np.uint64(offset)
        mixed ^= mixed >> np.uint64(30)
        mixed *= _FIRST_MULTIPLIER
        mixed ^= mixed >> np.uint64(27)
        mixed *= _SECOND_MULTIPLIER
        mixed ^= mixed >> np.uint64(31)
    return mixed


def hex_digits(octets: Octets) -> Octets:
    """Return rows of bytes as lower-case hex digits, two for each byte."""
    pairs = _HEX_PAIRS[octets]
    return pairs.reshape(len(octets), -1)


def guids(seed: int, numbers: Numbers) -> Octets:
    """Return the text of a version 4 GUID for each number, one row of 36 bytes each."""
    count = len(numbers)
    first_half = hashed(seed, numbers)
    second_half = hashed(~seed, numbers)
    halves = np.stack([first_half, second_half], axis=1)
    big_endian = halves.astype(">u8", copy=False)
    octets = big_endian.view(np.uint8)
    rows = octets.reshape(count, 16)
    digits = hex_digits(rows)
    digits[:, _GUID_VERSION_DIGIT] = ord("4")
    text = np.full((count, GUID_SIZE), _HYPHEN, np.uint8)
    text[:, _GUID_DIGITS] = digits
    return text
