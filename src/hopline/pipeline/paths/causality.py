"""What came of what inside flows: which record each one follows, and the way back from the last to the first. Pure.

Everything here works on arrays that hold the records of many flows one after the other, in the order inside each flow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hopline.capture.events import ENDINGS, Event
from hopline.pipeline.paths.arrays import NONE, Flags, Longs, group_starts, groups_of, order_of, starts_of

EVENTS = tuple(event.value for event in Event)
"""Events by number: that of the first is 1, no event is 0."""
SUBMITTED, SENT, RECEIVED, DELIVERED, HANDLED, RESOLVED = range(1, 7)
FIRST_ENDING = len(EVENTS) - len(ENDINGS) + 1

# What becomes of the time between a record and the one that it follows.
STAGES = ("send", "transit", "wait", "run", "unseen", "retry")
SEND, TRANSIT, WAIT, RUN, UNSEEN, RETRY = range(6)


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
    attempt: Longs  # of a request that was asked again, from 1
    request: Longs  # the same for all attempts of a request, 0 for what is none
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
        at_source = self.flow * self._nodes + source
        return at_source * self._nodes + target

    @property
    def _nodes(self) -> int:
        highest_node = int(self.node.max(initial=0))
        highest_peer = int(self.peer.max(initial=0))
        return max(highest_node, highest_peer) + 1

    def is_one_of(self, *events: int) -> Flags:
        """Return which records are of one of some events."""
        return np.isin(self.event, events)


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
        """Return for each record the wanted one with the highest number below its own in its group, or none."""
        if not len(self.order):
            return self.order
        places = np.arange(len(self.order))
        wanted_places = np.where(wanted[self.order], places, NONE)
        latest_so_far = np.maximum.accumulate(wanted_places)
        before = np.concatenate(([NONE], latest_so_far[:-1]))
        is_in_group = before >= self.starts
        latest = np.empty(len(self.order), np.int64)
        latest[self.order] = np.where(is_in_group, self.order[before], NONE)
        return latest


def by_group(groups: tuple[Longs, ...], *numbers: Longs) -> Sorted:
    """Sort by group, and by number inside it, and by further numbers where these are the same."""
    order = order_of(*groups, *numbers)
    starts = starts_of(*(key[order] for key in groups))
    return Sorted(order, group_starts(starts))


def beside(groups: tuple[Longs, ...], wanted: Flags) -> Flags:
    """Mark the records whose group has a wanted one."""
    order = order_of(*groups)
    starts = starts_of(*(key[order] for key in groups))
    group = groups_of(starts)
    wanted_in_group = np.bincount(group, wanted[order])
    has_wanted = wanted_in_group > 0
    is_beside = np.zeros(len(order), np.bool_)
    is_beside[order] = has_wanted[group]
    return is_beside


def crossings(records: Records) -> Longs:
    """Return for each received the sent of the same bytes, or none.

    Those of one way and the same bytes make a group, the sent ones first. The first received is of the first sent, and
    so on; where more were received than sent, the others are of the last one.
    """
    ends = np.flatnonzero(records.is_one_of(SENT, RECEIVED))
    is_received = records.event[ends] == RECEIVED
    to_here = records.between(records.peer, records.node)[ends]
    to_peer = records.between(records.node, records.peer)[ends]
    way = np.where(is_received, to_here, to_peer)
    fingerprint = records.fingerprint[ends]
    # The same bytes were sent on equally often: at one node they are in the order of time already.
    order = order_of(way, fingerprint, is_received)
    is_received = is_received[order]
    starts = starts_of(way[order], fingerprint[order])
    group = groups_of(starts)
    first = group_starts(starts)
    sent_in_group = np.bincount(group, ~is_received).astype(np.int64)
    sent = sent_in_group[group]
    place_in_group = np.arange(len(order)) - first
    nth_received = place_in_group - sent
    nth_sent = np.minimum(nth_received, sent - 1)
    is_matched = is_received & (sent > 0)
    arrivals = order[is_matched]
    departures = order[(first + nth_sent)[is_matched]]
    crossing = np.full(len(records), NONE)
    crossing[ends[arrivals]] = ends[departures]
    return crossing


@dataclass(frozen=True, slots=True)
class _OnNode:
    """What happened to a flow on a node before each record: its cause, what came last, and what happened last."""

    cause: Longs
    came: Longs
    happened: Longs


def _on_node(records: Records) -> _OnNode:
    count = len(records)
    on_node = records.on_node
    asking = np.flatnonzero(records.has_cause)
    asked_seq = records.cause[asking]
    # A question for a cause is put just behind the number that it asks for.
    group = np.concatenate((on_node, on_node[asking]))
    seq = np.concatenate((records.seq * 2, asked_seq * 2 + 1))
    ordered = by_group((group,), seq)
    no_question = np.zeros(len(asking), np.bool_)

    def latest(wanted: Flags) -> Longs:
        among_all = np.concatenate((wanted, no_question))
        return ordered.latest_before(among_all)

    any_record = np.ones(count, np.bool_)
    below = latest(any_record)[count:]
    is_cause = (below != NONE) & (records.seq[below] == asked_seq)
    cause = np.full(count, NONE)
    cause[asking] = np.where(is_cause, below, NONE)
    came = records.is_one_of(RECEIVED, DELIVERED)
    happened = came | (records.event == SUBMITTED) | (records.event >= FIRST_ENDING)
    return _OnNode(cause, latest(came)[:count], latest(happened)[:count])


def _taken_by(records: Records) -> Longs:
    """Return for each handled the delivered of the same message to the same receiver before it, or none."""
    taken_by = np.full(len(records), NONE)
    rows = np.flatnonzero(records.is_one_of(DELIVERED, HANDLED))
    if not len(rows):
        return taken_by
    groups = (records.on_node[rows], records.message[rows], records.receiver[rows])
    is_delivered = records.event[rows] == DELIVERED
    ordered = by_group(groups, records.seq[rows])
    taken = ordered.latest_before(is_delivered)
    taken_by[rows] = np.where(taken != NONE, rows[taken], NONE)
    return taken_by


def link(records: Records) -> Links:
    """Return what each record follows, and which records may have begun a flow."""
    event = records.event
    here = by_group((records.message, records.on_node), records.seq)
    arrival = here.latest_before(records.is_one_of(SUBMITTED, RECEIVED))
    taken = here.latest_before(event == DELIVERED)
    sent_before = here.latest_before(event == SENT)
    # Without causes, what came to the node last is the best guess.
    on_node = _on_node(records)
    cause = on_node.cause
    came = on_node.came
    taken_or_arrival = _either(taken, arrival)
    # A receipt, or a report, is the router's: no handler is its cause, but what happened just before is.
    is_routers = ~records.has_cause & ~records.may_begin
    follows = {
        SUBMITTED: np.where(is_routers, on_node.happened, cause),
        SENT: _either(arrival, came, sent_before),
        RECEIVED: crossings(records),
        DELIVERED: arrival,
        HANDLED: _either(_taken_by(records), arrival),
        RESOLVED: taken_or_arrival,
    }
    is_ending = event >= FIRST_ENDING
    parent = np.select(
        [*(event == number for number in follows), is_ending],
        [*follows.values(), taken_or_arrival],
        NONE,
    )
    is_of_handler = (arrival == NONE) & (came != NONE)
    is_asked_again = (records.request != 0) & (records.attempt > 1)
    spent_on: dict[int, ArrayLike] = {
        SUBMITTED: RUN,
        SENT: np.where(is_of_handler, np.where(is_asked_again, RETRY, RUN), SEND),
        RECEIVED: TRANSIT,
        HANDLED: RUN,
    }
    stage = np.select([event == number for number in spent_on], list(spent_on.values()), WAIT)
    begins = records.may_begin & _shows_beginning(records, on_node, arrival)
    is_without_its_cause = records.has_cause & (cause == NONE)
    begins_if_sent = records.may_begin & (event == SUBMITTED) & is_without_its_cause
    return Links(parent, stage, begins, begins_if_sent)


def _either(*choices: Longs) -> Longs:
    """Return for each record the first of some choices that is not none."""
    chosen, *others = choices
    for other in others:
        chosen = np.where(chosen != NONE, chosen, other)
    return chosen


def _shows_beginning(records: Records, on_node: _OnNode, arrival: Longs) -> Flags:
    """Return which submissions and sends show how their flow began, if they may begin one at all."""
    # A hub that is used inside a handler begins a flow whose cause is in another one. Only where it waits for an answer
    # does the record name it; what wants none and was never on a wire cannot be a result of something from elsewhere.
    wants_no_answer = records.ask == 0
    was_never_on_wire = records.trail == 0
    is_from_hub = records.is_from_waiting | (wants_no_answer & was_never_on_wire)
    is_from_other_flow = is_from_hub & (on_node.cause == NONE)
    is_submitted = records.event == SUBMITTED
    is_submitted_first = is_submitted & (~records.has_cause | is_from_other_flow)
    is_sent = records.event == SENT
    came_from_nowhere = (arrival == NONE) & (on_node.came == NONE)
    is_sent_first = is_sent & (records.trail <= 1) & came_from_nowhere
    shows_beginning: Flags = is_submitted_first | is_sent_first
    return shows_beginning


def depths(records: Records, links: Links) -> Longs:
    """Count the messages on the way back from each record, itself included."""
    parent = links.parent
    is_of_other_message = records.message[parent] != records.message
    is_step = (parent != NONE) & is_of_other_message
    depth = is_step.astype(np.int64)
    flow_sizes = np.bincount(records.flow)
    longest = int(flow_sizes.max(initial=1))
    for _ in range(longest.bit_length()):
        has_parent = parent != NONE
        if not has_parent.any():
            break
        depth = depth + np.where(has_parent, depth[parent], 0)
        parent = np.where(has_parent, parent[parent], NONE)
    # Inconsistent data may contain cycles: no way is longer than its flow.
    bounded: Longs = np.minimum(depth + 1, flow_sizes[records.flow])
    return bounded
