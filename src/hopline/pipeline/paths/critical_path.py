"""The critical path of flows: from the last event back to the first, all flows at once. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hopline.pipeline.paths.arrays import NONE, Flags, Longs, is_set, longs, order_of, picked, starts_of
from hopline.pipeline.paths.causality import RUN, STAGES, TRANSIT, UNSEEN, Links, Records, depths, link

STAGE = pa.struct(
    [
        ("stage", pa.string()),
        ("node", pa.string()),
        ("identity", pa.string()),
        ("us", pa.int64()),
        ("handler", pa.string()),
        ("flow_id", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Paths:
    """Of each flow its first and its last record, and what lies between them."""

    root: Longs
    has_root: Flags  # the first record is how it began
    may_be_sent: Flags  # it has no root, unless the cause of a submission lies in another flow
    last: Longs
    depth: Longs
    skew_us: pa.Array
    skew_bound_us: pa.Array
    stages: pa.ListArray
    began_seq: pa.ListArray  # the record that each stage begins with
    began_us: pa.ListArray


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
    leaves = leaves[order_of(records.ts[leaves])]
    last[records.flow[leaves]] = leaves
    last = np.where(last == NONE, root, last)  # only where all records follow each other in a circle
    asked = root[records.flow]
    is_home = records.is_answer & has_root[records.flow] & (records.ask == records.ask[asked]) & (records.ask != 0)
    is_home &= (records.node == records.node[asked]) & (~records.is_receipt | records.is_receipt_enough[asked])
    answers = np.flatnonzero(is_home)
    answers = answers[order_of(records.ts[answers], records.seq[answers])][::-1]
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


def paths(rows: pa.Table, records: Records, *, is_sent: bool = False) -> Paths:
    """Return the critical path of each flow.

    Args:
        rows: The records as a table, with the columns of `hopline.pipeline.paths.walk.COLUMNS`.
        records: The same as arrays.
        is_sent: Whether flows that do not show how they began are taken for sent by a handler of another flow.
    """
    links = link(records)
    ends = _ends(records, links, links.begins_if_sent if is_sent else links.begins)
    steps = _walk(records, links, ends)
    count = len(ends.root)
    offsets = pa.array(np.concatenate(([0], np.cumsum(np.bincount(steps.flow, minlength=count)))), pa.int32())
    # What runs is the message that was handled; everything else happens to the message that moves.
    moved = np.where(steps.stage == RUN, steps.start, steps.end)
    stages = pa.StructArray.from_arrays(
        [
            pa.array(STAGES).take(pa.array(steps.stage)),
            picked(rows, "node", steps.end),
            picked(rows, "identity", moved),
            pa.array(records.ts[steps.end] - records.ts[steps.start]),
            picked(rows, "handler_name", moved),
            pa.nulls(len(moved), pa.string()),
        ],
        fields=list(STAGE),
    )
    depth = np.zeros(count, np.int64)
    np.maximum.at(depth, records.flow, depths(records, links))
    may_be_sent = np.zeros(count, np.bool_)
    may_be_sent[records.flow[links.begins_if_sent]] = True
    return Paths(
        ends.root,
        ends.has_root,
        may_be_sent & ~ends.has_root,
        ends.last,
        depth,
        *_skew(rows, records, ends, steps),
        pa.ListArray.from_arrays(offsets, stages),
        pa.ListArray.from_arrays(offsets, pa.array(records.seq[steps.start])),
        pa.ListArray.from_arrays(offsets, pa.array(records.ts[steps.start])),
    )


def _skew(rows: pa.Table, records: Records, ends: _Ends, steps: _Steps) -> tuple[pa.Array, pa.Array]:
    """Return the skew between the clocks of both ends, and its bound: the sums over the transits on the path."""
    count = len(ends.root)
    crosses = steps.stage == TRANSIT
    arrival = steps.end[crosses]
    is_known = ~crosses
    is_known[crosses] = is_set(rows, "skew_us")[arrival]
    # What was not seen may have happened on the way between two clocks.
    is_known &= (steps.stage != UNSEEN) | (records.node[steps.start] == records.node[steps.end])
    is_one_clock = records.node[ends.root] == records.node[ends.last]
    is_unknown = (np.bincount(steps.flow[~is_known], minlength=count) > 0) & ~is_one_clock

    def sum_of(column: str) -> pa.Array:
        by_flow = np.zeros(count, np.int64)
        np.add.at(by_flow, steps.flow[crosses], longs(rows, column)[arrival])
        return pa.array(np.where(is_one_clock, 0, by_flow), mask=is_unknown)

    return sum_of("skew_us"), sum_of("skew_bound_us")
