"""The critical path of flows: from the last event back to the first, in Arrow batches of records sorted by flow.

A flow's records are capped before anything else is done with them, so that no flow is too large to look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from hopline.pipeline.tables.bounds import Bounds
from hopline.pipeline.tables.causality import STAGES, TRANSIT, UNSEEN, Links, Records, beside, depths, link
from hopline.pipeline.tables.flow_totals import TOTALS, totals
from hopline.pipeline.traces import Kernel
from hopline.pipeline.traces.arrays import NONE, codes, groups_of, is_set, longs, picked, starts_of
from hopline.pipeline.traces.columns import (
    ANSWER,
    FROM_WAITING,
    IS_RECEIPT,
    MAY_BEGIN,
    OFFENCE,
    RECEIPT_ENOUGH,
    REJECTED,
    Flags,
    Longs,
)
from hopline.pipeline.traces.replays import is_offence

FLOW_DETAIL_LIMIT = 1_000

STAGE = pa.struct([("stage", pa.string()), ("node", pa.string()), ("identity", pa.string()), ("us", pa.int64())])
PATHS = pa.schema(
    [
        ("flow_id", pa.string()),
        ("has_root", pa.bool_()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("origin", pa.string()),
        ("identity", pa.string()),
        ("nodes", pa.int64()),
        ("depth", pa.int32()),
        ("skew_bound_us", pa.int64()),
        ("critical_path", pa.list_(STAGE)),
        *TOTALS,
    ]
)


def walking(bounds: pa.Table) -> Kernel:
    """Give the kernel that makes a row of each flow; `bounds` are what is not known of the clocks, as in skew."""
    return Kernel(
        columns=(
            *("flow", "flow_id", "ts", "seq", "node", "event", "peer", "local_receiver", "cause", "message_id"),
            *("fingerprint", "identity", "hops", "bytes", "flags", "trail", "ask"),
        ),
        schema=PATHS,
        work=partial(_paths, Bounds(bounds)),
        together="flow",
        shrink=_capped,
    )


def _in_order(rows: pa.Table) -> pa.Table:
    """Sort by flow, and by the order inside it."""
    (node,) = codes(rows, "node")
    keys = (longs(rows, "seq"), node, longs(rows, "ts"), longs(rows, "trail"), longs(rows, "flow"))
    return rows.take(pa.array(np.lexsort(keys))).combine_chunks()


def _capped(rows: pa.Table) -> pa.Table:
    """Keep the first records of each flow, and of the others what tells its nodes, its first answers and its last one.

    To do so again, with more records beside, makes no difference to doing it once with all of them.
    """
    rows = _in_order(rows)
    flow, starts = _flows_of(rows)
    if np.diff(np.append(starts, len(rows))).max(initial=0) <= FLOW_DETAIL_LIMIT:
        return rows
    keep = np.arange(len(rows)) - starts[flow] < FLOW_DETAIL_LIMIT
    flags, ts, asks = longs(rows, "flags"), longs(rows, "ts"), longs(rows, "ask")
    others = np.flatnonzero(~keep & (flags & OFFENCE == 0))
    answers = others[flags[others] & ANSWER != 0]
    (node,) = codes(rows, "node")
    for chosen, group, order in (
        (others, node, np.zeros(len(others), np.int64)),
        (others, np.zeros(len(rows), np.int64), -ts[others]),
        (answers, asks, ts[answers]),
    ):
        sort = np.lexsort((chosen, order, group[chosen], flow[chosen]))
        first = chosen[sort][starts_of(flow[chosen][sort], group[chosen][sort])]
        keep[first] = True
    return rows.filter(pa.array(keep)).combine_chunks()


def _flows_of(rows: pa.Table) -> tuple[Longs, Longs]:
    """Give the flows of sorted rows numbers, from 0, and tell where each begins."""
    starts = starts_of(longs(rows, "flow"))
    return groups_of(starts), np.flatnonzero(starts)


def _paths(bounds: Bounds, rows: pa.Table) -> pa.Table:
    rows = _capped(rows)
    records = _records(rows)
    is_whole = np.bincount(records.flow) <= FLOW_DETAIL_LIMIT
    kept = ~_left_out(rows, records)
    if not kept.all():
        rows = rows.filter(pa.array(kept)).combine_chunks()
        if not len(rows):
            return PATHS.empty_table()
        is_whole = is_whole[np.unique(records.flow[kept])]
        records = _records(rows)
    counted = totals(records, longs(rows, "hops"), longs(rows, "bytes"))
    return pa.table(
        [*_columns_of(rows, records, bounds), *(pa.array(column, mask=~is_whole) for column in counted)], schema=PATHS
    )


def _records(rows: pa.Table) -> Records:
    flags = longs(rows, "flags")
    node, peer = codes(rows, "node", "peer")
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
        message=longs(rows, "message_id"),
        fingerprint=longs(rows, "fingerprint"),
        trail=longs(rows, "trail"),
        ask=longs(rows, "ask"),
        may_begin=flags & MAY_BEGIN != 0,
        is_from_waiting=flags & FROM_WAITING != 0,
        is_answer=flags & ANSWER != 0,
        is_receipt=flags & IS_RECEIPT != 0,
        is_receipt_enough=flags & RECEIPT_ENOUGH != 0,
    )


def _left_out(rows: pa.Table, records: Records) -> Flags:
    """Mark what is none of the flow's: what was forged or replayed, and that it was rejected."""
    offence = is_offence(rows)
    if not offence.any():
        return offence
    same_bytes = (records.flow, records.message, records.node, records.fingerprint)
    left_out: Flags = offence | ((records.event == REJECTED) & beside(same_bytes, offence))
    return left_out


