"""What one node sent, matched with what the other received, in arrays of whole messages. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.pipeline.traces import Kernel
from hopline.pipeline.traces.arrays import NONE, codes, groups_of, is_set, longs, picked, starts_of
from hopline.pipeline.traces.columns import RECEIVED, REJECTED, SENT, TRACES, Flags, Longs
from hopline.pipeline.traces.kernels import plain

# What the same bytes say at both ends.
_SAID = (
    *("flow_id", "message_id", "fingerprint", "service", "wire_format", "identity", "version", "partition"),
    *("hops", "bytes"),
)
_TIME = pa.timestamp("us", "UTC")

MATCHED = pa.schema(
    [
        ("from_node", pa.string()),
        ("to_node", pa.string()),
        *(plain(TRACES.field(name)) for name in _SAID),
        ("sent_ts", _TIME),
        ("received_ts", _TIME),
        ("sent_seq", pa.int64()),
        ("received_seq", pa.int64()),
        ("duplicate", pa.bool_()),
        ("rejected", pa.bool_()),
    ]
)


def _keep(rows: pa.Table) -> Flags:
    event = longs(rows, "event")
    crosses = ((event == SENT) | (event == RECEIVED)) & is_set(rows, "peer")
    kept: Flags = (crosses | (event == REJECTED)) & is_set(rows, "node")
    return kept


def _matched(rows: pa.Table) -> pa.Table:
    """Match the first sent with the first received, and so on, where they are the same bytes between two nodes."""
    event, ts, seq = longs(rows, "event"), longs(rows, "ts", NONE), longs(rows, "seq", NONE)
    message, fingerprint = longs(rows, "message_id"), longs(rows, "fingerprint")
    node, peer = codes(rows, "node", "peer")
    rejected = _rejected(event, message, node, seq, ts)
    ends = np.flatnonzero(event != REJECTED)
    is_received = event == RECEIVED
    source, target = np.where(is_received, peer, node), np.where(is_received, node, peer)
    keys = (message, fingerprint, source, target)
    ends = ends[np.lexsort((seq[ends], ts[ends], is_received[ends], *(key[ends] for key in reversed(keys))))]
    starts = starts_of(*(key[ends] for key in keys))
    group, first = groups_of(starts), np.flatnonzero(starts)
    sent = np.bincount(group, ~is_received[ends], len(first)).astype(np.int64)
    received = np.bincount(group, minlength=len(first)) - sent
    # As many rows as were sent, or received where these are more: the nth of one with the nth of the other.
    count = np.maximum(sent, received)
    of = np.repeat(np.arange(len(first)), count)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    leaves = _at(ends, first[of] + nth, nth < sent[of])
    arrives = _at(ends, first[of] + sent[of] + nth, nth < received[of])
    either = np.where(leaves != NONE, leaves, arrives)
    came = np.where(is_received[either], either, NONE)  # where only the arrival was seen, names are the other way round
    node_of, peer_of = picked(rows, "node", either), picked(rows, "peer", either)
    only_came = pa.array(came != NONE)
    return pa.table(
        [
            pc.if_else(only_came, peer_of, node_of),
            pc.if_else(only_came, node_of, peer_of),
            *(picked(rows, name, either) for name in _SAID),
            picked(rows, "ts", leaves),
            picked(rows, "ts", arrives),
            picked(rows, "seq", leaves),
            picked(rows, "seq", arrives),
            pa.array((leaves == NONE) & (sent[of] > 0)),
            pa.array((arrives != NONE) & rejected[arrives]),
        ],
        schema=MATCHED,
    )


def _at(ends: Longs, places: Longs, is_there: Flags) -> Longs:
    found: Longs = np.where(is_there, ends[np.where(is_there, places, 0)], NONE)
    return found


def _rejected(event: Longs, message: Longs, node: Longs, seq: Longs, ts: Longs) -> Flags:
    """Tell which arrivals the receiver then rejected: its next record of the message says so."""
    order = np.lexsort((ts, seq, node, message))
    starts = starts_of(message[order], node[order])
    then = np.concatenate(((event[order] == REJECTED)[1:] & ~starts[1:], [False]))
    found = np.zeros(len(event), np.bool_)
    found[order] = then & (event[order] == RECEIVED)
    return found


MATCHING = Kernel(columns=(*_SAID, "ts", "seq", "node", "event", "peer"), schema=MATCHED, work=_matched, keep=_keep)
