"""Transits between two nodes: what one sent, matched with what the other received."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from hopline.pipeline.arrow_schemas import arrow_schema
from hopline.pipeline.schemas import HOPS
from hopline.pipeline.tables.clocks import Clocks, Watched
from hopline.pipeline.tables.matching import MATCHED_BY, crosses_or_is_rejected, matched, rejected
from hopline.pipeline.traces import Kernel, TracesOfMessages
from hopline.pipeline.traces.arrays import NONE, days_of, picked
from hopline.pipeline.windows import last_seen

# What the same bytes say at both ends.
_SAID = (
    "flow_id",
    "message_id",
    "fingerprint",
    "service",
    "wire_format",
    "identity",
    "version",
    "partition",
    "hops",
    "bytes",
)


def hops(messages: DataFrame, skew: DataFrame) -> DataFrame:
    """Match each `sent` with its `received`, with the estimated skew of the two clocks."""
    return TracesOfMessages(messages).made_by(matching(skew.toArrow(), last_seen(messages).toArrow())).to(HOPS)


def matching(skew: pa.Table, ends: pa.Table) -> Kernel:
    """Give the kernel that does so; `ends` are the times of the nodes' last messages."""
    return Kernel(
        columns=tuple(dict.fromkeys((*_SAID, *MATCHED_BY))),
        schema=arrow_schema(HOPS),
        work=partial(_hops, Clocks(skew), Watched(ends)),
        keep=crosses_or_is_rejected,
    )


def _hops(clocks: Clocks, watched: Watched, rows: pa.Table) -> pa.Table:
    ways = matched(rows)
    either, nodes = ways.either, pa.array(ways.names, pa.string()).dictionary_encode()
    sent_ts, received_ts = picked(rows, "ts", ways.leaves), picked(rows, "ts", ways.arrives)
    skew = ways.skew(clocks)
    missing, is_lost = ways.never_arrived(watched, skew)
    return pa.table(
        {
            "date": days_of(pc.coalesce(sent_ts, received_ts)),
            "from_node": nodes.take(pa.array(ways.source)),
            "to_node": nodes.take(pa.array(ways.target)),
            **{name: picked(rows, name, either) for name in _SAID},
            "sent_ts": sent_ts,
            "received_ts": received_ts,
            "sent_seq": picked(rows, "seq", ways.leaves),
            "received_seq": picked(rows, "seq", ways.arrives),
            "transit_us": pa.array(ways.received_us - ways.sent_us, mask=~ways.is_timed),
            "skew_us": pa.array(skew.offset_us, mask=~skew.is_known),
            "skew_bound_us": pa.array(skew.bound_us, mask=~skew.is_known),
            "lost": pa.array(is_lost, mask=missing & ~is_lost),
            "duplicate": pa.array(ways.is_duplicate),
            "rejected": pa.array((ways.arrives != NONE) & rejected(rows)[ways.arrives]),
        }
    )