@dataclass(frozen=True, slots=True)
class _Ends:
    """Of each flow its first and its last record, and whether the first is how it began."""

    root: Longs
    has_root: Flags
    last: Longs


def _ends(records: Records, links: Links, begins: Flags) -> _Ends:
    starts = np.flatnonzero(starts_of(records.flow))
    count = len(starts)
    root, has_root = starts.copy(), np.zeros(count, np.bool_)
    beginnings = np.flatnonzero(begins)[::-1]  # the first of a flow is put last, and stays
    root[records.flow[beginnings]] = beginnings
    has_root[records.flow[beginnings]] = True
    last = np.full(count, NONE)
    is_leaf = np.ones(len(records), np.bool_)
    is_leaf[links.parent[links.parent != NONE]] = False
    leaves = np.flatnonzero(is_leaf)
    leaves = leaves[np.lexsort((leaves, records.ts[leaves]))]
    last[records.flow[leaves]] = leaves
    last = np.where(last == NONE, root, last)  # only where all records follow each other in a circle
    asked = root[records.flow]
    is_home = records.is_answer & has_root[records.flow] & (records.ask == records.ask[asked]) & (records.ask != 0)
    is_home &= (records.node == records.node[asked]) & (~records.is_receipt | records.is_receipt_enough[asked])
    answers = np.flatnonzero(is_home)
    answers = answers[np.lexsort((records.seq[answers], records.ts[answers]))][::-1]
    last[records.flow[answers]] = answers
    return _Ends(root, has_root, last)


@dataclass(frozen=True, slots=True)
class _Steps:
    """The steps of all paths, in the order of travel."""

    flow: Longs
    stage: Longs
    start: Longs  # the record that it begins with
    end: Longs


def _walk(records: Records, links: Links, ends: _Ends) -> _Steps:
    """Go from the last record of each flow back to its first, all flows at once."""
    steps: list[tuple[Longs, Longs, Longs, Longs]] = []
    left = np.bincount(records.flow)  # no way is longer than that
    flow, now = np.arange(len(ends.last)), ends.last
    while len(flow):
        before = links.parent[now]
        left[flow] -= 1
        is_stuck = (before == NONE) | (left[flow] <= 0)
        stage = np.where(is_stuck, UNSEEN, links.stage[now])
        before = np.where(is_stuck, ends.root[flow], before)
        moves = now != ends.root[flow]
        steps.append((flow[moves], stage[moves], before[moves], now[moves]))
        goes_on = moves & ~is_stuck
        flow, now = flow[goes_on], before[goes_on]
    columns = [np.concatenate(column) for column in zip(*reversed(steps), strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return _Steps(*(column[order] for column in columns))


def _columns_of(rows: pa.Table, records: Records, bounds: Bounds) -> list[pa.Array]:
    links, begins = link(records)
    ends = _ends(records, links, begins)
    steps = _walk(records, links, ends)
    count = len(ends.root)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(steps.flow, minlength=count))))
    # What runs is the message that was handled; everything else happens to the message that moves.
    runs = np.isin(steps.stage, [STAGES.index("run")])
    stages = pa.StructArray.from_arrays(
        [
            pa.array(STAGES).take(pa.array(steps.stage)),
            picked(rows, "node", steps.end),
            picked(rows, "identity", np.where(runs, steps.start, steps.end)),
            pa.array(records.ts[steps.end] - records.ts[steps.start]),
        ],
        fields=list(STAGE),
    )
    depth = np.zeros(count, np.int64)
    np.maximum.at(depth, records.flow, depths(records, links))
    return [
        picked(rows, "flow_id", np.flatnonzero(starts_of(records.flow))),
        pa.array(ends.has_root),
        pa.array(records.ts[ends.root]),
        pa.array(records.ts[ends.last]),
        picked(rows, "node", np.where(ends.has_root, ends.root, NONE)),
        picked(rows, "identity", ends.root),
        pa.array(_nodes(records)),
        pa.array(depth.astype(np.int32)),
        _skew_bound(bounds.of(rows, steps.end[steps.stage == TRANSIT]), records, ends, steps),
        pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), stages),
    ]


def _nodes(records: Records) -> Longs:
    known = np.unique(records.on_node[records.node != 0], return_index=True)[1]
    return np.bincount(records.flow[records.node != 0][known], minlength=int(records.flow[-1]) + 1)


def _skew_bound(bound_of: pa.Array, records: Records, ends: _Ends, steps: _Steps) -> pa.Array:
    """Add up what is not known of the clocks between both ends; none where it is not known at all."""
    count = len(ends.root)
    crosses = steps.stage == TRANSIT
    is_known = ~crosses
    is_known[crosses] = bound_of.is_valid().to_numpy(zero_copy_only=False)
    # What nobody saw may have happened on the way between two clocks.
    is_known &= (steps.stage != UNSEEN) | (records.node[steps.start] == records.node[steps.end])
    bound = np.zeros(count, np.int64)
    np.add.at(bound, steps.flow[crosses], bound_of.fill_null(0).to_numpy())
    unknown = np.bincount(steps.flow[~is_known], minlength=count) > 0
    is_one_clock = records.node[ends.root] == records.node[ends.last]
    return pa.array(np.where(is_one_clock, 0, bound), mask=unknown & ~is_one_clock)
