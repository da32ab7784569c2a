"""Do the books hold? What each node recorded, hour by hour, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from hopline.capture.records import Event
from hopline.pipeline.schemas import AUDIT
from hopline.pipeline.tables.books import BALANCING, CAME_IN, WENT_OUT
from hopline.pipeline.traces import Traces, TracesOfMessages
from hopline.pipeline.traces.spans import NUMBERED, SPANS, spans_of
from hopline.pipeline.windows import day, window_start

_HOUR_S = 3_600
_AT_LEVEL_FULL = (Event.SUBMITTED, Event.DELIVERED, Event.HANDLED)
_COUNTS = ("records", "dropped", "missing", "rejects", *Event, "copies", "balance")


def spans(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    """Give the numbers of each node's records as spans without a gap."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from spans_of([pa.Table.from_batches([batch])]).to_batches()

    numbered = messages.select(*NUMBERED).unionByName(rejects.select(*NUMBERED))
    return numbered.mapInArrow(work, from_arrow_schema(SPANS))


def audit(
    messages: DataFrame, rejects: DataFrame, traces: Traces | None = None, spans_there: DataFrame | None = None
) -> DataFrame:
    """Count what each node recorded by hour, what is missing, and whether what came in went out."""
    numbered = spans(messages, rejects) if spans_there is None else spans_there
    is_full = _sum(_AT_LEVEL_FULL) > 0
    return (
        _by_hour(messages, rejects)
        .unionByName(_gaps(numbered), allowMissingColumns=True)
        .unionByName((traces or TracesOfMessages(messages)).made_by(BALANCING), allowMissingColumns=True)
        .groupBy("node", "hour")
        .agg(*(sf.coalesce(sf.sum(name), sf.lit(0)).alias(name) for name in _COUNTS))
        .withColumn("date", day(sf.col("hour")))
        .withColumn("copies", sf.when(is_full, sf.col("copies")).otherwise(0))
        .withColumn("balance", sf.when(is_full, sf.col("balance")))
        .withColumn("balanced", sf.col("balance") == 0)
        .to(AUDIT)
    )


def _by_hour(messages: DataFrame, rejects: DataFrame) -> DataFrame:
    columns = ("node", "ts", "seq", "event", "dropped")
    records = messages.select(*columns, sf.lit(False).alias("is_reject")).unionByName(
        rejects.select(*columns, sf.lit(True).alias("is_reject"))
    )
    event = sf.col("event")
    return records.groupBy("node", window_start(sf.col("ts"), _HOUR_S).alias("hour")).agg(
        sf.count("*").alias("records"),
        sf.sum("dropped").alias("dropped"),
        sf.count_if("is_reject").alias("rejects"),
        # Nothing tells which of them are the same message: they are balanced hour by hour.
        sf.sum(sf.when(sf.col("is_reject"), _side()).otherwise(0)).alias("balance"),
        *(sf.count_if(event == name).alias(name) for name in Event),
    )


def _gaps(spans: DataFrame) -> DataFrame:
    """Count the numbers that no record has and none says it dropped, in the hour of the record behind the gap."""
    earlier = Window.partitionBy("node").orderBy("first", "ts").rowsBetween(Window.unboundedPreceding, -1)
    gap = sf.col("first") - sf.max("last").over(earlier) - 1 - sf.col("dropped")
    return spans.select(
        "node",
        window_start(sf.col("ts"), _HOUR_S).alias("hour"),
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
