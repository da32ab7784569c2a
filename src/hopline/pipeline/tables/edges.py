"""Who talks to whom, by window: from node to node, and from the handler that made a message to the one that got it."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.capture.records import Event
from hopline.pipeline.arrow_schemas import arrow_schema
from hopline.pipeline.schemas import EDGES
from hopline.pipeline.tables.groups import Groups
from hopline.pipeline.tables.talks import KEYS, OPEN, TALKS, talking
from hopline.pipeline.traces import TracesOfMessages
from hopline.pipeline.traces.arrays import NONE, codes, days_of, is_set, longs, picked
from hopline.pipeline.traces.parcels import brought_together, packed_up, unpacked
from hopline.pipeline.windows import WINDOW_S, last_seen

_WHO = KEYS[1:]
_COUNTS = ("count", "bytes", "errors", "lost")
_PERCENTS = (50, 95, 99)


def edges(messages: DataFrame, skew: DataFrame, window_s: int = WINDOW_S, talks: DataFrame | None = None) -> DataFrame:
    """Sum up the messages between nodes, and between handlers.

    `talks` are what `talking` makes of the same messages, where that was done before.
    """
    if talks is None:
        talks = TracesOfMessages(messages).made_by(talking(window_s, skew.toArrow(), last_seen(messages).toArrow()))
        has_open = True  # for all that is known
    else:
        has_open = not talks.where(OPEN).isEmpty()
    parcels = talks.where(~sf.col(OPEN)).drop(OPEN)
    if has_open:
        looked_up = _looked_up(unpacked(talks.where(OPEN), TALKS), messages)
        parcels = parcels.unionByName(packed_up(looked_up, KEYS, TALKS))
    return brought_together(parcels, partial(_edges, window_s), arrow_schema(EDGES)).to(EDGES)


def _looked_up(talks: DataFrame, messages: DataFrame) -> DataFrame:
    """Put the receiver that was handling the cause in the place of the source."""
    at, who = ["source_node", "cause"], ["local_receiver", "receiver_name"]
    handling = (
        messages.where((sf.col("event") == Event.DELIVERED) & sf.col("local_receiver").isNotNull())
        .select(sf.col("node").alias("source_node"), sf.col("seq").alias("cause"), "ts", *who)
        .join(talks.select(*at).distinct(), at, "left_semi")
        .groupBy(*at)
        .agg(sf.min_by(sf.struct(*who), "ts").alias("handling"))
    )
    found = talks.join(handling, at, "left")
    is_found = sf.col("handling").isNotNull()
    for name, seen in zip(("source", "source_name"), who, strict=True):
        found = found.withColumn(name, sf.when(is_found, sf.col(f"handling.{seen}")).otherwise(sf.col(name)))
    return found.drop("handling")


def _edges(window_s: int, rows: pa.Table) -> pa.Table:
    texts = [codes(rows, name)[0] for name in _WHO]
    groups = Groups((longs(rows, "window_start", NONE), *texts))
    transits = groups.percentiles(longs(rows, "transit_us"), is_set(rows, "transit_us"), _PERCENTS)
    window_start = picked(rows, "window_start", groups.first)
    return pa.table(
        {
            "date": days_of(window_start),
            "window_start": window_start,
            "window_s": pa.repeat(window_s, len(groups.first)),
            **{name: picked(rows, name, groups.first) for name in _WHO},
            **{name: groups.sums(longs(rows, name)) for name in _COUNTS},
            **{f"transit_p{percent}_us": found for percent, found in zip(_PERCENTS, transits, strict=True)},
        }
    )
