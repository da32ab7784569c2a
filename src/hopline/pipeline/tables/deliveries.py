"""Each delivery of a message, and each failure of its handler, with the submission that it comes from. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.pipeline.tables.causality import by_group
from hopline.pipeline.traces.arrays import NONE, chosen, codes, groups_of, is_set, longs, order_of, picked, starts_of
from hopline.pipeline.traces.columns import DELIVERED, FAILED, HANDLED, SUBMITTED, Flags, Longs

NOBODY = ""
DELIVERED_BY = (
    *("message_id", "ts", "seq", "node", "event", "local_receiver", "receiver_name", "cause", "identity", "bytes"),
    "flags",
)
"""The columns of traces that tell it."""


def is_about_delivering(rows: pa.Table) -> Flags:
    """Tell the records that matter."""
    event = longs(rows, "event")
    has_failed = (event == HANDLED) & (longs(rows, "flags") & FAILED != 0)
    kept: Flags = (event == SUBMITTED) | (event == DELIVERED) | has_failed
    return kept & is_set(rows, "node") & is_set(rows, "ts")


def deliveries(rows: pa.Table) -> pa.Table:
    """Give each delivery, and each failure, with whoever submitted the message.

    `source` is the receiver that was handling something when it did so. Where what it handled is of another flow,
    `cause` is the number of that delivery, and the source just who submitted.
    """
    event, ts, seq = longs(rows, "event"), longs(rows, "ts"), longs(rows, "seq", NONE)
    message, (node,) = longs(rows, "message_id"), codes(rows, "node")
    receiver = _or_nobody(rows["local_receiver"].combine_chunks())
    (target,) = codes(pa.table({"target": receiver}), "target")
    # Submissions by message, from the first to the last.
    submitted = np.flatnonzero(event == SUBMITTED)
    submitted = submitted[order_of(message[submitted], ts[submitted], node[submitted], seq[submitted])]
    begin, end = (np.searchsorted(message[submitted], message, side) for side in ("left", "right"))
    # The others by message and target: how often it was delivered there so far, and by which record the last time.
    others = np.flatnonzero(event != SUBMITTED)
    keys = (message, node, target)
    others = others[order_of(*(key[others] for key in keys), ts[others], seq[others])]
    starts = starts_of(*(key[others] for key in keys))
    first = np.flatnonzero(starts)[groups_of(starts)]
    is_delivered = event[others] == DELIVERED
    so_far = np.cumsum(is_delivered)
    nth = so_far - so_far[first] + is_delivered[first]
    at = others[np.maximum.accumulate(np.where(is_delivered, np.arange(len(others)), 0))]
    submissions = (end - begin)[others]
    # What was delivered more often than submitted is the same message again.
    kept = (nth > 0) & ((submissions == 0) | (nth <= submissions))
    others, at, nth, submissions = others[kept], at[kept], nth[kept], submissions[kept]
    is_delivered = is_delivered[kept]
    submission = np.full(len(others), NONE)
    submission[submissions > 0] = submitted[(begin[others] + nth - 1)[submissions > 0]]
    # Messages that nothing tells apart are counted, but which took how long nobody knows.
    is_timed = is_delivered & (submissions == 1)
    source, cause = _sources(rows, submission)
    return pa.table(
        {
            "at": picked(rows, "ts", at),
            "source_node": _or_nobody(chosen(rows, "node", submission)),
            "source": _or_nobody(receiver.take(pa.array(source, mask=source == NONE))),
            "source_name": chosen(rows, "receiver_name", source),
            "cause": cause,
            "target_node": chosen(rows, "node", others),
            "target": receiver.take(pa.array(others)),
            "target_name": chosen(rows, "receiver_name", others),
            "identity": chosen(rows, "identity", others),
            "bytes": pc.if_else(pa.array(is_delivered), picked(rows, "bytes", others), 0),
            "is_delivered": pa.array(is_delivered),
            "transit_us": pa.array(ts[at] - ts[submission], mask=~is_timed),
        }
    )


def _or_nobody(names: pa.DictionaryArray) -> pa.DictionaryArray:
    """Give everyone a name, if only an empty one."""
    known = pa.concat_arrays([names.dictionary, pa.array([NOBODY])]).dictionary_encode()  # it may have been there
    indices = pc.fill_null(names.indices, len(known) - 1)
    return pa.DictionaryArray.from_arrays(known.indices.take(indices), known.dictionary)


def _sources(rows: pa.Table, submission: Longs) -> tuple[Longs, pa.Array]:
    """Return the record that names who submitted, and the number of the cause where that is not among these records.

    It is the delivery that is the cause, whose receiver was handling it; else the submission itself.
    """
    (node,), seq, cause = codes(rows, "node"), longs(rows, "seq", NONE), longs(rows, "cause", NONE)
    asking = np.unique(submission[(submission != NONE) & is_set(rows, "cause")[submission]])
    handling = np.flatnonzero((longs(rows, "event") == DELIVERED) & is_set(rows, "local_receiver"))
    # A question for a cause is put just behind the deliveries that have the number, of which the first comes last.
    ordered = by_group(
        (np.concatenate((node[handling], node[asking])),),
        np.concatenate((seq[handling] * 2, cause[asking] * 2 + 1)),
        -np.concatenate((longs(rows, "ts")[handling], np.zeros(len(asking), np.int64))),
    )
    is_handling = np.arange(len(handling) + len(asking)) < len(handling)
    below = ordered.latest_before(is_handling)[len(handling) :]
    found = np.where(below != NONE, handling[below] if len(handling) else NONE, NONE)
    is_found = (found != NONE) & (seq[found] == cause[asking])
    source = np.arange(len(rows))
    source[asking[is_found]] = found[is_found]
    is_open = np.zeros(len(rows), np.bool_)
    is_open[asking[~is_found]] = True
    is_known = submission != NONE
    return (
        np.where(is_known, source[submission], NONE),
        pa.array(cause[submission], mask=~(is_known & is_open[submission])),
    )
