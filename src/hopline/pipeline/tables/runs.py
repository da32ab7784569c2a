"""Each run of a handler with the time that its message had waited, in arrays of whole messages. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hopline.pipeline.tables.causality import by_group
from hopline.pipeline.traces.arrays import NONE, chosen, codes, longs, picked
from hopline.pipeline.traces.columns import DELIVERED, FAILED, HANDLED, KIND, Flags

RUN_BY = (
    *("message_id", "ts", "seq", "node", "event", "local_receiver", "receiver_name", "handler", "duration_us"),
    *(*KIND, "flags"),
)
"""The columns of traces that tell it."""


def is_delivered_or_handled(rows: pa.Table) -> Flags:
    """Tell the records that matter."""
    event = longs(rows, "event")
    found: Flags = (event == DELIVERED) | (event == HANDLED)
    return found


def runs(rows: pa.Table) -> pa.Table:
    """Give each `handled` record the time in the mailbox that the last `delivered` one before it tells."""
    event, ts, seq = longs(rows, "event"), longs(rows, "ts", NONE), longs(rows, "seq", NONE)
    (node,), (actor,) = codes(rows, "node"), codes(rows, "local_receiver")
    groups = (longs(rows, "message_id"), node, actor)
    delivery = by_group(groups, seq, ts, event).latest_before(event == DELIVERED)
    handled = np.flatnonzero(event == HANDLED)
    return pa.table(
        {
            "ts": picked(rows, "ts", handled),
            "node": chosen(rows, "node", handled),
            "actor": chosen(rows, "local_receiver", handled),
            "actor_name": chosen(rows, "receiver_name", handled),
            "handler": chosen(rows, "handler", handled),
            **{name: chosen(rows, name, handled) for name in KIND},
            "wait_us": picked(rows, "duration_us", delivery[handled]),
            "run_us": picked(rows, "duration_us", handled),
            "has_failed": longs(rows, "flags")[handled] & FAILED != 0,
        }
    )
