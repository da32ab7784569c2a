"""How far estimates of two clocks may be off, looked up for many transits at once. Pure."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa

from hopline.pipeline.traces.arrays import codes, longs, picked
from hopline.pipeline.traces.columns import Longs

_DAY_US = 86_400_000_000


class Bounds:
    """The bounds of a table of skew, by day and pair of nodes."""

    def __init__(self, skew: pa.Table) -> None:
        rows = skew.select(["date", "node_a", "node_b", "bound_us"]).to_pylist()
        self._by_pair = {(row["date"], row["node_a"], row["node_b"]): row["bound_us"] for row in rows}

    def of(self, rows: pa.Table, received: Longs) -> pa.Array:
        """Give the bound for each of the records that were received, or none."""
        node, peer = (column[received] for column in codes(rows, "node", "peer"))
        day = longs(rows, "ts")[received] // _DAY_US
        # Few pairs and days, and many transits: each is looked up once.
        _, first, which = np.unique(np.stack((day, node, peer)), axis=1, return_index=True, return_inverse=True)
        pairs = (picked(rows, name, received[first]).to_pylist() for name in ("node", "peer"))
        days = pa.array(day[first].astype(np.int32)).cast(pa.date32()).to_pylist()
        bounds = [self._bound(*one) for one in zip(days, *pairs, strict=True)]
        return pa.array(bounds, pa.int64()).take(pa.array(which.ravel()))

    def _bound(self, day: date, node: str | None, peer: str | None) -> int | None:
        if node is None or peer is None:
            return None
        return self._by_pair.get((day, min(node, peer), max(node, peer)))
