"""Sorting and grouping of records as arrays of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Longs: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

NONE = -1
_LARGEST = (1 << 63) - 1


def longs(rows: pa.Table, name: str, null: int = 0) -> Longs:
    """Return a column of numbers; times are microseconds since 1970."""
    column = rows[name].cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, null)
    values: Longs = column.to_numpy()
    return values


def flags(rows: pa.Table, name: str) -> Flags:
    """Return a column of yes and no; null is no."""
    column = pc.fill_null(rows[name], False)
    values: Flags = column.to_numpy()
    return values


def is_set(rows: pa.Table, name: str) -> Flags:
    """Return which rows have a value."""
    is_valid = rows[name].is_valid()
    values: Flags = is_valid.to_numpy()
    return values


def codes(rows: pa.Table, *columns: str) -> list[Longs]:
    """Return text columns as numbers: equal texts have equal numbers in all of them, null has 0."""
    chunks: list[pa.Array] = []
    for name in columns:
        chunks += rows[name].chunks
    texts = pa.chunked_array(chunks).combine_chunks()
    indices = texts.dictionary_encode().indices
    from_minus_one = pc.fill_null(indices, NONE).to_numpy()
    numbers = from_minus_one.astype(np.int64) + 1
    return np.split(numbers, len(columns))


def numbered(values: Longs) -> Longs:
    """Return equal numbers, from 0, for equal values."""
    order = np.argsort(values)
    starts = starts_of(values[order])
    numbers = np.empty(len(order), np.int64)
    numbers[order] = groups_of(starts)
    return numbers


def order_of(*keys: Longs | Flags) -> Longs:
    """Return the order of rows sorted by keys, of which the first matters most; equal rows stay in their order."""
    parts = _packed(keys)
    if len(parts) == 1:
        return np.argsort(parts[0], kind="stable")
    last_matters_most = parts[::-1]
    return np.lexsort(last_matters_most)


def _packed(keys: Sequence[Longs | Flags]) -> list[Longs]:
    """Pack several keys into as few numbers as have room for them: a sort by fewer is faster."""
    parts: list[Longs] = []
    room = 0
    for key in keys:
        low, span = _range_of(key)
        if span > _LARGEST:
            parts.append(key.astype(np.int64))
            room = 0
            continue
        from_zero = key - np.int64(low)
        if span <= room:
            parts[-1] = parts[-1] * span + from_zero
            room //= span
        else:
            parts.append(from_zero)
            room = _LARGEST // span
    return parts


def _range_of(key: Longs | Flags) -> tuple[int, int]:
    """Return the lowest value of a key, and how many values there are from it to the highest."""
    if not len(key):
        return 0, 1
    low = int(key.min())
    high = int(key.max())
    return low, high - low + 1


def starts_of(*keys: Longs) -> Flags:
    """Return where a new group begins in arrays that are sorted by group."""
    starts = np.zeros(len(keys[0]), np.bool_)
    starts[:1] = True
    for key in keys:
        starts[1:] |= key[1:] != key[:-1]
    return starts


def groups_of(starts: Flags) -> Longs:
    """Return the number of each row's group, from where groups begin."""
    numbers: Longs = np.cumsum(starts) - 1
    return numbers


def picked(rows: pa.Table, name: str, at: Longs) -> pa.Array:
    """Return the values of some rows; null where the row is `NONE`."""
    column = rows[name].combine_chunks()
    indices = pa.array(at, mask=at == NONE)
    return column.take(indices)


def group_starts(starts: Flags) -> Longs:
    """Return for each row the first row of its group, from where groups begin."""
    rows = np.arange(len(starts))
    first: Longs = np.maximum.accumulate(np.where(starts, rows, 0))
    return first
