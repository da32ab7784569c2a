"""Lines of a file: each has spans of one trace, and no more of them than any reader takes at once."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

SPANS_A_LINE = 500
BYTES_A_LINE = 1 << 20  # a span that crosses it is the last

LINES = StructType(
    [
        StructField("value", StringType()),
        StructField("part", IntegerType()),  # 0 for the first line of a trace
        StructField("spans", IntegerType()),
    ]
)


def divided(spans: DataFrame, json: Column) -> DataFrame:
    """Return each span as `json`, with the line of its trace that it stands in (`part`), in order of time."""
    in_order = Window.partitionBy("trace_id").orderBy("start_us", "span_id")
    before = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    spans_before = sf.row_number().over(in_order) - 1
    size = sf.octet_length("json")
    sum_before = sf.sum(size).over(before)
    bytes_before = sf.coalesce(sum_before, sf.lit(0))
    full_by_spans = sf.floor(spans_before / SPANS_A_LINE)
    full_by_bytes = sf.floor(bytes_before / BYTES_A_LINE)
    # Neither ever decreases, so that their sum changes whenever one of them does.
    part = full_by_spans + full_by_bytes
    written = spans.select(
        "trace_id",
        "node",
        "start_us",
        "span_id",
        json.alias("json"),
    )
    return written.withColumn("part", part.cast("int"))


def joined() -> Column:
    """Return the `json` of a group, in order of time, with commas between."""
    span = sf.struct("start_us", "span_id", "json")
    spans = sf.collect_list(span)
    in_order = sf.array_sort(spans)
    return sf.array_join(in_order["json"], ",")
