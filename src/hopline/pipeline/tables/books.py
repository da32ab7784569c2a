"""What came in and what went out, balanced by message, in arrays of whole messages. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hopline.capture.events import ENDINGS, Event
from hopline.pipeline.traces import Kernel
from hopline.pipeline.traces.arrays import codes, groups_of, longs, order_of, picked, starts_of
from hopline.pipeline.traces.columns import EVENTS, Flags

CAME_IN = (Event.SUBMITTED, Event.RECEIVED)
WENT_OUT = (Event.DELIVERED, Event.SENT, *ENDINGS)
_SIDES = np.zeros(len(EVENTS) + 1, np.int64)
_SIDES[[EVENTS[event] for event in CAME_IN]] = 1
_SIDES[[EVENTS[event] for event in WENT_OUT]] = -1
_HOUR_US = 3_600_000_000
_BROADCAST = 1

BOOKS = pa.schema(
    [("node", pa.string()), ("hour", pa.timestamp("us", "UTC")), ("copies", pa.int64()), ("balance", pa.int64())]
)


def _keep(rows: pa.Table) -> Flags:
    kept: Flags = _SIDES[longs(rows, "event")] != 0
    return kept


def _books(rows: pa.Table) -> pa.Table:
    """Count the outcomes that are too few or too many, and the copies of broadcasts, in the hour of the last record.

    By message: what is under way when an hour ends is balanced all the same.
    """
    message, (node,) = longs(rows, "message_id"), codes(rows, "node")
    order = order_of(message, node)
    starts = starts_of(message[order], node[order])
    first = np.flatnonzero(starts)
    difference = np.add.reduceat(_SIDES[longs(rows, "event")][order], first)
    last = np.maximum.reduceat(longs(rows, "ts")[order], first)
    is_broadcast = np.maximum.reduceat(longs(rows, "distribution")[order], first) == _BROADCAST
    copies = np.where(is_broadcast, np.maximum(-difference, 0), 0)
    # Few nodes and hours: what is given is small.
    hour, node = last - last % _HOUR_US, node[order][first]
    by_hour = order_of(node, hour)
    begins = starts_of(node[by_hour], hour[by_hour])
    at = np.flatnonzero(begins)
    group = groups_of(begins)
    return pa.table(
        [
            picked(rows, "node", order[first][by_hour][at]),
            pa.array(hour[by_hour][at], BOOKS.field("hour").type),
            pa.array(np.bincount(group, copies[by_hour]).astype(np.int64)),
            pa.array(np.bincount(group, (difference + copies)[by_hour]).astype(np.int64)),
        ],
        schema=BOOKS,
    )


BALANCING = Kernel(columns=("message_id", "node", "ts", "event", "distribution"), schema=BOOKS, work=_books, keep=_keep)
