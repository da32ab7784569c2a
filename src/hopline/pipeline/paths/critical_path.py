"""The critical path of flows: from the last event back to the first, all flows at once. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hopline.pipeline.paths.arrays import NONE, Flags, Longs, is_set, longs, order_of, picked, starts_of
from hopline.pipeline.paths.causality import RETRY, RUN, STAGES, TRANSIT, UNSEEN, Links, Records, depths, link

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
    root = np.flatnonzero(starts_of(records.flow))  # where nothing shows how a flow began, its first record
    has_root = np.zeros(len(root), np.bool_)
    beginnings = np.flatnonzero(begins)
    _put_first(root, records.flow, beginnings)
    has_root[records.flow[beginnings]] = True
    last = np.full(len(root), NONE)
    leaves = _leaves(links)
    latest_first = order_of(records.ts[leaves])[::-1]
    _put_first(last, records.flow, leaves[latest_first])
    last = np.where(last == NONE, root, last)  # only where all records follow each other in a circle
    answers = _answers(records, _last_attempts(records, root), has_root)
    earliest_first = order_of(records.ts[answers], records.seq[answers])
    _put_first(last, records.flow, answers[earliest_first])
    return _Ends(root, has_root, last)


def _put_first(by_flow: Longs, flow: Longs, candidates: Longs) -> None:
    """Put the first of the candidates of each flow into an array with a place for each flow."""
    backwards = candidates[::-1]  # the first one is put last, and stays
    by_flow[flow[backwards]] = backwards


def _leaves(links: Links) -> Longs:
    """Return the records that no other follows."""
    is_leaf = np.ones(len(links.parent), np.bool_)
    has_parent = links.parent != NONE
    is_leaf[links.parent[has_parent]] = False
    return np.flatnonzero(is_leaf)


def _last_attempts(records: Records, root: Longs) -> Longs:
    """Return for each flow a record of the request that it began with: of its last attempt, where it has several."""
    last = root.copy()
    again = np.flatnonzero(_asks_again(records, root))
    latest_first = order_of(records.attempt[again], records.seq[again])[::-1]
    _put_first(last, records.flow, again[latest_first])
    return last


def _asks_again(records: Records, root: Longs) -> Flags:
    """Return the records of further attempts of the request that a flow began with, on the node where it began."""
    first = root[records.flow]
    is_same_request = (records.request != 0) & (records.request == records.request[first])
    is_same_node = records.node == records.node[first]
    asks_again: Flags = (records.attempt > 1) & is_same_request & is_same_node
    return asks_again


def _answers(records: Records, requests: Longs, has_root: Flags) -> Longs:
    """Return the records that show how a flow's own request was answered where it began."""
    request = requests[records.flow]
    is_same_callback = (records.ask != 0) & (records.ask == records.ask[request])
    is_same_node = records.node == records.node[request]
    is_enough = ~records.is_receipt | records.is_receipt_enough[request]
    is_home = is_same_callback & is_same_node & is_enough
    return np.flatnonzero(records.is_answer & has_root[records.flow] & is_home)


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
    not_linked = np.where(_asks_again(records, ends.root), RETRY, UNSEEN)
    flow, now = np.arange(len(ends.last)), ends.last
    while len(flow):
        parent = links.parent[now]
        root = ends.root[flow]
        left[flow] -= 1
        is_stuck = (parent == NONE) | (left[flow] <= 0)
        stage = np.where(is_stuck, not_linked[now], links.stage[now])
        before = np.where(is_stuck, root, parent)
        moves = now != root
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
    begins = links.begins_if_sent if is_sent else links.begins
    ends = _ends(records, links, begins)
    steps = _walk(records, links, ends)
    count = len(ends.root)
    depth = np.zeros(count, np.int64)
    np.maximum.at(depth, records.flow, depths(records, links))
    may_be_sent = np.zeros(count, np.bool_)
    may_be_sent[records.flow[links.begins_if_sent]] = True
    skew_us, skew_bound_us = _skew(rows, records, ends, steps)
    steps_by_flow = np.bincount(steps.flow, minlength=count)
    ends_of_flows = np.cumsum(steps_by_flow)
    offsets = pa.array(np.concatenate(([0], ends_of_flows)), pa.int32())

    def by_flow(values: pa.Array) -> pa.ListArray:
        return pa.ListArray.from_arrays(offsets, values)

    return Paths(
        root=ends.root,
        has_root=ends.has_root,
        may_be_sent=may_be_sent & ~ends.has_root,
        last=ends.last,
        depth=depth,
        skew_us=skew_us,
        skew_bound_us=skew_bound_us,
        stages=by_flow(_stages(rows, records, steps)),
        began_seq=by_flow(pa.array(records.seq[steps.start])),
        began_us=by_flow(pa.array(records.ts[steps.start])),
    )


def _stages(rows: pa.Table, records: Records, steps: _Steps) -> pa.StructArray:
    """Return the steps of all paths as rows of `STAGE`."""
    # What runs is the message that was handled; everything else happens to the message that moves.
    moved = np.where(steps.stage == RUN, steps.start, steps.end)
    us = records.ts[steps.end] - records.ts[steps.start]
    columns = [
        pa.array(STAGES).take(pa.array(steps.stage)),
        picked(rows, "node", steps.end),
        picked(rows, "identity", moved),
        pa.array(us),
        picked(rows, "handler_name", moved),
        pa.nulls(len(moved), pa.string()),  # the flow, which only a journey needs
    ]
    return pa.StructArray.from_arrays(columns, fields=list(STAGE))


def _skew(rows: pa.Table, records: Records, ends: _Ends, steps: _Steps) -> tuple[pa.Array, pa.Array]:
    """Return the skew between the clocks of both ends, and its bound: the sums over the transits on the path."""
    count = len(ends.root)
    crosses = steps.stage == TRANSIT
    arrival = steps.end[crosses]
    is_known = ~crosses
    is_known[crosses] = is_set(rows, "skew_us")[arrival]
    # What was not seen may have happened on the way between two clocks.
    is_seen = steps.stage != UNSEEN
    stays = records.node[steps.start] == records.node[steps.end]
    is_known &= is_seen | stays
    is_one_clock = records.node[ends.root] == records.node[ends.last]
    unknown_steps = np.bincount(steps.flow[~is_known], minlength=count)
    is_unknown = (unknown_steps > 0) & ~is_one_clock

    def sum_of(column: str) -> pa.Array:
        skews = longs(rows, column)[arrival]
        sums = np.zeros(count, np.int64)
        np.add.at(sums, steps.flow[crosses], skews)
        return pa.array(np.where(is_one_clock, 0, sums), mask=is_unknown)

    return sum_of("skew_us"), sum_of("skew_bound_us")
