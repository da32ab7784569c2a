"""Each request that named callback points, and its first answer, in arrays. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.message import EXCEPTION
from hopline.pipeline.tables.clocks import Watched
from hopline.pipeline.traces.arrays import NONE, codes, groups_of, longs, names, order_of, picked, starts_of
from hopline.pipeline.traces.columns import (
    ANSWER,
    EXPIRED,
    IS_RECEIPT,
    KIND,
    RECEIPT_ENOUGH,
    RECEIVED,
    RESOLVED,
    Flags,
    Longs,
)
from hopline.pipeline.traces.replays import JUDGED_BY, is_offence

_NODES = ("node", "peer", "callback_receiver_node")
ASKED_BY = (
    *("event", "ask", "rank", "trail", "peer", "callback_receiver_node", "ttl_us"),
    *(*KIND, *JUDGED_BY),
)
"""The columns by which requests and answers are found."""

OUTCOMES = ("answered", "exception", "late", "expired", "unanswered")
ANSWERED, BY_EXCEPTION, LATE, IN_VAIN, UNANSWERED = range(5)
_EXCEPTION = EXCEPTION.identity.decode()


def matters(rows: pa.Table) -> Flags:
    """Tell the records that may be a request, or what became of it."""
    is_asked = longs(rows, "rank") > 0
    kept: Flags = is_asked | (longs(rows, "flags") & ANSWER != 0) | (longs(rows, "event") == EXPIRED)
    return kept


class _Said:
    """What the rows say, of which only the first of each kind counts."""

    def __init__(self, rows: pa.Table) -> None:
        self.ask, self.event, self.flags = longs(rows, "ask"), longs(rows, "event"), longs(rows, "flags")
        self.node, self.peer, self.home = codes(rows, *_NODES)
        self._ts, self._seq = longs(rows, "ts", NONE), longs(rows, "seq", NONE)
        self._rank, self._trail = longs(rows, "rank"), longs(rows, "trail")
        self._kind = tuple(codes(rows, name)[0] for name in KIND)
        self.is_answer: Flags = self.flags & ANSWER != 0
        self.is_taken: Flags = self.is_answer & (self.event == RESOLVED)
        self.is_receipt: Flags = self.flags & IS_RECEIPT != 0
        self.is_expired: Flags = self.event == EXPIRED

    def requests(self) -> Longs:
        """Give the request of each one who waits, as the first who saw it recorded it."""
        seq_at_home = np.where(self.node == self.home, self._seq, NONE)
        order = (self._rank, self._trail, seq_at_home, self._ts, self.node, self._seq)
        return _first_of(self._rank > 0, (self.ask,), order)

    def answers(self, wanted: Flags, *groups: Longs) -> Longs:
        """Give the first answer in each group."""
        return _first_of(wanted & self.is_answer, (self.ask, *groups), (self._ts, self._seq, *self._kind))


def _first_of(wanted: Flags, groups: tuple[Longs, ...], order: tuple[Longs, ...]) -> Longs:
    """Give the first wanted row of each group."""
    rows = np.flatnonzero(wanted)
    rows = rows[order_of(*(key[rows] for key in (*groups, *order)))]
    return rows[starts_of(*(key[rows] for key in groups))]


def firsts(rows: pa.Table) -> pa.Table:
    """Leave out what is neither the first request nor a first answer: all messages of a flow may carry one callback."""
    rows = rows.filter(pa.array(~is_offence(rows))).combine_chunks()
    said = _Said(rows)
    kept = (
        said.requests(),
        said.answers(np.ones(len(rows), np.bool_), said.node, said.is_receipt.astype(np.int64)),
        said.answers(said.is_taken, said.node, said.is_receipt.astype(np.int64)),
        _first_of(said.is_expired, (said.ask,), ()),
    )
    return rows.take(pa.array(np.unique(np.concatenate(kept)))).combine_chunks()


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests that named callback points, each with its first answer: the rows that tell of them."""

    rows: pa.Table
    request: Longs
    answer: Longs  # or none
    names: list[str | None]  # of nodes
    waits_at: Longs  # the node
    is_from_home: Flags  # what another node saw of the request has another clock
    latency_us: Longs  # where there is an answer
    outcome: Longs  # a place in `OUTCOMES`


def asked(rows: pa.Table, watched: Watched) -> Asked:
    """Find the request of each one who waits, as far as it was seen, the first answer that came, and how it ended.

    There is nothing that was forged or replayed among the rows.
    """
    rows = rows.take(pa.array(np.argsort(longs(rows, "ask"), kind="stable"))).combine_chunks()
    said = _Said(rows)
    starts = starts_of(said.ask)
    group, count = groups_of(starts), int(np.count_nonzero(starts))
    request, answer = np.full(count, NONE), np.full(count, NONE)
    found = said.requests()
    request[group[found]] = found
    # Where the format does not say which node waits, only the request does.
    nodes = names(rows, *_NODES)
    is_nameless = said.home == nodes.index("") if "" in nodes else np.zeros(len(rows), np.bool_)
    event, node = said.event, said.node
    waits_at = np.where(is_nameless, np.where(event == RECEIVED, said.peer, node), said.home)[request]
    is_enough = said.flags[request] & RECEIPT_ENOUGH != 0
    comes = (node == waits_at[group]) & (node != 0) & (~said.is_receipt | is_enough[group])
    found = said.answers(comes)
    answer[group[found]] = found
    is_expired = np.bincount(group[said.is_expired], minlength=count) > 0
    is_taken = np.bincount(group[comes & said.is_taken], minlength=count) > 0
    known = np.flatnonzero(request != NONE)
    request, answer, waits_at = request[known], answer[known], waits_at[known]
    is_expired, is_taken = is_expired[known], is_taken[known]
    ts, ttl, has_answer = longs(rows, "ts", NONE), longs(rows, "ttl_us")[request], answer != NONE
    # Without a time, nothing is late.
    is_from_home = (node[request] == waits_at) & (ts[request] != NONE)
    latency = ts[answer] - ts[request]
    has_limit = (ttl > 0) & is_from_home
    watched_us = np.maximum(watched.until(nodes)[waits_at], ts[request]) - ts[request]
    is_exception = pc.fill_null(pc.equal(picked(rows, "identity", answer), _EXCEPTION), False)
    outcome = np.select(
        [
            # What a promise took was not late, whatever the clock said.
            has_limit & has_answer & (ts[answer] != NONE) & (latency > ttl) & ~is_taken,
            is_exception.to_numpy(zero_copy_only=False),
            has_answer,
            is_expired | (has_limit & (watched_us > ttl)),
        ],
        [LATE, BY_EXCEPTION, ANSWERED, IN_VAIN],
        UNANSWERED,
    )
    return Asked(rows, request, answer, nodes, waits_at, is_from_home, latency, outcome)
