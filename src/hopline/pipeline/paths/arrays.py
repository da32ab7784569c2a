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
    values: Longs = (pc.fill_null(column, null) if column.null_count else column).to_numpy()
    return values


def flags(rows: pa.Table, name: str) -> Flags:
    """Return a column of yes and no; null is no."""
    values: Flags = pc.fill_null(rows[name], False).to_numpy()
    return values


def is_set(rows: pa.Table, name: str) -> Flags:
    """Return which rows have a value."""
    values: Flags = rows[name].is_valid().to_numpy()
    return values


def codes(rows: pa.Table, *columns: str) -> list[Longs]:
    """Return text columns as numbers: equal texts have equal numbers in all of them, null has 0."""
    encoded = pa.chunked_array([chunk for name in columns for chunk in rows[name].chunks]).combine_chunks()
    indices = encoded.dictionary_encode().indices
    numbers = pc.fill_null(indices, NONE).to_numpy().astype(np.int64) + 1
    return np.split(numbers, len(columns))


def numbered(values: Longs) -> Longs:
    """Return equal numbers, from 0, for equal values."""
    order = np.argsort(values)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = groups_of(starts_of(values[order]))
    return numbers


def order_of(*keys: Longs | Flags) -> Longs:
    """Return the order of rows sorted by keys, of which the first matters most; equal rows stay in their order."""
    parts = _packed(keys)
    order: Longs = np.argsort(parts[0], kind="stable") if len(parts) == 1 else np.lexsort(parts[::-1])
    return order


def _packed(keys: Sequence[Longs | Flags]) -> list[Longs]:
    """Pack several keys into as few numbers as have room for them: a sort by fewer is faster."""
    parts: list[Longs] = []
    room = 0
    for key in keys:
        low, high = (int(key.min()), int(key.max())) if len(key) else (0, 0)
        span = high - low + 1
        if span <= room:
            parts[-1] = parts[-1] * span + (key - np.int64(low))
            room //= span
        else:
            parts.append(key - np.int64(low) if span <= _LARGEST else key.astype(np.int64))
            room = _LARGEST // span
    return parts


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
    return rows[name].combine_chunks().take(pa.array(at, mask=at == NONE))
