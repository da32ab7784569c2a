"""What one node sent, matched with what the other received, in arrays of whole messages. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hopline.pipeline.tables.clocks import Clocks, Estimates, Watched
from hopline.pipeline.traces.arrays import DAY_US, NONE, codes, groups_of, is_set, longs, names, order_of, starts_of
from hopline.pipeline.traces.columns import RECEIVED, REJECTED, SENT, Flags, Longs

MATCHED_BY = ("message_id", "fingerprint", "ts", "seq", "node", "event", "peer")
_NODES = ("node", "peer")


@dataclass(frozen=True, slots=True)
class Transits:
    """Ways between two nodes: the row that tells that a message left and the one that tells that it came, or none."""

    leaves: Longs
    arrives: Longs
    names: list[str | None]  # of nodes
    source: Longs
    target: Longs
    sent_us: Longs  # since 1970, or none
    received_us: Longs
    is_duplicate: Flags

    @property
    def either(self) -> Longs:
        """Give a row that tells of it."""
        return np.where(self.leaves != NONE, self.leaves, self.arrives)

    def skew(self, clocks: Clocks) -> Estimates:
        """Return by how much the clock at the other end is ahead, on the day of each transit."""
        day = np.where(self.sent_us != NONE, self.sent_us, self.received_us) // DAY_US
        return clocks.compare(self.names, day, self.source, self.target)

    def never_arrived(self, watched: Watched, skew: Estimates) -> tuple[Flags, Flags]:
        """Return what was not seen to arrive, and what of it surely was lost: the other end was watched after it left.

        The two clocks are compared by their estimated offset, and as they are where there is no estimate.
        """
        missing = (self.leaves != NONE) & (self.arrives == NONE)
        left_us = self.sent_us + np.where(skew.is_known, skew.offset_us, 0)  # by the other end's clock
        is_known = (self.sent_us != NONE) & (watched.until(self.names)[self.target] >= left_us)
        return missing, missing & is_known

    @property
    def is_timed(self) -> Flags:
        """Tell which were seen at both ends, and when."""
        found: Flags = (self.sent_us != NONE) & (self.received_us != NONE)
        return found


def crosses(rows: pa.Table) -> Flags:
    """Tell the records of messages that go from node to node."""
    event = longs(rows, "event")
    found: Flags = ((event == SENT) | (event == RECEIVED)) & is_set(rows, "peer") & is_set(rows, "node")
    return found


def crosses_or_is_rejected(rows: pa.Table) -> Flags:
    """Tell these, and what became of some of them."""
    found: Flags = crosses(rows) | ((longs(rows, "event") == REJECTED) & is_set(rows, "node"))
    return found


def matched(rows: pa.Table) -> Transits:
    """Match the first sent with the first received, and so on, where they are the same bytes between two nodes."""
    event, ts, seq = longs(rows, "event"), longs(rows, "ts", NONE), longs(rows, "seq", NONE)
    is_received = event == RECEIVED
    node, peer = codes(rows, *_NODES)
    source, target = np.where(is_received, peer, node), np.where(is_received, node, peer)
    keys = (longs(rows, "fingerprint"), source, target)
    ends = np.flatnonzero(event != REJECTED)
    ends = ends[order_of(*(key[ends] for key in (*keys, is_received, ts, seq)))]
    starts = starts_of(*(key[ends] for key in keys))
    group, first = groups_of(starts), np.flatnonzero(starts)
    sent = np.bincount(group, ~is_received[ends], len(first)).astype(np.int64)
    received = np.bincount(group, minlength=len(first)) - sent
    # As many rows as were sent, or received where these are more: the nth of one with the nth of the other.
    count = np.maximum(sent, received)
    of = np.repeat(np.arange(len(first)), count)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    leaves = _at(ends, first[of] + nth, nth < sent[of])
    arrives = _at(ends, first[of] + sent[of] + nth, nth < received[of])
    pair = ends[first[of]]
    return Transits(
        leaves,
        arrives,
        names(rows, *_NODES),
        source[pair],
        target[pair],
        np.where(leaves != NONE, ts[leaves], NONE),
        np.where(arrives != NONE, ts[arrives], NONE),
        (leaves == NONE) & (sent[of] > 0),
    )


def _at(ends: Longs, places: Longs, is_there: Flags) -> Longs:
    found: Longs = np.where(is_there, ends[np.where(is_there, places, 0)], NONE)
    return found


def rejected(rows: pa.Table) -> Flags:
    """Tell which arrivals the receiver then rejected: its next record of the message says so."""
    event, message, (node,) = longs(rows, "event"), longs(rows, "message_id"), codes(rows, "node")
    order = order_of(message, node, longs(rows, "seq", NONE), longs(rows, "ts", NONE))
    starts = starts_of(message[order], node[order])
    then = np.concatenate(((event[order] == REJECTED)[1:] & ~starts[1:], [False]))
    found = np.zeros(len(event), np.bool_)
    found[order] = then & (event[order] == RECEIVED)
    return found
