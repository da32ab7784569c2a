"""Little-endian integers off the wire, as column expressions.

Spark has no function that reads bytes as a number but through text: `conv(hex(b), 16, 10)`, most of a decoder's time.
It has CRC-32, which is linear over the bits: a checksum of one to four bytes is the bytes themselves in another basis,
and four small tables turn it back. That is exact, and ten times as fast.
"""

from __future__ import annotations

import zlib
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as sf

WIDTH = 4  # bytes of what CRC-32 can give back

_BITS = 8 * WIDTH


def _inverse() -> list[int]:
    """Give, for each bit of a checksum, the bits of the integer that it stands for (Gauss over one-bit words)."""
    nothing = zlib.crc32(bytes(WIDTH))
    basis: dict[int, tuple[int, int]] = {}
    for bit in range(_BITS):
        image, source = zlib.crc32((1 << bit).to_bytes(WIDTH, "little")) ^ nothing, 1 << bit
        while (highest := image.bit_length() - 1) in basis:
            image, source = image ^ basis[highest][0], source ^ basis[highest][1]
        basis[highest] = image, source

    def solve(image: int) -> int:
        solution = 0
        while image:
            row, source = basis[image.bit_length() - 1]
            image, solution = image ^ row, solution ^ source
        return solution

    return [solve(1 << bit) for bit in range(_BITS)]


def _apply(matrix: list[int], value: int) -> int:
    return reduce(int.__xor__, (row for bit, row in enumerate(matrix) if value >> bit & 1), 0)


_INVERSE = _inverse()
_OFFSET = _apply(_INVERSE, zlib.crc32(bytes(WIDTH)))

# By byte of the checksum; the offset is in the first.
_TABLES = [
    [_apply(_INVERSE, byte << 8 * at) ^ (_OFFSET if at == 0 else 0) for byte in range(256)] for at in range(WIDTH)
]
# The highest byte of the checksum of one byte names that byte.
_BYTES = [byte for _, byte in sorted((zlib.crc32(bytes([byte])) >> 24, byte) for byte in range(256))]

_ZEROS = bytes(3)


def _table(values: list[int], of: str) -> Column:
    """Give a table as one text that Spark turns into an array, once: 256 literals take their time in every plan."""
    return sf.split(sf.lit(",".join(map(str, values))), ",").cast(f"array<{of}>")


def integers(words: Column) -> Column:
    """Read an array of four bytes each as unsigned integers, all in one loop: an array of long, null where they are."""
    tables = [_table(table, "bigint") for table in _TABLES]

    def turned_back(checksum: Column) -> Column:
        parts = (
            sf.get(table, sf.shiftright(checksum, 8 * at).bitwiseAND(sf.lit(255)).cast("int"))
            for at, table in enumerate(tables)
        )
        return reduce(Column.bitwiseXOR, parts)

    return sf.transform(sf.transform(words, sf.crc32), turned_back)


def byte(raw: Column, at: Column | int) -> Column:
    """Read the byte at an index counted from 0 as an int; what stands behind the end is something, but no fault."""
    return sf.get(_table(_BYTES, "int"), sf.shiftright(sf.crc32(part(raw, at, 1)), 24).cast("int"))


def small(raw: Column, at: Column) -> Column:
    """Read the four-byte integer at an index, below 256; null where it is larger, negative or not there."""
    return sf.when(part(raw, at + 1, len(_ZEROS)) == sf.lit(_ZEROS), byte(raw, at))


def word(raw: Column, at: Column | int = 0) -> Column:
    """Read the two-byte integer at an index as an int."""
    return byte(raw, at).bitwiseOR(sf.shiftleft(byte(raw, at + 1), 8))


def long(low: Column, high: Column) -> Column:
    """Put two halves together: the signed integer of eight bytes."""
    return sf.shiftleft(high, 32).bitwiseOR(low)


def part(raw: Column, at: Column | int, size: Column | int) -> Column:
    """Cut out bytes from an index counted from 0."""
    start = at + 1
    return sf.substring(
        raw, sf.lit(start) if isinstance(start, int) else start, sf.lit(size) if isinstance(size, int) else size
    )
