"""What edges sum up, message by message: from node to node, and from handler to handler. Pure."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopline.pipeline.tables.clocks import Clocks, Watched
from hopline.pipeline.tables.deliveries import DELIVERED_BY, deliveries, is_about_delivering
from hopline.pipeline.tables.matching import MATCHED_BY, crosses_or_is_rejected, matched, rejected
from hopline.pipeline.traces import Kernel
from hopline.pipeline.traces.arrays import NONE, chosen, in_windows, picked
from hopline.pipeline.traces.columns import Flags
from hopline.pipeline.traces.parcels import PARCELS, packed

_TEXT = pa.dictionary(pa.int32(), pa.string())
TALKS = pa.schema(
    [
        ("window_start", pa.timestamp("us", "UTC")),
        ("kind", _TEXT),
        ("source_node", _TEXT),
        ("source", _TEXT),
        ("source_name", _TEXT),
        ("target_node", _TEXT),
        ("target", _TEXT),
        ("target_name", _TEXT),
        ("identity", _TEXT),
        ("count", pa.int64()),
        ("bytes", pa.int64()),
        ("errors", pa.int64()),
        ("lost", pa.int64()),
        ("transit_us", pa.int64()),
        ("cause", pa.int64()),  # that has to be looked up to know the source
    ]
)
KEYS = (
    *("window_start", "kind", "source_node", "source", "source_name", "target_node", "target", "target_name"),
    "identity",
)
OPEN = "is_open"
PARCELS_OF_TALKS = PARCELS.append(pa.field(OPEN, pa.bool_()))  # these have causes that have to be looked up


def talking(window_s: int, skew: pa.Table, ends: pa.Table) -> Kernel:
    """Return the kernel that finds them, in parcels by what they are summed up by.

    `ends` are the times of the nodes' last messages, and `skew` is what is known of their clocks.
    """
    return Kernel(
        columns=tuple(dict.fromkeys((*MATCHED_BY, *DELIVERED_BY))),
        schema=PARCELS_OF_TALKS,
        work=partial(_talks, window_s, Clocks(skew), Watched(ends)),
        keep=_keep,
    )


def _keep(rows: pa.Table) -> Flags:
    kept: Flags = crosses_or_is_rejected(rows) | is_about_delivering(rows)
    return kept


def _talks(window_s: int, clocks: Clocks, watched: Watched, rows: pa.Table) -> pa.Table:
    parcels = [PARCELS_OF_TALKS.empty_table()]
    physical = partial(_physical, clocks, watched)
    for is_needed, talks_of in ((crosses_or_is_rejected, physical), (is_about_delivering, _logical)):
        needed = rows.filter(pa.array(is_needed(rows))).combine_chunks()
        if not len(needed):
            continue
        talks = talks_of(needed)
        talks = talks.append_column("window_start", in_windows(talks["at"], window_s)).select(TALKS.names).cast(TALKS)
        for is_open, chosen_talks in (
            (False, talks.filter(pc.is_null(talks["cause"]))),
            (True, talks.filter(pc.is_valid(talks["cause"]))),
        ):
            found = packed(KEYS, chosen_talks)
            parcels.append(found.append_column(OPEN, pa.repeat(is_open, len(found))))
    return pa.concat_tables(parcels)


def _physical(clocks: Clocks, watched: Watched, rows: pa.Table) -> pa.Table:
    ways = matched(rows)
    either, nodes = ways.either, pa.array(ways.names[1:], pa.string())  # who sends, and who receives, has a name
    source, target = (
        pa.DictionaryArray.from_arrays(pa.array(side - 1, pa.int32()), nodes) for side in (ways.source, ways.target)
    )
    count = len(either)
    return pa.table(
        {
            "at": pc.coalesce(picked(rows, "ts", ways.leaves), picked(rows, "ts", ways.arrives)),
            "kind": _always("physical", count),
            "source_node": source,
            "source": source,
            "source_name": pa.nulls(count, _TEXT),
            "target_node": target,
            "target": target,
            "target_name": pa.nulls(count, _TEXT),
            "identity": chosen(rows, "identity", either),
            "count": np.ones(count, np.int64),
            "bytes": picked(rows, "bytes", either),
            "errors": ((ways.arrives != NONE) & rejected(rows)[ways.arrives]).astype(np.int64),
            "lost": ways.never_arrived(watched, ways.skew(clocks))[1].astype(np.int64),
            "transit_us": pa.array(ways.received_us - ways.sent_us, mask=~ways.is_timed),
            "cause": pa.nulls(count, pa.int64()),
        }
    )


def _logical(rows: pa.Table) -> pa.Table:
    found = deliveries(rows)
    is_delivered = found["is_delivered"].to_numpy()
    columns = {name: found[name] for name in found.column_names if name != "is_delivered"}
    return pa.table(
        columns
        | {
            "kind": _always("logical", len(found)),
            "count": is_delivered.astype(np.int64),
            "errors": (~is_delivered).astype(np.int64),
            "lost": np.zeros(len(found), np.int64),
        }
    )


def _always(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))
