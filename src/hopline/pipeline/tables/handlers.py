"""What the actors did: how often, how long the messages waited for them and how long they took."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from hopline.pipeline.arrow_schemas import arrow_schema
from hopline.pipeline.schemas import HANDLERS
from hopline.pipeline.tables.groups import Groups
from hopline.pipeline.tables.runs import RUN_BY, is_delivered_or_handled, runs
from hopline.pipeline.traces import Kernel, Traces, TracesOfMessages
from hopline.pipeline.traces.arrays import NONE, codes, days_of, in_windows, is_set, longs, picked
from hopline.pipeline.traces.columns import KIND
from hopline.pipeline.traces.parcels import PARCELS, brought_together, packed
from hopline.pipeline.windows import WINDOW_S

_WHO = ("node", "actor", "actor_name", "handler", *KIND)  # an identity has one class, and a kind one method there
_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}


def handlers(messages: DataFrame, window_s: int = WINDOW_S, traces: Traces | None = None) -> DataFrame:
    """Sum up the `handled` records by window, node, actor and kind."""
    parcels = (traces or TracesOfMessages(messages)).made_by(running(window_s))
    return brought_together(parcels, partial(_handlers, window_s), arrow_schema(HANDLERS)).to(HANDLERS)


def running(window_s: int) -> Kernel:
    """Give the kernel that finds the runs of handlers, in parcels by what they are summed up by."""
    return Kernel(columns=RUN_BY, schema=PARCELS, work=partial(_runs, window_s), keep=is_delivered_or_handled)


def _runs(window_s: int, rows: pa.Table) -> pa.Table:
    found = runs(rows)
    found = found.set_column(0, "window_start", in_windows(found["ts"], window_s))
    return packed(("window_start", *_WHO), found)


def _handlers(window_s: int, rows: pa.Table) -> pa.Table:
    texts = {name: codes(rows, name)[0] for name in _WHO}
    groups = Groups((longs(rows, "window_start", NONE), *texts.values()))
    times = {
        f"{name}_{percentile}_us": column
        for name in ("wait", "run")
        for percentile, column in zip(
            _PERCENTILES,
            groups.percentiles(longs(rows, f"{name}_us"), is_set(rows, f"{name}_us"), list(_PERCENTILES.values())),
            strict=True,
        )
    }
    window_start = picked(rows, "window_start", groups.first)
    return pa.table(
        {
            "date": days_of(window_start),
            "window_start": window_start,
            "window_s": pa.repeat(window_s, len(groups.first)),
            **{name: picked(rows, name, groups.first) for name in _WHO},
            "count": groups.counts,
            "errors": groups.sums(rows["has_failed"].to_numpy()),
            **times,
            "busy_share": groups.sums(longs(rows, "run_us")) / (window_s * 1_000_000),
        }
    )
