"""Rows with the same keys, summed up and ranked in arrays. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hopline.pipeline.traces.arrays import joined, starts_of
from hopline.pipeline.traces.columns import Flags, Longs


class Groups:
    """Groups of rows, numbered from 0."""

    def __init__(self, keys: Sequence[Longs]) -> None:
        key = joined(keys)
        self._order = np.argsort(key)
        starts = starts_of(key[self._order])
        self._begins = np.flatnonzero(starts)
        self._of = np.empty(len(key), np.int64)  # which group each row is of
        self._of[self._order] = np.cumsum(starts) - 1
        self.first: Longs = self._order[self._begins]
        self.counts: Longs = np.diff(np.append(self._begins, len(key)))

    def sums(self, values: Longs | Flags) -> Longs:
        """Sum up values by group."""
        found: Longs = np.add.reduceat(values[self._order].astype(np.int64), self._begins)
        return found

    def percentiles(self, values: Longs, is_set: Flags, percents: Sequence[int]) -> list[pa.Array]:
        """Give the smallest value such that so many percent of a group's, or more, are not above it; or none."""
        known = np.flatnonzero(is_set)
        counts = np.bincount(self._of[known], minlength=len(self._begins))
        ordered = values[known][np.argsort(joined((self._of[known], values[known])))] if len(known) else values[:1]
        begins = np.cumsum(counts) - counts
        found = []
        for percent in percents:
            # Whole numbers only: a product of fractions may end just above the rank that is meant.
            rank = (counts * percent + 99) // 100
            found.append(pa.array(ordered[np.where(counts > 0, begins + rank - 1, 0)], mask=counts == 0))
        return found
