"""What flows add up to that are too large to be looked at in one piece: message by message, and then together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from hopline.pipeline.tables.flow_records import COLUMNS, FLOW_DETAIL_LIMIT, records_of, without_offences
from hopline.pipeline.tables.flow_totals import TOTALS, totals
from hopline.pipeline.traces import Kernel, Traces
from hopline.pipeline.traces.arrays import longs, starts_of
from hopline.pipeline.traces.columns import Longs

_FLOW = pa.schema([("flow", pa.int64())])
LARGE_FLOWS = pa.schema([*_FLOW, *TOTALS])


def totals_of_large_flows(traces: Traces) -> pa.Table:
    """Find the flows with more records than are looked at, and count what is exact whatever their size."""
    large = longs(traces.made_by(COUNTING).toArrow(), "flow")
    if not len(large):
        return LARGE_FLOWS.empty_table()
    counts = traces.made_by(totalling(large)).groupBy("flow")
    # One is a sum, the other whether it is so anywhere.
    found = counts.agg(
        *((sf.max if pa.types.is_boolean(one.type) else sf.sum)(one.name).alias(one.name) for one in TOTALS)
    )
    return found.toArrow().cast(LARGE_FLOWS)


def _large(rows: pa.Table) -> pa.Table:
    flows, counts = np.unique(longs(rows, "flow"), return_counts=True)
    return pa.table({"flow": flows[counts > FLOW_DETAIL_LIMIT]})


COUNTING = Kernel(columns=("flow",), schema=_FLOW, work=_large, together="flow")


def totalling(flows: Longs) -> Kernel:
    """Give the kernel that counts what whole messages add to these flows."""
    return Kernel(columns=(*COLUMNS, "hops", "bytes"), schema=LARGE_FLOWS, work=_totals, flows=flows)


def _totals(rows: pa.Table) -> pa.Table:
    rows = without_offences(rows.take(pa.array(np.argsort(longs(rows, "flow"), kind="stable"))).combine_chunks())
    if not len(rows):
        return LARGE_FLOWS.empty_table()
    flow = longs(rows, "flow")
    counted = totals(records_of(rows), longs(rows, "hops"), longs(rows, "bytes"))
    return pa.table([flow[starts_of(flow)], *counted], schema=LARGE_FLOWS)
