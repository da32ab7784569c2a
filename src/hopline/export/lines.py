"""Lines of a file: each has the spans of one trace, and no more of them than any reader takes at once."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

SPANS_A_LINE = 500

LINES = StructType(
    [
        StructField("value", StringType()),
        StructField("part", IntegerType()),  # 0 for the first line of a trace
        StructField("spans", IntegerType()),
    ]
)


def with_part(spans: DataFrame, limit: int = SPANS_A_LINE) -> DataFrame:
    """Add `part`: which line of its trace a span stands in. Spans are in order of time."""
    in_order = Window.partitionBy("trace_id").orderBy("start_us", "span_id")
    nth = sf.row_number().over(in_order) - 1
    return spans.withColumn("part", sf.floor(nth / limit).cast("int"))


def joined(json: Column) -> Column:
    """Return JSON documents of a group, in order of time, with commas between them."""
    in_order = sf.array_sort(sf.collect_list(sf.struct("start_us", "span_id", json.alias("json"))))
    return sf.array_join(in_order["json"], ",")
