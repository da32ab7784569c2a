"""The critical path of flows: from the last event back to the first, in Arrow batches of records sorted by flow.

A flow's records are capped before anything else is done with them, so that no flow is too large to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.pipeline.tables.causality import (
    NONE,
    REJECTED,
    STAGES,
    TRANSIT,
    UNSEEN,
    Flags,
    Links,
    Longs,
    Records,
    beside,
    depths,
    link,
    starts_of,
)
from hopline.pipeline.tables.flow_totals import TOTALS, totals

FLOW_DETAIL_LIMIT = 1_000
ROWS_AT_ONCE = 50_000

# What is small is one number, as each column costs time on its way: a record's event, its flags and its trail.
EVENT_BITS, TRAIL_SHIFT = 4, 10
MAY_BEGIN, FROM_WAITING, ANSWER, IS_RECEIPT, RECEIPT_ENOUGH, OFFENCE = (1 << bit for bit in range(4, 10))

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


def paths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give a row for each flow. The records come sorted by flow, and by the order inside it."""
    open_flow: pa.Table | None = None  # whose end may be in the next batch
    for gathered in _gathered(batches):
        rows = _capped(pa.concat_tables([gathered] if open_flow is None else [open_flow, gathered]).combine_chunks())
        begin = _starts(rows)[-1] if len(rows) else 0
        if begin:
            yield from _paths(rows.slice(0, begin))
        open_flow = rows.slice(begin)
    if open_flow is not None and len(open_flow):
        yield from _paths(open_flow)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Put small batches together: there are some hundred steps to take for each."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= ROWS_AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _starts(rows: pa.Table) -> Longs:
    flow = rows["flow_id"]
    changes = pc.not_equal(flow.slice(1), flow.slice(0, len(rows) - 1)).to_numpy()
    return np.flatnonzero(np.concatenate(([True], changes)))


def _long(rows: pa.Table, name: str) -> Longs:
    found: Longs = pc.fill_null(rows[name], 0).to_numpy().astype(np.int64)
    return found


def _capped(rows: pa.Table) -> pa.Table:
    """Keep the first records of each flow, and of the others what tells its nodes, its first answers and its last one.

    To do so again, with more records behind, makes no difference to doing it once with all of them.
    """
    starts = _starts(rows)
    sizes = np.diff(np.append(starts, len(rows)))
    if sizes.max(initial=0) <= FLOW_DETAIL_LIMIT:
        return rows
    flow = np.repeat(np.arange(len(starts)), sizes)
    keep = np.arange(len(rows)) - starts[flow] < FLOW_DETAIL_LIMIT
    facts, ts = _long(rows, "facts"), _long(rows, "ts_us")
    others = np.flatnonzero(~keep & (facts & OFFENCE == 0))
    answers = others[facts[others] & ANSWER != 0]
    asks = _long(rows, "ask")
    node, _ = _nodes_of(rows)
    for chosen, group, order in (
        (others, node, np.zeros(len(others), np.int64)),
        (others, np.zeros(len(rows), np.int64), -ts[others]),
        (answers, asks, ts[answers]),
    ):
        sort = np.lexsort((chosen, order, group[chosen], flow[chosen]))
        first = chosen[sort][starts_of(flow[chosen][sort], group[chosen][sort])]
        keep[first] = True
    return rows.filter(pa.array(keep))


