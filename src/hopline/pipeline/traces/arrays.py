"""Columns of traces as arrays of numbers, which is what kernels work with. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.pipeline.traces.columns import Flags, Longs

NONE = -1
_MOST = (1 << 63) - 1
DAY_US = 86_400_000_000
_SECOND_US = 1_000_000


def longs(rows: pa.Table, name: str, null: int = 0) -> Longs:
    """Give numbers; times are microseconds since 1970."""
    column = rows[name].cast(pa.int64())
    found: Longs = (pc.fill_null(column, null) if column.null_count else column).to_numpy()
    return found


def is_set(rows: pa.Table, name: str) -> Flags:
    """Tell which rows have a value."""
    found: Flags = rows[name].is_valid().to_numpy()
    return found


def names(rows: pa.Table, *columns: str) -> list[str | None]:
    """List the texts of some columns, once each and in order, behind none."""
    known: set[str] = set()
    for column in columns:
        known.update(rows[column].combine_chunks().dictionary.to_pylist())
    return [None, *sorted(known)]


def codes(rows: pa.Table, *columns: str) -> tuple[Longs, ...]:
    """Give texts as numbers: the places that they have in the `names` of these columns."""
    numbers = {text: number for number, text in enumerate(names(rows, *columns))}
    found = []
    for name in columns:
        column = rows[name].combine_chunks()
        places = np.array([0, *map(numbers.__getitem__, column.dictionary.to_pylist())], np.int64)
        found.append(places[pc.fill_null(column.indices, NONE).to_numpy().astype(np.int64) + 1])
    return tuple(found)


def order_of(*keys: Longs | Flags) -> Longs:
    """Sort rows by keys, of which the first matters most; rows with the same keys stay in their order."""
    parts = _parts(keys)
    order: Longs = np.argsort(parts[0], kind="stable") if len(parts) == 1 else np.lexsort(parts[::-1])
    return order


def joined(keys: Sequence[Longs | Flags]) -> Longs:
    """Make one number of several, in the same order."""
    parts = _parts(keys)
    if len(parts) == 1:
        return parts[0]
    order = np.lexsort(parts[::-1])
    whole = np.empty(len(order), np.int64)
    whole[order] = groups_of(starts_of(*(part[order] for part in parts)))
    return whole


def numbered(values: Longs) -> Longs:
    """Give equal values equal numbers, from 0."""
    order = np.argsort(values)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = groups_of(starts_of(values[order]))
    return numbers


def _parts(keys: Sequence[Longs | Flags]) -> list[Longs]:
    """Make as few numbers of several as have room for them: a sort by fewer is faster."""
    parts: list[Longs] = []
    room = 0
    for key in keys:
        low, high = (int(key.min()), int(key.max())) if len(key) else (0, 0)
        span = high - low + 1
        if span <= room:
            parts[-1] = parts[-1] * span + (key - np.int64(low))
            room //= span
        else:
            parts.append(key - np.int64(low) if span <= _MOST else key.astype(np.int64))
            room = _MOST // span
    return parts


def starts_of(*keys: Longs) -> Flags:
    """Mark where a new group begins in arrays that are sorted by group."""
    starts = np.zeros(len(keys[0]), np.bool_)
    starts[:1] = True
    for key in keys:
        starts[1:] |= key[1:] != key[:-1]
    return starts


def groups_of(starts: Flags) -> Longs:
    """Give groups numbers, by where they begin."""
    found: Longs = np.cumsum(starts) - 1
    return found


def picked(rows: pa.Table, name: str, at: Longs) -> pa.Array:
    """Take the values of some rows; none where there is no row."""
    column = rows[name].combine_chunks()
    found = column.take(pa.array(at, mask=at == NONE))
    return found.cast(found.type.value_type) if pa.types.is_dictionary(found.type) else found


def chosen(rows: pa.Table, name: str, at: Longs) -> pa.DictionaryArray:
    """Take the texts of some rows as they are, in their dictionary; none where there is no row."""
    column = rows[name].combine_chunks()
    return pa.DictionaryArray.from_arrays(column.indices.take(pa.array(at, mask=at == NONE)), column.dictionary)


def days_of(times: pa.Array) -> pa.Array:
    """Give the day of each time, UTC."""
    us = times.cast(pa.int64())
    days = pc.fill_null(us, 0).to_numpy() // DAY_US
    return pa.array(days.astype(np.int32), mask=us.is_null().to_numpy(zero_copy_only=False)).cast(pa.date32())


def in_windows(times: pa.Array | pa.ChunkedArray, seconds: int) -> pa.Array:
    """Give the start of the window that each time lies in: a whole multiple of its length since 1970."""
    us = times.cast(pa.int64())
    starts = pc.fill_null(us, 0).to_numpy()
    starts = starts - starts % (seconds * _SECOND_US)
    return pa.array(starts, mask=us.is_null().to_numpy(zero_copy_only=False)).cast(times.type)
