"""Forged and replayed messages among traces. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hopline.pipeline.traces.arrays import NONE, codes, longs, order_of, starts_of
from hopline.pipeline.traces.columns import OFFENCE, VERIFIED, Flags

JUDGED_BY = ("flags", "node", "fingerprint", "ts", "seq")


def is_verified(rows: pa.Table) -> Flags:
    """Tell what came from outside with a good signature, whether for the first time or not."""
    found: Flags = longs(rows, "flags") & VERIFIED != 0
    return found


def is_replayed(rows: pa.Table) -> Flags:
    """Tell what was verified, though the same node had received the same bytes before."""
    found = np.zeros(len(rows), np.bool_)
    verified = np.flatnonzero(is_verified(rows))
    if len(verified):
        rows = rows.take(pa.array(verified))
        (node,), fingerprint = codes(rows, "node"), longs(rows, "fingerprint")
        order = order_of(fingerprint, node, longs(rows, "seq", NONE), longs(rows, "ts", NONE))
        found[verified[order]] = ~starts_of(fingerprint[order], node[order])
    return found


def is_offence(rows: pa.Table) -> Flags:
    """Tell what carries somebody's correlation id, but is not part of that flow."""
    found: Flags = (longs(rows, "flags") & OFFENCE != 0) | is_replayed(rows)
    return found
