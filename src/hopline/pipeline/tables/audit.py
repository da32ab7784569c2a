"""Do the books hold? What each node recorded, hour by hour, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from hopline.capture.records import Event
from hopline.pipeline.schemas import AUDIT
from hopline.pipeline.tables.books import BALANCING, CAME_IN, WENT_OUT
from hopline.pipeline.traces import Traces, TracesOfMessages
from hopline.pipeline.traces.hours import COUNTED, HOUR_S, HOURS, hours_of
from hopline.pipeline.traces.spans import NUMBERED, SPANS, spans_of
from hopline.pipeline.windows import day, window_start

_AT_LEVEL_FULL = (Event.SUBMITTED, Event.DELIVERED, Event.HANDLED)
_COUNTS = ("records", "dropped", "missing", "rejects", *Event, "copies", "balance")


def audit(
    messages: DataFrame,
    rejects: DataFrame,
    traces: Traces | None = None,
    spans: DataFrame | None = None,
    hours: DataFrame | None = None,
) -> DataFrame:
    """Count what each node recorded by hour, what is missing, and whether what came in went out.

    The others are of the same messages and rejects, where they were noted before.
    """
    spans = _spans(messages, rejects) if spans is None else spans
    hours = _hours(messages, rejects) if hours is None else hours
    is_full = _sum(_AT_LEVEL_FULL) > 0
    return (
        _by_hour(hours)
        .unionByName(_gaps(spans), allowMissingColumns=True)
        .unionByName((traces or TracesOfMessages(messages)).made_by(BALANCING), allowMissingColumns=True)
        .groupBy("node", "hour")
        .agg(*(sf.coalesce(sf.sum(name), sf.lit(0)).alias(name) for name in _COUNTS))
        .withColumn("date", day(sf.col("hour")))
        .withColumn("copies", sf.when(is_full, sf.col("copies")).otherwise(0))
        .withColumn("balance", sf.when(is_full, sf.col("balance")))
        .withColumn("balanced", sf.col("balance") == 0)
        .to(AUDIT)
    )


def _spans(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    """Give the numbers of each node's records as spans without a gap."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from spans_of([pa.Table.from_batches([batch])]).to_batches()

    numbered = messages.select(*NUMBERED).unionByName(rejects.select(*NUMBERED))
    return numbered.mapInArrow(work, from_arrow_schema(SPANS))


def _hours(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    """Count records by hour, some at a time."""

    def work(is_reject: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from hours_of(pa.Table.from_batches([batch]), is_reject=is_reject).to_batches()

    counted = [
        rows.select(*COUNTED).mapInArrow(partial(work, is_reject), from_arrow_schema(HOURS))
        for rows, is_reject in ((messages, False), (rejects, True))
    ]
    return counted[0].unionByName(counted[1])


def _by_hour(hours: DataFrame) -> DataFrame:
    event, records, is_reject = sf.col("event"), sf.col("records"), sf.col("is_reject")
    return hours.select(
        "node",
        "hour",
        "records",
        "dropped",
        sf.when(is_reject, records).otherwise(0).alias("rejects"),
        # Nothing tells which of them are the same message: they are balanced hour by hour.
        sf.when(is_reject, records * _side()).otherwise(0).alias("balance"),
        *(sf.when(event == name, records).otherwise(0).alias(name) for name in Event),
    )


def _gaps(spans: DataFrame) -> DataFrame:
    """Count the numbers that no record has and none says it dropped, in the hour of the record behind the gap."""
    earlier = Window.partitionBy("node").orderBy("first", "ts").rowsBetween(Window.unboundedPreceding, -1)
    gap = sf.col("first") - sf.max("last").over(earlier) - 1 - sf.col("dropped")
    return spans.select(
        "node",
        window_start(sf.col("ts"), HOUR_S).alias("hour"),
        sf.greatest(sf.coalesce(gap, sf.lit(0)), sf.lit(0)).alias("missing"),
    )


def _side() -> Column:
    event = sf.col("event")
    return sf.when(event.isin(*CAME_IN), 1).when(event.isin(*WENT_OUT), -1).otherwise(0)


def _sum(names: tuple[str, ...]) -> Column:
    total = sf.lit(0)
    for name in names:
        total = total + sf.col(name)
    return total
