"""The table of callbacks: who asked for what, who answered, and how it ended."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from hopline.pipeline.arrow_schemas import arrow_schema
from hopline.pipeline.schemas import CALLBACKS
from hopline.pipeline.tables.asking import ASKED_BY, OUTCOMES, asked, firsts, matters
from hopline.pipeline.tables.clocks import Watched
from hopline.pipeline.traces import Kernel, TracesOfMessages
from hopline.pipeline.traces.arrays import NONE, days_of, longs, picked
from hopline.pipeline.traces.columns import KIND, RECEIVED
from hopline.pipeline.traces.replays import is_offence
from hopline.pipeline.windows import last_seen


def callbacks(messages: DataFrame) -> DataFrame:
    """Match every request that named callback points with its first answer."""
    return TracesOfMessages(messages).made_by(asking(last_seen(messages).toArrow())).to(CALLBACKS)


def asking(ends: pa.Table) -> Kernel:
    """Give the kernel that does so; `ends` are the times of the nodes' last messages."""
    return Kernel(
        columns=(*ASKED_BY, "flow_id", "sender", "callback_receiver", "callback_key", "callbacks"),
        schema=arrow_schema(CALLBACKS),
        work=partial(_callbacks, Watched(ends)),
        together="ask",
        keep=matters,
        shrink=firsts,
    )


def _callbacks(watched: Watched, rows: pa.Table) -> pa.Table:
    found = asked(rows.filter(pa.array(~is_offence(rows))), watched)
    rows, request, answer = found.rows, found.request, found.answer
    asked_ts, answered_ts = picked(rows, "ts", request), picked(rows, "ts", answer)
    peer_of = np.where((answer != NONE) & (longs(rows, "event")[answer] == RECEIVED), answer, NONE)
    answered_by = (picked(rows, "peer", peer_of), picked(rows, "sender", answer), picked(rows, "node", answer))
    is_timed = found.is_from_home & answered_ts.is_valid().to_numpy(zero_copy_only=False)
    return pa.table(
        {
            "date": days_of(asked_ts),
            "flow_id": picked(rows, "flow_id", request),
            "asked_node": pa.array(found.names, pa.string()).take(pa.array(found.waits_at)),
            "asked_receiver": picked(rows, "callback_receiver", request),
            "callback_key": picked(rows, "callback_key", request),
            **{name: picked(rows, name, request) for name in KIND},
            "asked_for": picked(rows, "callbacks", request),
            "asked_ts": picked(rows, "ts", np.where(found.is_from_home, request, NONE)),
            "ttl_us": picked(rows, "ttl_us", request),
            **{f"answer_{name}": picked(rows, name, answer) for name in KIND},
            "answered_by": pc.coalesce(*answered_by),
            "answered_ts": answered_ts,
            "latency_us": pa.array(found.latency_us, mask=~is_timed),
            "outcome": pa.array(OUTCOMES).take(pa.array(found.outcome)),
        }
    )
