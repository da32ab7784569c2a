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


class _Said:
    """What the rows say, of which only the first of each kind counts."""

    def __init__(self, rows: pa.Table) -> None:
        self.ask, self.event, self.flags = longs(rows, "ask"), longs(rows, "event"), longs(rows, "flags")
        self.node, self.peer, self.home = codes(rows, "node", "peer", "callback_receiver_node")
        self._ts, self._seq = longs(rows, "ts", NONE), longs(rows, "seq", NONE)
        self._rank, self._trail = longs(rows, "rank"), longs(rows, "trail")
        self._kind = tuple(codes(rows, name)[0] for name in _KIND)
        self.is_answer: Flags = self.flags & ANSWER != 0
        self.is_receipt: Flags = self.flags & IS_RECEIPT != 0
        self.is_expired: Flags = self.event == EXPIRED

    def requests(self) -> Longs:
        """Give the request of each one who waits, as the first who saw it recorded it."""
        seq_at_home = np.where(self.node == self.home, self._seq, NONE)
        order = (self._rank, self._trail, seq_at_home, self._ts, self.node, self._seq)
        return _firsts(self._rank > 0, (self.ask,), order)

    def answers(self, wanted: Flags, *groups: Longs) -> Longs:
        """Give the first answer in each group."""
        return _firsts(wanted & self.is_answer, (self.ask, *groups), (self._ts, self._seq, *self._kind))


def _firsts(wanted: Flags, groups: tuple[Longs, ...], order: tuple[Longs, ...]) -> Longs:
    """Give the first wanted row of each group."""
    rows = np.flatnonzero(wanted)
    rows = rows[np.lexsort(tuple(key[rows] for key in reversed((*groups, *order))))]
    return rows[starts_of(*(key[rows] for key in groups))]


def _shrunk(rows: pa.Table) -> pa.Table:
    """Leave out what is neither the first request nor a first answer: all messages of a flow may carry one callback."""
    rows = rows.filter(pa.array(~is_offence(rows))).combine_chunks()
    said = _Said(rows)
    kept = (
        said.requests(),
        said.answers(np.ones(len(rows), np.bool_), said.node, said.is_receipt.astype(np.int64)),
        _firsts(said.is_expired, (said.ask,), ()),
    )
    return rows.take(pa.array(np.unique(np.concatenate(kept)))).combine_chunks()


def _asked(rows: pa.Table) -> pa.Table:
    """Find the request of each one who waits, as far as it was seen, and the first answer that came to him."""
    rows = rows.filter(pa.array(~is_offence(rows)))
    rows = rows.take(pa.array(np.argsort(longs(rows, "ask"), kind="stable"))).combine_chunks()
    said = _Said(rows)
    starts = starts_of(said.ask)
    group, count = groups_of(starts), int(np.count_nonzero(starts))
    request, answer = np.full(count, NONE), np.full(count, NONE)
    found = said.requests()
    request[group[found]] = found
    # Where the format does not say which node waits, only the request does.
    is_nameless = pc.equal(rows["callback_receiver_node"].cast(pa.string()), "").to_numpy()
    event, node = said.event, said.node
    waits_at = np.where(is_nameless, np.where(event == RECEIVED, said.peer, node), said.home)[request]
    is_enough = said.flags[request] & RECEIPT_ENOUGH != 0
    comes = (node == waits_at[group]) & (node != 0) & (~said.is_receipt | is_enough[group])
    found = said.answers(comes)
    answer[group[found]] = found
    is_expired = np.bincount(group[said.is_expired], minlength=count) > 0
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


ASKING = Kernel(
    columns=(
        *("flow_id", "event", "ask", "rank", "trail", "peer", "sender", "callback_receiver_node", "callback_receiver"),
        *("callback_key", "callbacks", "ttl_us", *_KIND, *JUDGED_BY),
    ),
    schema=ASKED,
    work=_asked,
    together="ask",
    keep=_keep,
    shrink=_shrunk,
)
