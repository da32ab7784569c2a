"""What came of what inside flows: which record each one follows, and the way back from the last to the first. Pure.

Everything here works on arrays that hold the records of many flows one after the other, in the order inside each flow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopline.capture.events import ENDINGS, Event
from hopline.pipeline.paths.arrays import NONE, Flags, Longs, order_of, starts_of

EVENTS = tuple(event.value for event in Event)
"""Events by number: that of the first is 1, no event is 0."""
SUBMITTED, SENT, RECEIVED, DELIVERED, HANDLED, RESOLVED = range(1, 7)
FIRST_ENDING = len(EVENTS) - len(ENDINGS) + 1

# What becomes of the time between a record and the one that it follows.
STAGES = ("send", "transit", "wait", "run", "unseen")
SEND, TRANSIT, WAIT, RUN, UNSEEN = range(5)


@dataclass(frozen=True, slots=True)
class Records:
    """Records of flows, a column each. Names are hashes, as only equality counts."""

    flow: Longs  # which flow, counted from 0
    ts: Longs
    seq: Longs
    node: Longs  # nodes are counted too, so that a flow and a node make one number; 0 is none
    peer: Longs
    event: Longs
    receiver: Longs
    cause: Longs
    has_cause: Flags
    message: Longs
    fingerprint: Longs
    trail: Longs
    ask: Longs  # the callback that somebody waits with, 0 for none
    may_begin: Flags
    is_from_waiting: Flags
    is_answer: Flags
    is_receipt: Flags
    is_receipt_enough: Flags

    def __len__(self) -> int:
        return len(self.flow)

    @property
    def on_node(self) -> Longs:
        """Return a number for each flow and node."""
        return self.flow * self._nodes + self.node

    def between(self, source: Longs, target: Longs) -> Longs:
        """Return a number for each flow and pair of nodes."""
        return (self.flow * self._nodes + source) * self._nodes + target

    @property
    def _nodes(self) -> int:
        return int(max(self.node.max(initial=0), self.peer.max(initial=0))) + 1


@dataclass(frozen=True, slots=True)
class Links:
    """For each record the one that it follows, or none, and what the time between them was spent on.

    A record that `begins` shows how its flow began. One that `begins_if_sent` does so if its cause lies in another
    flow: it was sent by the handler of a message of that flow. Otherwise its cause was lost from the capture.
    """

    parent: Longs
    stage: Longs
    begins: Flags
    begins_if_sent: Flags


@dataclass(frozen=True, slots=True)
class Sorted:
    """Records by group and number: sorted once, and asked many times what came before."""

    order: Longs
    starts: Longs  # of each one's group

    def latest_before(self, wanted: Flags) -> Longs:
        """Give, for each record, the wanted one with the highest number below its own in its group, or none."""
        if not len(self.order):
            return self.order
        last = np.maximum.accumulate(np.where(wanted[self.order], np.arange(len(self.order)), NONE))
        before = np.concatenate(([NONE], last[:-1]))
        found = np.empty(len(self.order), np.int64)
        found[self.order] = np.where(before >= self.starts, self.order[before], NONE)
        return found


def by_group(groups: tuple[Longs, ...], *numbers: Longs) -> Sorted:
    """Sort by group, and by number inside it, and by further numbers where these are the same."""
    order = order_of(*groups, *numbers)
    starts = starts_of(*(key[order] for key in groups))
    return Sorted(order, np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0)))


def beside(groups: tuple[Longs, ...], wanted: Flags) -> Flags:
    """Mark the records whose group has a wanted one."""
    order = order_of(*groups)
    group = np.cumsum(starts_of(*(key[order] for key in groups))) - 1
    found = np.zeros(len(order), np.bool_)
    found[order] = (np.bincount(group, wanted[order]) > 0)[group]
    return found


def crossings(records: Records) -> Longs:
    """Give, for each received, the sent of the same bytes: the first of the first, and so on; or none."""
    ends = np.flatnonzero((records.event == SENT) | (records.event == RECEIVED))
    is_received = records.event[ends] == RECEIVED
    node, peer = records.node, records.peer
    way = np.where(records.event == RECEIVED, records.between(peer, node), records.between(node, peer))[ends]
    keys = (way, records.fingerprint[ends])
    # The same bytes were sent on equally often: at one node they are in the order of time already.
    order = order_of(*keys, is_received)
    starts = starts_of(*(key[order] for key in keys))
    group = np.cumsum(starts) - 1
    first = np.flatnonzero(starts)
    sent = np.bincount(group, ~is_received[order], len(first)).astype(np.int64)
    nth = np.arange(len(order)) - first[group] - sent[group]  # of the received ones, from 0
    match = first[group] + np.minimum(nth, sent[group] - 1)
    is_matched = is_received[order] & (sent[group] > 0)
    found = np.full(len(records), NONE)
    found[ends[order[is_matched]]] = ends[order[match[is_matched]]]
    return found


@dataclass(frozen=True, slots=True)
class _OnNode:
    """What happened to a flow on a node before each record: its cause, what came last, and what happened last."""

    cause: Longs
    came: Longs
    happened: Longs


def _on_node(records: Records) -> _OnNode:
    event, count = records.event, len(records)
    asking = np.flatnonzero(records.has_cause)
    # A question for a cause is put just behind the number that it asks for.
    group = np.concatenate((records.on_node, records.on_node[asking]))
    seq = np.concatenate((records.seq * 2, records.cause[asking] * 2 + 1))
    ordered = by_group((group,), seq)

    def latest(wanted: Flags) -> Longs:
        return ordered.latest_before(np.concatenate((wanted, np.zeros(len(asking), np.bool_))))

    below = latest(np.ones(count, np.bool_))[count:]
    is_found = (below != NONE) & (records.seq[below] == records.cause[asking])
    cause = np.full(count, NONE)
    cause[asking] = np.where(is_found, below, NONE)
    came = (event == RECEIVED) | (event == DELIVERED)
    return _OnNode(cause, latest(came)[:count], latest(came | (event == SUBMITTED) | (event >= FIRST_ENDING))[:count])


def _taken_by(records: Records) -> Longs:
    """Give, for each handled, the delivered of the same message to the same receiver before it, or none."""
    rows = np.flatnonzero((records.event == DELIVERED) | (records.event == HANDLED))
    groups = (records.on_node[rows], records.message[rows], records.receiver[rows])
    taken = by_group(groups, records.seq[rows]).latest_before(records.event[rows] == DELIVERED)
    found = np.full(len(records), NONE)
    found[rows] = np.where(taken != NONE, rows[taken], NONE) if len(rows) else taken
    return found


def link(records: Records) -> Links:
    """Return what each record follows, and which records may have begun a flow."""
    event, seq = records.event, records.seq
    here = by_group((records.message, records.on_node), seq)
    arrival = here.latest_before((event == SUBMITTED) | (event == RECEIVED))
    taken = here.latest_before(event == DELIVERED)
    sent_before = here.latest_before(event == SENT)
    taken_by = _taken_by(records)
    # Without causes, what came to the node last is the best guess.
    on_node = _on_node(records)
    cause, came, happened = on_node.cause, on_node.came, on_node.happened

    def either(one: Longs, other: Longs) -> Longs:
        return np.where(one != NONE, one, other)

    submitted, sent = event == SUBMITTED, event == SENT
    # A receipt, or a report, is the router's: no handler is its cause, but what happened just before is.
    is_routers = submitted & ~records.has_cause & ~records.may_begin
    parent = np.select(
        [
            submitted,
            sent,
            event == RECEIVED,
            event == DELIVERED,
            event == HANDLED,
            event == RESOLVED,
            event >= FIRST_ENDING,
        ],
        [
            np.where(is_routers, happened, cause),
            either(either(arrival, came), sent_before),
            crossings(records),
            arrival,
            either(taken_by, arrival),
            either(taken, arrival),
            either(taken, arrival),
        ],
        NONE,
    )
    stage = np.select(
        [submitted, sent, event == RECEIVED, event == HANDLED],
        [RUN, np.where((arrival == NONE) & (came != NONE), RUN, SEND), TRANSIT, RUN],
        WAIT,
    )
    # A hub that is used inside a handler begins a flow whose cause is in another one. Only where it waits for an answer
    # does the record name it; what wants none and was never on a wire cannot be a result of something from elsewhere.
    is_from_hub = records.is_from_waiting | ((records.ask == 0) & (records.trail == 0))
    begins = records.may_begin & np.where(
        submitted,
        ~records.has_cause | (is_from_hub & (cause == NONE)),
        sent & (records.trail <= 1) & (arrival == NONE) & (came == NONE),
    )
    return Links(parent, stage, begins, records.may_begin & submitted & records.has_cause & (cause == NONE))


def depths(records: Records, links: Links) -> Longs:
    """Count the messages on the way back from each record, itself included."""
    parent = links.parent
    depth = ((parent != NONE) & (records.message[parent] != records.message)).astype(np.int64)
    longest = np.bincount(records.flow).max(initial=1)
    for _ in range(int(longest).bit_length()):
        has_parent = parent != NONE
        if not has_parent.any():
            break
        depth = depth + np.where(has_parent, depth[parent], 0)
        parent = np.where(has_parent, parent[parent], NONE)
    found: Longs = np.minimum(
        depth + 1, np.bincount(records.flow)[records.flow]
    )  # inconsistent data may contain cycles
    return found
