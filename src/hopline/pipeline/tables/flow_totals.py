"""What flows add up to, in arrays that hold all records of many flows. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hopline.pipeline.tables.causality import Records
from hopline.pipeline.traces.arrays import order_of, starts_of
from hopline.pipeline.traces.columns import ENDED, EXPIRED, RECEIVED, SENT, SUBMITTED, Flags, Longs

TOTALS = pa.schema(
    [
        ("records", pa.int64()),
        ("messages", pa.int64()),
        ("hops", pa.int64()),
        ("bytes", pa.int64()),
        ("is_failed", pa.bool_()),
        ("is_expired", pa.bool_()),
    ]
)


def totals(records: Records, hops: Longs, size: Longs) -> tuple[Longs, Longs, Longs, Longs, Flags, Flags]:
    """Give the columns of `TOTALS`, a row for each flow."""
    event, flow = records.event, records.flow
    count = int(flow[-1]) + 1
    # As long as nobody sent it on, a message has the size that it was made with.
    order = order_of(records.message, flow, records.trail, size)
    starts = starts_of(flow[order], records.message[order])
    message = np.empty(len(order), np.int64)
    message[order] = np.cumsum(starts) - 1
    flow_of, size_of = flow[order[starts]], size[order[starts]]

    def of_messages(wanted: Flags) -> Longs:
        return np.bincount(message[wanted], minlength=len(flow_of))

    def of_flows(values: Longs) -> Longs:
        found = np.zeros(count, np.int64)
        np.add.at(found, flow_of, values)
        return found

    crossed, most_sent = _crossed(records, hops, message, len(flow_of))
    submitted = of_messages(event == SUBMITTED)
    times = np.where(submitted > 0, submitted, np.maximum(most_sent, 1))
    return (
        np.bincount(flow, minlength=count),
        of_flows(times),
        of_flows(crossed),
        of_flows(times * size_of),
        np.bincount(flow[(event >= ENDED) & (event != EXPIRED)], minlength=count) > 0,
        np.bincount(flow[event == EXPIRED], minlength=count) > 0,
    )


def _crossed(records: Records, hops: Longs, message: Longs, count: int) -> tuple[Longs, Longs]:
    """Count for each message how often it crossed between nodes, and how often it was sent where that was most."""
    ends = np.flatnonzero((records.event == SENT) | (records.event == RECEIVED))
    is_received, node, peer = records.event[ends] == RECEIVED, records.node[ends], records.peer[ends]
    keys = (message[ends], np.where(is_received, peer, node), np.where(is_received, node, peer), hops[ends])
    order = order_of(*keys)
    starts = starts_of(*(key[order] for key in keys))
    place = np.cumsum(starts) - 1
    sent = np.bincount(place, ~is_received[order], np.count_nonzero(starts)).astype(np.int64)
    received = np.bincount(place, minlength=len(sent)) - sent
    message_of = message[ends[order[starts]]]
    crossed, most_sent = np.zeros(count, np.int64), np.zeros(count, np.int64)
    # Of what was sent, whatever came more often is a duplicate.
    np.add.at(crossed, message_of, np.where(sent > 0, sent, received))
    np.maximum.at(most_sent, message_of, sent)
    return crossed, most_sent
