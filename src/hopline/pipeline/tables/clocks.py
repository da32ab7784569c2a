"""What is known of the clocks, looked up for many records at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hopline.pipeline.traces.columns import Flags, Longs


@dataclass(frozen=True, slots=True)
class Estimates:
    """By how much one clock is ahead of another, a row for each question."""

    offset_us: Longs
    bound_us: Longs
    is_known: Flags


class Clocks:
    """The estimates of a table of skew."""

    def __init__(self, skew: pa.Table) -> None:
        days = skew["date"].cast(pa.int32()).to_pylist()
        pairs = zip(days, *(skew[name].to_pylist() for name in ("node_a", "node_b")), strict=True)
        estimates = zip(*(skew[name].to_pylist() for name in ("offset_us", "bound_us")), strict=True)
        self._by_pair = dict(zip(pairs, estimates, strict=True))

    def compare(self, names: Sequence[str | None], day: Longs, one: Longs, other: Longs) -> Estimates:
        """Tell the other's clock minus the one's on a day since 1970. Nodes are places in a list of names, in order."""
        nodes, first_day = len(names), int(day.min(initial=0))
        # Few pairs and days, and many questions: each is looked up once.
        asked, which = np.unique(((day - first_day) * nodes + one) * nodes + other, return_inverse=True)
        known = [
            self._estimate(key // nodes**2 + first_day, names[key // nodes % nodes], names[key % nodes])
            for key in asked.tolist()
        ]
        found = np.array(known, np.int64).reshape(-1, 3)[which]
        return Estimates(found[:, 0], found[:, 1], found[:, 2] != 0)

    def _estimate(self, day: int, one: str | None, other: str | None) -> tuple[int, int, bool]:
        if one is None or other is None:
            return 0, 0, False
        offset, bound = self._by_pair.get((day, min(one, other), max(one, other)), (None, None))
        if offset is None or bound is None:
            return 0, 0, False
        return offset if one < other else -offset, bound, True


class Watched:
    """How long somebody watched each node: until its last message."""

    def __init__(self, ends: pa.Table) -> None:
        last = ends["last_ts"].cast(pa.int64()).to_pylist()
        self._until = dict(zip(ends["node"].to_pylist(), last, strict=True))

    def until(self, names: Sequence[str | None]) -> Longs:
        """Give the time of each of these nodes' last message; of one that nobody watched, one before all."""
        before_all = np.iinfo(np.int64).min
        return np.array([self._until.get(name, before_all) for name in names], np.int64)
