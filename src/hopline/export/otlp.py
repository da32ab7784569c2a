"""OTLP: spans as OpenTelemetry's protocol writes them in JSON, one ExportTraceServiceRequest a line.

The rules of OTLP/JSON beside those of protobuf's own JSON: ids are hexadecimal, enumerations are numbers, names are in
lowerCamelCase. 64-bit numbers are decimal text. What has no value is left out.
"""

from __future__ import annotations

import json
from importlib import metadata

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hopline.export.attributes import CONSUMER, ERROR, OK, PRODUCER
from hopline.export.lines import LINES, divided, joined
from hopline.export.text import printable_name

START, END = '{"resourceSpans":[', "]}"
"""What a line begins and ends with, so that several become one by their text alone."""

_LAST_US = (2**63 - 1) // 1_000  # year 2262: readers keep nanoseconds in 64 bits, and refuse what is later
_KINDS = {PRODUCER: 4, CONSUMER: 5}
_STATUS_CODES = {OK: 1, ERROR: 2}


def lines(spans: DataFrame) -> DataFrame:
    """Return spans as lines, with the columns of `LINES`: the spans of a trace by node, which is their resource."""
    of_nodes = (
        divided(spans, _span())
        .groupBy("trace_id", "part", "node")
        .agg(
            joined().alias("json"),
            sf.count("*").alias("spans"),
        )
        .withColumn("json", _resource_spans())
    )
    of_trace = sf.collect_list(sf.struct("node", "json"))
    in_order = sf.array_sort(of_trace)
    request = sf.concat(sf.lit(START), "json", sf.lit(END))
    return (
        of_nodes.groupBy("trace_id", "part")
        .agg(
            sf.array_join(in_order["json"], ",").alias("json"),
            sf.sum("spans").alias("spans"),
        )
        .select(
            request.alias("value"),
            "part",
            sf.col("spans").cast("int"),
        )
        .to(LINES)
    )


def _resource_spans() -> Column:
    node = printable_name(sf.col("node"))
    service = sf.struct(
        sf.lit("service.name").alias("key"),
        _any_value(text=node),
    )
    attributes = sf.array(service).alias("attributes")
    resource = sf.to_json(sf.struct(attributes))
    scope = json.dumps({"name": "hopline", "version": _version()})
    return sf.concat(
        sf.lit('{"resource":'),
        resource,
        sf.lit(f',"scopeSpans":[{{"scope":{scope},"spans":['),
        "json",
        sf.lit("]}]}"),
    )


def _span() -> Column:
    has_status = sf.col("status").isNotNull()
    status = sf.struct(
        sf.col("status_text").alias("message"),
        _number_of("status", _STATUS_CODES).alias("code"),
    )
    dropped_events = sf.nullif(sf.col("dropped_events"), sf.lit(0))
    return sf.to_json(
        sf.struct(
            sf.col("trace_id").alias("traceId"),
            sf.col("span_id").alias("spanId"),
            sf.col("parent_span_id").alias("parentSpanId"),
            "name",
            _number_of("kind", _KINDS).alias("kind"),
            _nanos(sf.col("start_us")).alias("startTimeUnixNano"),
            _nanos(sf.col("end_us")).alias("endTimeUnixNano"),
            sf.transform("attributes", _attribute).alias("attributes"),
            sf.transform("events", _event).alias("events"),
            dropped_events.alias("droppedEventsCount"),
            sf.transform("links", _link).alias("links"),
            sf.when(has_status, status).alias("status"),
        )
    )


def _event(event: Column) -> Column:
    return sf.struct(
        _nanos(event["time_us"]).alias("timeUnixNano"),
        event["name"].alias("name"),
        sf.transform(event["attributes"], _attribute).alias("attributes"),
    )


def _link(link: Column) -> Column:
    return sf.struct(
        sf.col("trace_id").alias("traceId"),
        link["span_id"].alias("spanId"),
        sf.transform(link["attributes"], _attribute).alias("attributes"),
    )


def _attribute(attribute: Column) -> Column:
    value = _any_value(
        text=attribute["text"],
        number=attribute["number"],
        flag=attribute["flag"],
    )
    return sf.struct(attribute["key"].alias("key"), value)


def _any_value(text: Column, number: Column | None = None, flag: Column | None = None) -> Column:
    fields = [text.alias("stringValue")]
    if number is not None:
        digits = number.cast("string")
        fields.append(digits.alias("intValue"))
    if flag is not None:
        fields.append(flag.alias("boolValue"))
    return sf.struct(*fields).alias("value")


def _nanos(micros: Column) -> Column:
    limited = sf.least(micros, sf.lit(_LAST_US))
    nanos = sf.concat(limited.cast("string"), sf.lit("000"))
    is_zero = micros == 0
    return sf.when(is_zero, sf.lit("0")).otherwise(nanos)


def _number_of(column: str, numbers: dict[str, int]) -> Column:
    number = sf.lit(None).cast("int")
    for name, value in numbers.items():
        is_it = sf.col(column) == name
        number = sf.when(is_it, value).otherwise(number)
    return number


def _version() -> str:
    try:
        return metadata.version("hopline")
    except metadata.PackageNotFoundError:  # shipped without being installed
        return "unknown"