def _paths(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    records = _records(rows)
    is_whole = np.bincount(records.flow) <= FLOW_DETAIL_LIMIT
    kept = ~_left_out(rows, records)
    if not kept.all():
        rows = rows.filter(pa.array(kept)).combine_chunks()
        if not len(rows):
            return
        is_whole = is_whole[np.unique(records.flow[kept])]
        records = _records(rows)
    counted = totals(records, _long(rows, "hops"), _long(rows, "bytes"))
    yield pa.RecordBatch.from_arrays(
        [*_columns_of(rows, records), *(pa.array(column, mask=~is_whole) for column in counted)], schema=PATHS
    )


def _nodes_of(rows: pa.Table) -> tuple[Longs, Longs]:
    """Give nodes and peers numbers, from 1; 0 is none."""
    both = pa.chunked_array([*rows["node"].chunks, *rows["peer"].chunks], pa.string()).combine_chunks()
    numbers: Longs = pc.fill_null(both.dictionary_encode().indices, NONE).to_numpy().astype(np.int64) + 1
    return numbers[: len(rows)], numbers[len(rows) :]


def _records(rows: pa.Table) -> Records:
    starts = _starts(rows)
    facts = _long(rows, "facts")
    node, peer = _nodes_of(rows)
    return Records(
        flow=np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows)))),
        ts=_long(rows, "ts_us"),
        seq=_long(rows, "seq"),
        node=node,
        peer=peer,
        event=facts & ((1 << EVENT_BITS) - 1),
        receiver=_long(rows, "receiver_key"),
        cause=_long(rows, "cause"),
        has_cause=pc.is_valid(rows["cause"]).to_numpy(),
        message=_long(rows, "message_id"),
        fingerprint=_long(rows, "fingerprint"),
        trail=facts >> TRAIL_SHIFT,
        ask=_long(rows, "ask"),
        may_begin=facts & MAY_BEGIN != 0,
        is_from_waiting=facts & FROM_WAITING != 0,
        is_answer=facts & ANSWER != 0,
        is_receipt=facts & IS_RECEIPT != 0,
        is_receipt_enough=facts & RECEIPT_ENOUGH != 0,
    )


def _left_out(rows: pa.Table, records: Records) -> Flags:
    """Mark what is none of the flow's: what was forged or replayed, and that it was rejected."""
    offence: Flags = _long(rows, "facts") & OFFENCE != 0
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


def _columns_of(rows: pa.Table, records: Records) -> list[pa.Array]:
    links, begins = link(records)
    ends = _ends(records, links, begins)
    steps = _walk(records, links, ends)
    count = len(ends.root)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(steps.flow, minlength=count))))
    node, identity = rows["node"].combine_chunks(), rows["identity"].combine_chunks()
    # What runs is the message that was handled; everything else happens to the message that moves.
    runs = np.isin(steps.stage, [STAGES.index("run")])
    stages = pa.StructArray.from_arrays(
        [
            pa.array(STAGES).take(pa.array(steps.stage)),
            node.take(pa.array(steps.end)),
            identity.take(pa.array(np.where(runs, steps.start, steps.end))),
            pa.array(records.ts[steps.end] - records.ts[steps.start]),
        ],
        fields=list(STAGE),
    )
    depth = np.zeros(count, np.int64)
    np.maximum.at(depth, records.flow, depths(records, links))
    return [
        rows["flow_id"].combine_chunks().take(pa.array(np.flatnonzero(starts_of(records.flow)))),
        pa.array(ends.has_root),
        pa.array(records.ts[ends.root]),
        pa.array(records.ts[ends.last]),
        node.take(pa.array(ends.root, mask=~ends.has_root)),
        identity.take(pa.array(ends.root)),
        pa.array(_nodes(records)),
        pa.array(depth.astype(np.int32)),
        _skew_bound(rows, records, ends, steps),
        pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), stages),
    ]


def _nodes(records: Records) -> Longs:
    known = np.unique(records.on_node[records.node != 0], return_index=True)[1]
    return np.bincount(records.flow[records.node != 0][known], minlength=int(records.flow[-1]) + 1)


def _skew_bound(rows: pa.Table, records: Records, ends: _Ends, steps: _Steps) -> pa.Array:
    """Add up what is not known of the clocks between both ends; none where it is not known at all."""
    count = len(ends.root)
    crosses = steps.stage == TRANSIT
    is_known = ~crosses | pc.is_valid(rows["bound_us"]).to_numpy()[steps.end]
    # What nobody saw may have happened on the way between two clocks.
    is_known &= (steps.stage != UNSEEN) | (records.node[steps.start] == records.node[steps.end])
    bound = np.zeros(count, np.int64)
    np.add.at(bound, steps.flow, np.where(crosses, _long(rows, "bound_us")[steps.end], 0))
    unknown = np.bincount(steps.flow[~is_known], minlength=count) > 0
    is_one_clock = records.node[ends.root] == records.node[ends.last]
    return pa.array(np.where(is_one_clock, 0, bound), mask=unknown & ~is_one_clock)
