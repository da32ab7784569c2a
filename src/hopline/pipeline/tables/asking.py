"""Each request that named callback points, and its first answer, in arrays. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.pipeline.traces import Kernel
from hopline.pipeline.traces.arrays import NONE, codes, groups_of, longs, picked, starts_of
from hopline.pipeline.traces.columns import (
    ANSWER,
    EXPIRED,
    IS_RECEIPT,
    RECEIPT_ENOUGH,
    RECEIVED,
    TRACES,
    Flags,
    Longs,
)
from hopline.pipeline.traces.replays import JUDGED_BY, is_offence

_KIND = ("identity", "version", "partition")
_TIME = pa.timestamp("us", "UTC")
ASKED = pa.schema(
    [
        ("flow_id", pa.string()),
        ("asked_node", pa.string()),
        ("asked_receiver", pa.string()),
        ("callback_key", pa.int64()),
        *((name, pa.string()) for name in _KIND),
        ("asked_for", TRACES.field("callbacks").type),
        ("request_node", pa.string()),
        ("request_ts", _TIME),
        ("ttl_us", pa.int64()),
        *((f"answer_{name}", pa.string()) for name in _KIND),
        ("answered_by", pa.string()),
        ("answered_ts", _TIME),
        ("is_expired", pa.bool_()),
    ]
)


def _keep(rows: pa.Table) -> Flags:
    is_asked = longs(rows, "rank") > 0
    kept: Flags = is_asked | (longs(rows, "flags") & ANSWER != 0) | (longs(rows, "event") == EXPIRED)
    return kept


def _asked(rows: pa.Table) -> pa.Table:
    """Find the request of each one who waits, as far as it was seen, and the first answer that came to him."""
    rows = rows.filter(pa.array(~is_offence(rows)))
    rows = rows.take(pa.array(np.argsort(longs(rows, "ask"), kind="stable"))).combine_chunks()
    starts = starts_of(longs(rows, "ask"))
    group, count = groups_of(starts), int(np.count_nonzero(starts))
    event, flags, rank = longs(rows, "event"), longs(rows, "flags"), longs(rows, "rank")
    ts, seq = longs(rows, "ts", NONE), longs(rows, "seq", NONE)
    node, peer, home = codes(rows, "node", "peer", "callback_receiver_node")
    seq_at_home = np.where(node == home, seq, NONE)
    request = _first(group, count, rank > 0, rank, longs(rows, "trail"), seq_at_home, ts, node, seq)
    # Where the format does not say which node waits, only the request does.
    is_nameless = pc.equal(rows["callback_receiver_node"].cast(pa.string()), "").to_numpy()
    waits_at = np.where(is_nameless, np.where(event == RECEIVED, peer, node), home)[request]
    is_enough = flags[request] & RECEIPT_ENOUGH != 0
    is_answer = (flags & ANSWER != 0) & (node == waits_at[group]) & (node != 0)
    is_answer &= (flags & IS_RECEIPT == 0) | is_enough[group]
    answer = _first(group, count, is_answer, ts, seq, *(codes(rows, name)[0] for name in _KIND))
    is_expired = np.bincount(group[event == EXPIRED], minlength=count) > 0
    known = np.flatnonzero(request != NONE)
    request, answer = request[known], answer[known]
    home_of, node_of = picked(rows, "callback_receiver_node", request), picked(rows, "node", request)
    sender_of = pc.if_else(pa.array(event[request] == RECEIVED), picked(rows, "peer", request), node_of)
    answering_peer = np.where((answer != NONE) & (event[answer] == RECEIVED), answer, NONE)
    return pa.table(
        [
            picked(rows, "flow_id", request),
            pc.if_else(pc.equal(home_of, ""), sender_of, home_of),
            picked(rows, "callback_receiver", request),
            picked(rows, "callback_key", request),
            *(picked(rows, name, request) for name in _KIND),
            picked(rows, "callbacks", request),
            node_of,
            picked(rows, "ts", request),
            picked(rows, "ttl_us", request),
            *(picked(rows, name, answer) for name in _KIND),
            pc.coalesce(
                picked(rows, "peer", answering_peer), picked(rows, "sender", answer), picked(rows, "node", answer)
            ),
            picked(rows, "ts", answer),
            pa.array(is_expired[known]),
        ],
        schema=ASKED,
    )


def _first(group: Longs, count: int, wanted: Flags, *order: Longs) -> Longs:
    """Give of each group the first row that is wanted, or none."""
    rows = np.flatnonzero(wanted)
    rows = rows[np.lexsort((*(key[rows] for key in reversed(order)), group[rows]))]
    found = np.full(count, NONE)
    rows = rows[starts_of(group[rows])]
    found[group[rows]] = rows
    return found


ASKING = Kernel(
    columns=(
        *("flow_id", "event", "rank", "trail", "peer", "sender", "callback_receiver_node", "callback_receiver"),
        *("callback_key", "callbacks", "ttl_us", *_KIND, *JUDGED_BY),
    ),
    schema=ASKED,
    work=_asked,
    together="ask",
    keep=_keep,
)
