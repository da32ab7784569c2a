"""What came of what inside flows: which record each one follows, and the way back from the last to the first. Pure.

Everything here works on arrays that hold the records of many flows one after the other, in the order inside each flow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hopline.capture.records import ENDINGS, Event

Longs: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

NONE = -1
# Events by their place in `Event`, from 1; 0 is none. From the first ending on, all are endings.
SUBMITTED, SENT, RECEIVED, DELIVERED, HANDLED, RESOLVED, ENDED, REJECTED = (
    tuple(Event).index(event) + 1
    for event in (
        *(Event.SUBMITTED, Event.SENT, Event.RECEIVED, Event.DELIVERED, Event.HANDLED, Event.RESOLVED),
        *(ENDINGS[0], Event.REJECTED),
    )
)
# What becomes of the time between a record and the one that it follows.
STAGES = ("send", "transit", "wait", "run", "unseen")
SEND, TRANSIT, WAIT, RUN, UNSEEN = range(5)


@dataclass(frozen=True, slots=True)
class Records:
    """Records of flows, a column each. Names are hashes, as only equality counts."""

    flow: Longs  # which flow, counted from 0
    ts: Longs
    seq: Longs
    node: Longs
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


@dataclass(frozen=True, slots=True)
class Links:
    """For each record the one that it follows, or none, and what the time between them was spent on."""

    parent: Longs
    stage: Longs


def starts_of(*keys: Longs) -> Flags:
    """Mark where a new group begins in arrays that are sorted by group."""
    starts = np.zeros(len(keys[0]), np.bool_)
    starts[:1] = True
    for key in keys:
        starts[1:] |= key[1:] != key[:-1]
    return starts


def latest_before(groups: tuple[Longs, ...], seq: Longs, wanted: Flags) -> Longs:
    """Give, for each record, the wanted one with the highest number below its own in its group, or none."""
    order = np.lexsort((seq, *reversed(groups)))
    places = np.arange(len(order))
    first = np.maximum.accumulate(np.where(starts_of(*(key[order] for key in groups)), places, 0))
    last = np.maximum.accumulate(np.where(wanted[order], places, NONE))
    before = np.concatenate(([NONE], last[:-1])) if len(order) else last
    found = np.full(len(order), NONE)
    found[order] = np.where(before >= first, order[before], NONE)
    return found


def beside(groups: tuple[Longs, ...], wanted: Flags) -> Flags:
    """Mark the records whose group has a wanted one."""
    order = np.lexsort(groups)
    group = np.cumsum(starts_of(*(key[order] for key in groups))) - 1
    found = np.zeros(len(order), np.bool_)
    found[order] = (np.bincount(group, wanted[order]) > 0)[group]
    return found


def causes(records: Records) -> Longs:
    """Give the record of the same flow and node that a record names as its cause, or none."""
    asking = np.flatnonzero(records.has_cause)
    count, queries = len(records), len(asking)
    groups = tuple(np.concatenate((key, key[asking])) for key in (records.flow, records.node))
    # A question is put just behind the number that it asks for.
    seq = np.concatenate((records.seq * 2, records.cause[asking] * 2 + 1))
    is_record = np.arange(count + queries) < count
    below = latest_before(groups, seq, is_record)[count:]
    found = np.full(count, NONE)
    found[asking] = np.where(records.seq[below] == records.cause[asking], below, NONE)
    found[asking[below == NONE]] = NONE
    return found


def crossings(records: Records) -> Longs:
    """Give, for each received, the sent of the same bytes: the first of the first, and so on; or none."""
    ends = np.flatnonzero((records.event == SENT) | (records.event == RECEIVED))
    is_received = records.event[ends] == RECEIVED
    node, peer = records.node[ends], records.peer[ends]
    keys = (
        records.flow[ends],
        records.message[ends],
        records.fingerprint[ends],
        np.where(is_received, peer, node),
        np.where(is_received, node, peer),
    )
    order = np.lexsort((records.seq[ends], records.ts[ends], is_received, *reversed(keys)))
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


def link(records: Records) -> tuple[Links, Flags]:
    """Find what each record follows, and the records that may have begun a flow."""
    event, seq = records.event, records.seq
    here = (records.flow, records.message, records.node)
    arrival = latest_before(here, seq, (event == SUBMITTED) | (event == RECEIVED))
    taken = latest_before(here, seq, event == DELIVERED)
    taken_by = latest_before((*here, records.receiver), seq, event == DELIVERED)
    # Without causes, what came to the node last is the best guess.
    on_node = (records.flow, records.node)
    came = latest_before(on_node, seq, (event == RECEIVED) | (event == DELIVERED))
    happened = latest_before(on_node, seq, np.isin(event, [SUBMITTED, RECEIVED, DELIVERED]) | (event >= ENDED))
    sent_before = latest_before(here, seq, event == SENT)
    cause = causes(records)

    def either(one: Longs, other: Longs) -> Longs:
        return np.where(one != NONE, one, other)

    submitted, sent = event == SUBMITTED, event == SENT
    # A receipt, or a report, is the router's: no handler is its cause, but what happened just before is.
    is_routers = submitted & ~records.has_cause & ~records.may_begin
    parent = np.select(
        [submitted, sent, event == RECEIVED, event == DELIVERED, event == HANDLED, event == RESOLVED, event >= ENDED],
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
    begins = records.may_begin & np.where(
        submitted,
        ~records.has_cause | (records.is_from_waiting & (cause == NONE)),
        sent & (records.trail <= 1) & (arrival == NONE) & (came == NONE),
    )
    return Links(parent, stage), begins


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
    found: Longs = np.minimum(depth + 1, np.bincount(records.flow)[records.flow])  # a circle of lies has no end
    return found
