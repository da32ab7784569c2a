"""Walks whole flows in Arrow batches: what `mapInArrow` runs over records that are sorted by flow.

Theory of operation
-------------------
Spark hands over the records of a partition sorted by flow, and by the order inside it, in batches that end anywhere.
The records of the last flow of a batch are kept until the next batch shows that the flow is over. Of a flow with more
than `FLOW_DETAIL_LIMIT` records only the first ones are kept, and of the others those that the result depends on: one
of each node, the last, and the first answer of each callback. So memory is bounded by the batch and the limit, however
large a flow is.

Whether a flow was begun by a handler of another flow cannot be seen inside it: a submission whose cause is not there
either has it in another flow, or lost it. Where nothing else shows how a flow began, both answers are given, one row
each, and whoever can look at all flows (`hopline.pipeline.tables.nesting`) chooses between them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from hopline.pipeline.paths.arrays import (
    NONE,
    Flags,
    Longs,
    codes,
    flags,
    group_starts,
    groups_of,
    is_set,
    longs,
    numbered,
    order_of,
    picked,
    starts_of,
)
from hopline.pipeline.paths.causality import EVENTS, SUBMITTED, Records, beside
from hopline.pipeline.paths.critical_path import STAGE, Paths, paths

FLOW_DETAIL_LIMIT = 1_000
_REJECTED = EVENTS.index("rejected") + 1

COLUMNS = (
    *("flow_id", "ts_us", "seq", "node", "peer", "event_number", "local_receiver", "cause", "message_id"),
    *("fingerprint", "trail", "callback_id", "identity", "may_begin", "is_from_waiting", "is_answer", "is_receipt"),
    *("is_receipt_enough", "is_offence", "skew_us", "skew_bound_us", "handler_name"),
    *("request_id", "attempt"),
)
"""What is needed of each record."""

PATHS = pa.schema(
    [
        ("flow_id", pa.string()),
        ("is_assumed", pa.bool_()),
        ("root_cause", pa.int64()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("origin", pa.string()),
        ("identity", pa.string()),
        ("nodes", pa.int64()),
        ("depth", pa.int32()),
        ("skew_us", pa.int64()),
        ("skew_bound_us", pa.int64()),
        ("critical_path", pa.list_(STAGE)),
        ("began_seq", pa.list_(pa.int64())),
        ("began_us", pa.list_(pa.int64())),
    ]
)
"""One row a flow; its `origin` is null where no record shows how it began.

A flow has a second row, which `is_assumed`, where it may have been sent by a handler of another flow: `root_cause` is
then the number of the record that would have to be a delivery of that flow. It is also set where the flow was begun by
a hub inside a handler, which is certain. `began_seq` and `began_us` are of the records that the stages begin with.
"""


def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the path of each flow of a partition.

    Args:
        batches: Records with `COLUMNS`, sorted by flow and by the order inside it.

    Returns:
        Batches with the columns of `PATHS`.
    """
    kept: pa.Table | None = None
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        if kept is not None:
            rows = pa.concat_tables([kept, rows])
        rows = rows.combine_chunks()
        if not len(rows):
            continue
        starts = np.flatnonzero(_starts_of_flows(rows))
        begin_of_last = int(starts[-1])
        if begin_of_last:
            whole_flows = rows.slice(0, begin_of_last).combine_chunks()
            yield from _paths(whole_flows).to_batches()
        last_flow = rows.slice(begin_of_last).combine_chunks()
        kept = capped(last_flow)
    if kept is not None:
        yield from _paths(kept).to_batches()


def _starts_of_flows(rows: pa.Table) -> Flags:
    (flow,) = codes(rows, "flow_id")
    return starts_of(flow)


def capped(rows: pa.Table) -> pa.Table:
    """Return the first records of each flow, and of the others those that the result depends on.

    Doing it again with more records behind gives the same as doing it once with all of them.
    """
    starts = _starts_of_flows(rows)
    place_in_flow = np.arange(len(rows)) - group_starts(starts)
    is_kept = place_in_flow < FLOW_DETAIL_LIMIT
    if is_kept.all():
        return rows
    flow = groups_of(starts)
    others = np.flatnonzero(~is_kept & ~flags(rows, "is_offence"))
    answers = others[flags(rows, "is_answer")[others]]
    time = longs(rows, "ts_us")
    latest_first = order_of(-time[others])
    earliest_first = order_of(time[answers])
    (node,) = codes(rows, "node")
    any_group = np.zeros(len(rows), np.int64)
    callback = longs(rows, "callback_id")
    _keep_first(is_kept, flow, node, others)
    _keep_first(is_kept, flow, any_group, others[latest_first])
    _keep_first(is_kept, flow, callback, answers[earliest_first])
    return rows.filter(pa.array(is_kept)).combine_chunks()


