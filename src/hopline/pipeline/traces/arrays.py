"""Columns of traces as arrays of numbers, which is what kernels work with. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.pipeline.traces.columns import Flags, Longs

NONE = -1


def longs(rows: pa.Table, name: str, null: int = 0) -> Longs:
    """Give numbers; times are microseconds since 1970."""
    column = rows[name].cast(pa.int64())
    found: Longs = (pc.fill_null(column, null) if column.null_count else column).to_numpy()
    return found


def is_set(rows: pa.Table, name: str) -> Flags:
    """Tell which rows have a value."""
    found: Flags = rows[name].is_valid().to_numpy()
    return found


def codes(rows: pa.Table, *names: str) -> tuple[Longs, ...]:
    """Give texts as numbers, the same for all these columns and in the order of the texts, from 1; 0 is none."""
    encoded = [rows[name].combine_chunks() for name in names]
    known = [column.dictionary.to_pylist() for column in encoded]
    numbers = {text: number for number, text in enumerate(sorted(set().union(*known)), 1)}
    found = []
    for column, texts in zip(encoded, known, strict=True):
        places = np.array([0, *map(numbers.__getitem__, texts)], np.int64)
        found.append(places[pc.fill_null(column.indices, NONE).to_numpy().astype(np.int64) + 1])
    return tuple(found)


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
