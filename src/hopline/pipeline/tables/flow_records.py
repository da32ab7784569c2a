"""The records of flows, in order, and no more of each flow than can be looked at. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hopline.pipeline.tables.causality import Records, beside
from hopline.pipeline.traces.arrays import codes, groups_of, is_set, longs, numbered, order_of, starts_of
from hopline.pipeline.traces.columns import (
    ANSWER,
    FROM_WAITING,
    IS_RECEIPT,
    MAY_BEGIN,
    OFFENCE,
    RECEIPT_ENOUGH,
    REJECTED,
    RESOLVED,
    Longs,
)
from hopline.pipeline.traces.replays import is_offence

FLOW_DETAIL_LIMIT = 1_000
NODES = ("node", "peer")
COLUMNS = (
    *("flow", "ts", "seq", "node", "event", "peer", "local_receiver", "cause", "message_id", "fingerprint", "flags"),
    *("trail", "ask"),
)
"""The columns of traces that records are made of."""


def capped(rows: pa.Table) -> pa.Table:
    """Keep the first records of each flow, and of the others what tells its nodes, its answers and its last one.

    Of the answers to each request these are the first, and the first that a promise took. To do so again, with more
    records beside, makes no difference to doing it once with all of them. The rows are sorted by flow then, and by the
    order inside it.
    """
    rows = _in_order(rows)
    flow, starts = _flows_of(rows)
    if np.diff(np.append(starts, len(rows))).max(initial=0) <= FLOW_DETAIL_LIMIT:
        return rows
    keep = np.arange(len(rows)) - starts[flow] < FLOW_DETAIL_LIMIT
    flags, ts, asks = longs(rows, "flags"), longs(rows, "ts"), longs(rows, "ask")
    others = np.flatnonzero(~keep & (flags & OFFENCE == 0))
    answers = others[flags[others] & ANSWER != 0]
    taken = answers[longs(rows, "event")[answers] == RESOLVED]
    (node,) = codes(rows, "node")
    for chosen, group, order in (
        (others, node, np.zeros(len(others), np.int64)),
        (others, np.zeros(len(rows), np.int64), -ts[others]),
        (answers, asks, ts[answers]),
        (taken, asks, ts[taken]),
    ):
        sort = order_of(flow[chosen], group[chosen], order)
        first = chosen[sort][starts_of(flow[chosen][sort], group[chosen][sort])]
        keep[first] = True
    return rows.filter(pa.array(keep)).combine_chunks()


def _in_order(rows: pa.Table) -> pa.Table:
    (node,) = codes(rows, "node")
    order = order_of(longs(rows, "flow"), longs(rows, "trail"), longs(rows, "ts"), node, longs(rows, "seq"))
    return rows.take(pa.array(order)).combine_chunks()


def _flows_of(rows: pa.Table) -> tuple[Longs, Longs]:
    """Give the flows of sorted rows numbers, from 0, and tell where each begins."""
    starts = starts_of(longs(rows, "flow"))
    return groups_of(starts), np.flatnonzero(starts)


def without_offences(rows: pa.Table) -> pa.Table:
    """Leave out what is none of the flow's: what was forged or replayed, and that it was rejected."""
    offence = is_offence(rows)
    if not offence.any():
        return rows
    rejected = longs(rows, "event") == REJECTED
    suspects = np.flatnonzero(offence | rejected)
    names = (longs(rows, "flow"), longs(rows, "fingerprint"), codes(rows, "node")[0])
    is_about_one = beside(tuple(name[suspects] for name in names), offence[suspects])
    offence[suspects] |= rejected[suspects] & is_about_one
    return rows.filter(pa.array(~offence)).combine_chunks()


def records_of(rows: pa.Table) -> Records:
    """Give rows that are sorted by flow as arrays."""
    flags = longs(rows, "flags")
    node, peer = codes(rows, *NODES)
    return Records(
        flow=_flows_of(rows)[0],
        ts=longs(rows, "ts"),
        seq=longs(rows, "seq"),
        node=node,
        peer=peer,
        event=longs(rows, "event"),
        receiver=codes(rows, "local_receiver")[0],
        cause=longs(rows, "cause"),
        has_cause=is_set(rows, "cause"),
        message=numbered(longs(rows, "message_id")),
        fingerprint=numbered(longs(rows, "fingerprint")),
        trail=longs(rows, "trail"),
        ask=longs(rows, "ask"),
        may_begin=flags & MAY_BEGIN != 0,
        is_from_waiting=flags & FROM_WAITING != 0,
        is_answer=flags & ANSWER != 0,
        is_receipt=flags & IS_RECEIPT != 0,
        is_receipt_enough=flags & RECEIPT_ENOUGH != 0,
    )
