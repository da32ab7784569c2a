"""How many records of which events each node made in an hour: counted while they are read, and added up later. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hopline.pipeline.traces.arrays import in_windows

HOUR_S = 3_600
COUNTED = ("node", "ts", "event", "dropped")
"""The columns of messages, and of rejects, that are looked at."""

HOURS = pa.schema(
    [
        ("node", pa.string()),
        ("hour", pa.timestamp("us", "UTC")),
        ("event", pa.string()),
        ("is_reject", pa.bool_()),
        ("records", pa.int64()),
        ("dropped", pa.int64()),
    ]
)


def hours_of(rows: pa.Table, *, is_reject: bool) -> pa.Table:
    """Count some records."""
    keys = ("node", "hour", "event")
    hour = in_windows(rows["ts"], HOUR_S)
    counted = (
        rows.select(list(COUNTED))
        .append_column("hour", hour)
        .group_by(list(keys), use_threads=False)
        .aggregate([([], "count_all"), ("dropped", "sum")])
        .rename_columns({"count_all": "records", "dropped_sum": "dropped"})
    )
    counted = counted.append_column("is_reject", pa.array(np.full(len(counted), is_reject)))
    return counted.select(HOURS.names).cast(HOURS)
