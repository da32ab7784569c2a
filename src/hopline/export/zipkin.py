"""Zipkin: spans as its v2 API takes them in JSON, one list of spans a line.

Zipkin has tags of text, annotations without tags, and no links. So attributes are tags, an event is an annotation of
one line, and a link is a tag with the id of the span.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hopline.export.attributes import ERROR
from hopline.export.lines import LINES, divided, joined
from hopline.export.text import printable_name


def lines(spans: DataFrame) -> DataFrame:
    """Return spans as lines, with the columns of `LINES`."""
    return (
        divided(spans, _span())
        .groupBy("trace_id", "part")
        .agg(joined().alias("json"), sf.count("*").alias("spans"))
        .select(sf.concat(sf.lit("["), "json", sf.lit("]")).alias("value"), "part", sf.col("spans").cast("int"))
        .to(LINES)
    )


def _span() -> Column:
    start_us = sf.nullif(sf.col("start_us"), sf.lit(0))
    duration_us = sf.greatest(sf.col("end_us") - sf.col("start_us"), sf.lit(1))  # 0 would mean that it is unknown
    service = sf.lower(printable_name(sf.col("node")))
    return sf.to_json(
        sf.struct(
            sf.col("trace_id").alias("traceId"),
            sf.col("span_id").alias("id"),
            sf.col("parent_span_id").alias("parentId"),
            "kind",
            sf.lower("name").alias("name"),
            start_us.alias("timestamp"),
            sf.when(start_us.isNotNull(), duration_us).alias("duration"),
            sf.struct(service.alias("serviceName")).alias("localEndpoint"),
            sf.transform("events", _annotation).alias("annotations"),
            _tags().alias("tags"),
        )
    )


def _tags() -> Column:
    own = sf.transform("attributes", lambda one: _tag(one["key"], _text(one)))
    links = sf.transform(
        "links", lambda one: _tag(sf.concat(sf.lit("hopline.link."), _text(one["attributes"][0])), one["span_id"])
    )
    error = sf.when(sf.col("status") == ERROR, sf.coalesce("status_text", sf.lit("")))
    dropped = sf.nullif(sf.col("dropped_events"), sf.lit(0)).cast("string")
    others = sf.filter(
        sf.array(_tag(sf.lit("error"), error), _tag(sf.lit("hopline.dropped_events"), dropped)),
        lambda one: one["value"].isNotNull(),
    )
    return sf.map_from_entries(sf.concat(own, links, others))


def _tag(key: Column, value: Column) -> Column:
    return sf.struct(key.alias("key"), value.alias("value"))


def _annotation(event: Column) -> Column:
    pairs = sf.transform(
        event["attributes"], lambda one: sf.concat(sf.replace(one["key"], sf.lit("hopline.")), sf.lit("="), _text(one))
    )
    return sf.struct(
        event["time_us"].alias("timestamp"), sf.concat_ws(" ", event["name"], sf.array_join(pairs, " ")).alias("value")
    )


def _text(attribute: Column) -> Column:
    return sf.coalesce(attribute["text"], attribute["number"].cast("string"), attribute["flag"].cast("string"))