def _keep_first(is_kept: Flags, flow: Longs, group: Longs, candidates: Longs) -> None:
    """Mark the first candidate of each flow and group, in the order in which they are given."""
    ordered = candidates[order_of(flow[candidates], group[candidates])]
    is_first = starts_of(flow[ordered], group[ordered])
    is_kept[ordered[is_first]] = True


def _without_offences(rows: pa.Table) -> pa.Table:
    """Leave out what is none of the flow's: what was forged or sent again, and the notes that it was rejected."""
    is_offence = flags(rows, "is_offence").copy()
    if not is_offence.any():
        return rows
    is_rejected = longs(rows, "event_number") == _REJECTED
    suspects = np.flatnonzero(is_offence | is_rejected)
    flow, node = codes(rows, "flow_id")[0], codes(rows, "node")[0]
    same_bytes = (flow[suspects], longs(rows, "fingerprint")[suspects], node[suspects])
    is_about_one = beside(same_bytes, is_offence[suspects])
    is_offence[suspects] |= is_rejected[suspects] & is_about_one
    return rows.filter(pa.array(~is_offence)).combine_chunks()


def _paths(rows: pa.Table) -> pa.Table:
    rows = _without_offences(capped(rows))
    if not len(rows):
        return PATHS.empty_table()
    records = _records_of(rows)
    found = paths(rows, records)
    table = _table_of(rows, records, found, is_assumed=False)
    if not found.may_be_sent.any():
        return table
    may_be_sent = found.may_be_sent[records.flow]
    rows = rows.filter(pa.array(may_be_sent)).combine_chunks()
    records = _records_of(rows)
    if_sent = paths(rows, records, is_sent=True)
    assumed = _table_of(rows, records, if_sent, is_assumed=True)
    return pa.concat_tables([table, assumed])


def _table_of(rows: pa.Table, records: Records, found: Paths, *, is_assumed: bool) -> pa.Table:
    first = np.flatnonzero(starts_of(records.flow))
    origin = np.where(found.has_root, found.root, NONE)
    is_submitted = records.event[found.root] == SUBMITTED
    submission = np.where(is_submitted, origin, NONE)
    return pa.table(
        [
            picked(rows, "flow_id", first),
            pa.repeat(is_assumed, len(first)),
            picked(rows, "cause", submission),
            records.ts[found.root],
            records.ts[found.last],
            picked(rows, "node", origin),
            picked(rows, "identity", found.root),
            _node_counts(records),
            pa.array(found.depth, pa.int32()),
            found.skew_us,
            found.skew_bound_us,
            found.stages,
            found.began_seq,
            found.began_us,
        ],
        schema=PATHS,
    )


def _records_of(rows: pa.Table) -> Records:
    node, peer = codes(rows, "node", "peer")
    return Records(
        flow=groups_of(_starts_of_flows(rows)),
        ts=longs(rows, "ts_us"),
        seq=longs(rows, "seq"),
        node=node,
        peer=peer,
        event=longs(rows, "event_number"),
        receiver=codes(rows, "local_receiver")[0],
        cause=longs(rows, "cause"),
        has_cause=is_set(rows, "cause"),
        message=numbered(longs(rows, "message_id")),
        fingerprint=numbered(longs(rows, "fingerprint")),
        trail=longs(rows, "trail"),
        ask=longs(rows, "callback_id"),
        attempt=longs(rows, "attempt", null=1),
        request=longs(rows, "request_id"),
        may_begin=flags(rows, "may_begin"),
        is_from_waiting=flags(rows, "is_from_waiting"),
        is_answer=flags(rows, "is_answer"),
        is_receipt=flags(rows, "is_receipt"),
        is_receipt_enough=flags(rows, "is_receipt_enough"),
    )


def _node_counts(records: Records) -> Longs:
    is_named = records.node != 0
    flow = records.flow[is_named]
    _, first = np.unique(records.on_node[is_named], return_index=True)
    flows = int(records.flow[-1]) + 1
    return np.bincount(flow[first], minlength=flows)
