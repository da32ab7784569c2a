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
    json_list = sf.concat(sf.lit("["), "json", sf.lit("]"))
    return (
        divided(spans, _span())
        .groupBy("trace_id", "part")
        .agg(
            joined().alias("json"),
            sf.count("*").alias("spans"),
        )
        .select(
            json_list.alias("value"),
            "part",
            sf.col("spans").cast("int"),
        )
        .to(LINES)
    )


def _span() -> Column:
    start_us = sf.nullif(sf.col("start_us"), sf.lit(0))
    elapsed_us = sf.col("end_us") - sf.col("start_us")
    duration_us = sf.greatest(elapsed_us, sf.lit(1))  # 0 would mean that it is unknown
    node = printable_name(sf.col("node"))
    service_name = sf.lower(node).alias("serviceName")
    return sf.to_json(
        sf.struct(
            sf.col("trace_id").alias("traceId"),
            sf.col("span_id").alias("id"),
            sf.col("parent_span_id").alias("parentId"),
            "kind",
            sf.lower("name").alias("name"),
            start_us.alias("timestamp"),
            sf.when(start_us.isNotNull(), duration_us).alias("duration"),
            sf.struct(service_name).alias("localEndpoint"),
            sf.transform("events", _annotation).alias("annotations"),
            _tags().alias("tags"),
        )
    )


def _tags() -> Column:
    is_error = sf.col("status") == ERROR
    error = sf.when(is_error, sf.coalesce("status_text", sf.lit("")))
    dropped_events = sf.nullif(sf.col("dropped_events"), sf.lit(0))
    optional_tags = sf.array(
        _tag(sf.lit("error"), error),
        _tag(sf.lit("hopline.dropped_events"), dropped_events.cast("string")),
    )
    tags = sf.concat(
        sf.transform("attributes", _attribute_tag),
        sf.transform("links", _link_tag),
        sf.filter(optional_tags, _has_value),
    )
    return sf.map_from_entries(tags)


def _attribute_tag(attribute: Column) -> Column:
    return _tag(attribute["key"], _text(attribute))


def _link_tag(link: Column) -> Column:
    meaning = _text(link["attributes"][0])
    key = sf.concat(sf.lit("hopline.link."), meaning)
    return _tag(key, link["span_id"])


def _has_value(tag: Column) -> Column:
    return tag["value"].isNotNull()


def _tag(key: Column, value: Column) -> Column:
    return sf.struct(key.alias("key"), value.alias("value"))


def _annotation(event: Column) -> Column:
    pairs = sf.transform(event["attributes"], _pair)
    all_pairs = sf.array_join(pairs, " ")
    line = sf.concat_ws(" ", event["name"], all_pairs)
    return sf.struct(
        event["time_us"].alias("timestamp"),
        line.alias("value"),
    )


def _pair(attribute: Column) -> Column:
    """Return an attribute of an event as ``key=value``."""
    short_key = sf.replace(attribute["key"], sf.lit("hopline."))
    return sf.concat(short_key, sf.lit("="), _text(attribute))


def _text(attribute: Column) -> Column:
    return sf.coalesce(
        attribute["text"],
        attribute["number"].cast("string"),
        attribute["flag"].cast("string"),
    )
