"""Each run of a handler with the time that its message had waited, in arrays of whole messages. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hopline.pipeline.tables.causality import by_group
from hopline.pipeline.traces import Kernel
from hopline.pipeline.traces.arrays import NONE, codes, longs, picked
from hopline.pipeline.traces.columns import DELIVERED, FAILED, HANDLED, Flags

_KIND = ("identity", "version", "partition")
RUNS = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("node", pa.string()),
        ("actor", pa.string()),
        *((name, pa.string()) for name in _KIND),
        ("wait_us", pa.int64()),
        ("run_us", pa.int64()),
        ("has_failed", pa.bool_()),
    ]
)


def _keep(rows: pa.Table) -> Flags:
    event = longs(rows, "event")
    kept: Flags = (event == DELIVERED) | (event == HANDLED)
    return kept


def _runs(rows: pa.Table) -> pa.Table:
    """Give each `handled` record the time in the mailbox that the last `delivered` one before it tells."""
    event, ts, seq = longs(rows, "event"), longs(rows, "ts", NONE), longs(rows, "seq", NONE)
    (node,), (actor,) = codes(rows, "node"), codes(rows, "local_receiver")
    groups = (longs(rows, "message_id"), node, actor)
    delivery = by_group(groups, seq, ts, event).latest_before(event == DELIVERED)
    handled = np.flatnonzero(event == HANDLED)
    return pa.table(
        [
            picked(rows, "ts", handled),
            picked(rows, "node", handled),
            picked(rows, "local_receiver", handled),
            *(picked(rows, name, handled) for name in _KIND),
            picked(rows, "duration_us", delivery[handled]),
            picked(rows, "duration_us", handled),
            pa.array(longs(rows, "flags")[handled] & FAILED != 0),
        ],
        schema=RUNS,
    )


RUNNING = Kernel(
    columns=("message_id", "ts", "seq", "node", "event", "local_receiver", "duration_us", *_KIND, "flags"),
    schema=RUNS,
    work=_runs,
    keep=_keep,
)
