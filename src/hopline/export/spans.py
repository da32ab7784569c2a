"""Spans, one row each: producers and consumers of messages, and what caused them.

Theory of operation
-------------------
A trace is a journey. Each submission of a message is a producer span, each delivery a consumer span below it. The
producer span of what a handler submits lies below the consumer span of that handler: its `submitted` record names the
record of the delivery as its cause. So the tree of spans is the tree of causes, through all flows of the journey.

Where a capture does not have the cause (level `wire`, and reports of the router), what the node had received or
delivered of the flow last is taken for it, as the table of flows does. Nothing else is guessed: a message whose cause
was lost from the capture has no parent. Causes are looked up inside the trace, so that every parent is in it.

Times are those of the node that recorded them. No clock is adjusted: a consumer span may begin before its producer
span. The estimated difference is an attribute.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.export import attributes as at
from hopline.export.events import events, micros
from hopline.export.records import CONSUMED, MESSAGE, is_producer, origins, with_spans
from hopline.export.text import printable_name, printable_text
from hopline.pipeline.tables.by_flow import EXCEPTION, RECEIPT, flag, is_event

SYSTEM = "hopline"
UNKNOWN_ERROR = "_OTHER"  # OpenTelemetry's word for it
FAILED_FLOWS = ("failed", "expired", "unanswered")
FAILED_CALLBACKS = ("exception", "late", "expired", "unanswered")

_SPAN = ("trace_id", "span_id")


def spans(
    records: DataFrame, flows: DataFrame, journeys: DataFrame, hops: DataFrame, callbacks: DataFrame
) -> DataFrame:
    """Return the spans of some journeys, with the columns of `SPANS`.

    Args:
        records: The result of `records`.
        flows: Rows of the table of flows, with the columns of `with_cuts`: all that the records belong to.
        journeys: The table of journeys.
        hops: The table of hops.
        callbacks: The table of callbacks.
    """
    first_spans = origins(records)
    traced = with_spans(records, first_spans)
    happened = events(traced, first_spans, hops)
    return _producers(traced, happened, flows, journeys, callbacks).unionByName(_consumers(traced, hops))


def _producers(
    traced: DataFrame, happened: DataFrame, flows: DataFrame, journeys: DataFrame, callbacks: DataFrame
) -> DataFrame:
    made = traced.where(is_producer())
    rows = (
        _with_flow(made, flows, journeys)
        .join(_callers(made, callbacks), ["flow_id", "callback_id"], "left")
        .join(_causes(traced), [*_SPAN], "left")
        .join(_predecessors(traced), [*_SPAN], "left")
        .join(happened, [*_SPAN], "left")
    )
    is_request = flag(sf.col("span_id") == sf.col("request_id"))
    rows = rows.withColumn("callback_outcome", sf.when(is_request, sf.col("callback_outcome")))
    start_us = micros("ts")
    return rows.select(
        *_SPAN,
        sf.coalesce("cause_id", "predecessor_id").alias("parent_span_id"),
        sf.lit(at.PRODUCER).alias("kind"),
        _name("send").alias("name"),
        "node",
        start_us.alias("start_us"),
        sf.greatest(start_us, "left_us").alias("end_us"),
        at.attributes(
            *_message_attributes("send"),
            at.name("hopline.first_event", sf.col("event")),  # of a damaged capture it may be anything
            at.number("hopline.ttl_us", sf.nullif(sf.col("ttl_us"), sf.lit(0))),
            at.word("hopline.flow.outcome", sf.col("flow_outcome")),
            at.number("hopline.flow.duration_us", sf.col("flow_duration_us")),
            at.number("hopline.flow.skew_us", sf.col("flow_skew_us")),
            at.number("hopline.flow.messages", sf.col("flow_messages")),
            at.name("hopline.journey.id", sf.col("journey_id")),
            at.word("hopline.journey.outcome", sf.col("journey_outcome")),
            at.number("hopline.journey.flows", sf.col("journey_flows")),
            at.number("hopline.journey.dropped_records", sf.col("journey_dropped_records")),
            at.word("hopline.callback.outcome", sf.col("callback_outcome")),
            at.number("hopline.callback.latency_us", sf.when(is_request, sf.col("latency_us"))),
            at.word("error.type", sf.coalesce("failure", _failed_callback(), _failed_flow())),
        ).alias("attributes"),
        sf.coalesce("events", sf.array().cast("array<" + at.EVENT.simpleString() + ">")).alias("events"),
        sf.coalesce("dropped_events", sf.lit(0)).alias("dropped_events"),
        _links(sf.when(sf.col("is_reply") & ~is_request, sf.col("request_id")), "request").alias("links"),
        _producer_status().alias("status"),
        _failures().alias("status_text"),
    ).to(at.SPANS)


def _consumers(traced: DataFrame, hops: DataFrame) -> DataFrame:
    is_delivered, is_handled, is_resolved = (is_event(one) for one in CONSUMED)
    of_delivery = sf.when(is_delivered, sf.col("producer_id"))
    consumed = (
        traced.where(is_event(*CONSUMED))
        .groupBy(*_SPAN, *MESSAGE, "node")
        .agg(
            sf.min(sf.when(is_delivered, sf.unix_micros("ts"))).alias("delivered_us"),
            sf.max(sf.when(is_delivered, sf.col("duration_us"))).alias("wait_us"),
            sf.max(sf.when(is_handled, sf.unix_micros("ts"))).alias("handled_us"),
            sf.max(sf.when(is_handled, sf.col("duration_us"))).alias("run_us"),
            sf.max(sf.when(is_handled, sf.col("reason"))).alias("reason"),
            sf.max(sf.when(is_resolved, sf.unix_micros("ts"))).alias("resolved_us"),
            sf.coalesce(sf.max(of_delivery), sf.max("producer_id")).alias("producer_id"),
            sf.min("seq").alias("seq"),
            sf.max("arrival.peer").alias("peer"),
            *(sf.max(name).alias(name) for name in _OF_MESSAGE),
        )
    )
    clocks = hops.groupBy(*MESSAGE, sf.col("from_node").alias("peer"), sf.col("to_node").alias("node")).agg(
        sf.max("skew_us").alias("skew_us"), sf.max("skew_bound_us").alias("skew_bound_us")
    )
    began_us = sf.coalesce("delivered_us", sf.col("handled_us") - sf.col("run_us"), "handled_us", "resolved_us")
    start_us = sf.greatest(sf.coalesce(began_us, sf.lit(0)), sf.lit(0))
    ended_us = sf.coalesce(began_us + sf.col("run_us"), "handled_us", "resolved_us", sf.lit(0))
    return (
        consumed.join(clocks, [*MESSAGE, "peer", "node"], "left")
        .select(
            *_SPAN,
            sf.col("producer_id").alias("parent_span_id"),
            sf.lit(at.CONSUMER).alias("kind"),
            _name("process").alias("name"),
            "node",
            start_us.alias("start_us"),
            sf.greatest(start_us, ended_us).alias("end_us"),
            at.attributes(
                *_message_attributes("process"),
                at.number("hopline.wait_us", sf.col("wait_us")),
                at.number("hopline.run_us", sf.col("run_us")),
                at.name("hopline.peer", sf.col("peer")),
                at.number("hopline.skew_us", sf.col("skew_us")),
                at.number("hopline.skew_bound_us", sf.col("skew_bound_us")),
                at.name("error.type", _error_type(sf.col("reason"))),
            ).alias("attributes"),
            sf.array().cast("array<" + at.EVENT.simpleString() + ">").alias("events"),
            sf.lit(0).alias("dropped_events"),
            _links(sf.col("producer_id"), "message").alias("links"),
            sf.when(sf.col("reason").isNotNull(), at.ERROR).alias("status"),
            printable_text(sf.col("reason")).alias("status_text"),
        )
        .to(at.SPANS)
    )


def _with_flow(made: DataFrame, flows: DataFrame, journeys: DataFrame) -> DataFrame:
    """Add what is known of the flow to the span that begins it, and of the journey to the span that begins that."""
    whole = journeys.select(
        sf.col("journey_id").alias("flow_id"),
        sf.col("outcome").alias("journey_outcome"),
        sf.col("flows").alias("journey_flows"),
    )
    about = flows.select(
        *("flow_id", "origin", "start_ts", "journey_id"),
        sf.col("dropped_records").alias("journey_dropped_records"),
        *(sf.col(name).alias(f"flow_{name}") for name in ("outcome", "duration_us", "skew_us", "messages")),
    ).join(whole, "flow_id", "left")
    is_start = flag((sf.col("node") == sf.col("origin")) & (sf.col("ts") == sf.col("start_ts")))
    first = Window.partitionBy("flow_id").orderBy(sf.desc(is_start), "trail", "ts", "node", "seq")
    begins = sf.col("nth_of_flow") == 1
    begins_journey = begins & (sf.col("journey_id") == sf.col("flow_id"))
    names = [name for name in about.columns if name.startswith(("flow_", "journey_")) and name != "flow_id"]
    return (
        made.join(about, "flow_id")
        .withColumn("nth_of_flow", sf.row_number().over(first))
        .withColumns(
            {name: sf.when(begins if name.startswith("flow_") else begins_journey, sf.col(name)) for name in names}
        )
    )


def _callers(made: DataFrame, callbacks: DataFrame) -> DataFrame:
    """Return one row a callback: the span of the request, and how it ended."""
    sender = sf.when(is_event(Event.RECEIVED), sf.col("peer")).otherwise(sf.col("node"))
    asked_node = sf.coalesce(sf.nullif(sf.col("home"), sf.lit("")), sender)
    request = sf.min(sf.struct("request_rank", "trail", "ts", "node", "seq", "span_id", asked_node.alias("asked_node")))
    requests = (
        made.where(sf.col("callback_id").isNotNull() & sf.col("request_rank").isNotNull())
        .withColumn("callback_key", sf.coalesce("callback_key", sf.lit(0)))
        .groupBy("flow_id", "callback_id", sf.col("callback_receiver").alias("asked_receiver"), "callback_key")
        .agg(request.alias("request"))
        .withColumns({"request_id": sf.col("request.span_id"), "asked_node": sf.col("request.asked_node")})
        .drop("request")
    )
    keys = ["flow_id", "asked_node", "asked_receiver", "callback_key"]
    answered = callbacks.select(*keys, sf.col("outcome").alias("callback_outcome"), "latency_us")
    # A callback has one row; more than one would only be there in inconsistent tables, and double the spans.
    return (
        requests.join(answered, keys, "left")
        .dropDuplicates(["flow_id", "callback_id"])
        .select("flow_id", "callback_id", "request_id", "callback_outcome", "latency_us")
    )


def _causes(traced: DataFrame) -> DataFrame:
    """Return the span of the record that each submission names as its cause, where the trace has it."""
    is_caused = is_event(Event.SUBMITTED) & (sf.col("cause") < sf.col("seq"))
    effects = traced.where(is_producer() & is_caused).select(*_SPAN, "node", "ts", "cause")
    causes = traced.where(is_event(Event.DELIVERED, Event.RECEIVED, Event.SUBMITTED)).select(
        "trace_id",
        "node",
        sf.col("seq").alias("cause"),
        sf.col("ts").alias("cause_ts"),
        sf.col("span_id").alias("cause_id"),
    )
    # A node that counted from the beginning again has several records of one number: the nearest in time is meant.
    apart_us = sf.abs(sf.unix_micros("ts") - sf.unix_micros("cause_ts"))
    nearest = sf.min(sf.struct(apart_us.alias("apart_us"), "cause_id"))
    return (
        effects.join(causes, ["trace_id", "node", "cause"])
        .where(sf.col("cause_id") != sf.col("span_id"))
        .groupBy(*_SPAN)
        .agg(nearest["cause_id"].alias("cause_id"))
    )


def _predecessors(traced: DataFrame) -> DataFrame:
    """Return for submissions that name no cause what their node had received or delivered of the flow last."""
    is_report = flag(sf.col("identity").isin(EXCEPTION, RECEIPT))
    is_unexplained = sf.col("cause").isNull() & (is_event(Event.SENT) | (is_event(Event.SUBMITTED) & is_report))
    came_in = sf.when(is_event(Event.RECEIVED, Event.DELIVERED), sf.struct("message_id", "span_id"))
    before = (
        Window.partitionBy("flow_id", "node")
        .orderBy("seq", "ts")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    )
    return (
        traced.select(
            *_SPAN,
            *MESSAGE,
            "node",
            "seq",
            "ts",
            came_in.alias("came_in"),
            (is_producer() & is_unexplained).alias("is_unexplained"),
        )
        .withColumn("last", sf.last("came_in", ignorenulls=True).over(before))
        .where(sf.col("is_unexplained") & (sf.col("last.message_id") != sf.col("message_id")))
        .select(*_SPAN, sf.col("last.span_id").alias("predecessor_id"))
    )


_OF_MESSAGE = (
    *("identity", "version", "partition", "wire_format", "hops", "distribution", "body_bytes", "domain"),
    *("local_receiver", "handler"),
)


def _message_attributes(operation: str) -> list[Column]:
    """Return what OpenTelemetry's messaging conventions ask for, and what Hopline has besides."""
    message_id = sf.lower(sf.lpad(sf.hex("message_id"), 16, "0"))
    return [
        at.word("messaging.system", sf.lit(SYSTEM)),
        at.word("messaging.operation.name", sf.lit(operation)),
        at.word("messaging.operation.type", sf.lit(operation)),
        at.name("messaging.destination.name", sf.col("identity")),
        at.name("messaging.destination.partition.id", _some("partition")),
        at.word("messaging.message.id", message_id),
        at.name("messaging.message.conversation_id", sf.col("flow_id")),
        at.number("messaging.message.body.size", sf.col("body_bytes")),
        at.name("messaging.client.id", sf.col("node")),
        at.name("code.function.name", sf.col("handler")),
        at.name("hopline.actor", _some("local_receiver")),
        at.name("hopline.version", sf.col("version")),
        at.name("hopline.domain", _some("domain")),
        at.word("hopline.wire_format", sf.col("wire_format")),
        at.number("hopline.hops", sf.col("hops")),
        at.flag("hopline.broadcast", sf.col("distribution") == 1),
        at.number("hopline.seq", sf.col("seq")),
    ]


def _links(span_id: Column, meaning: str) -> Column:
    link = sf.struct(
        span_id.alias("span_id"), at.attributes(at.word("hopline.link", sf.lit(meaning))).alias("attributes")
    )
    return sf.filter(sf.array(link), lambda one: one["span_id"].isNotNull())


def _producer_status() -> Column:
    is_failed = _failures().isNotNull()
    return sf.when(is_failed, at.ERROR).when(sf.col("flow_outcome") == "complete", at.OK)


def _failures() -> Column:
    """Return what went wrong with a message, and with the flow and the callback that it began; null if nothing did."""
    flow_text = sf.concat(sf.lit("flow "), _failed_flow())
    callback_text = sf.concat(sf.lit("callback "), _failed_callback())
    return sf.nullif(sf.concat_ws("; ", flow_text, callback_text, "failure_text"), sf.lit(""))


def _failed_flow() -> Column:
    return sf.when(sf.col("flow_outcome").isin(*FAILED_FLOWS), sf.col("flow_outcome"))


def _failed_callback() -> Column:
    return sf.when(sf.col("callback_outcome").isin(*FAILED_CALLBACKS), sf.col("callback_outcome"))


def _error_type(reason: Column) -> Column:
    """Return the type of the error that a handler ended with; null if it ended well."""
    type_name = sf.regexp_extract(reason, "^([^:]*)", 1)
    return sf.when(type_name == "", sf.lit(UNKNOWN_ERROR)).otherwise(type_name)


def _name(operation: str) -> Column:
    return sf.concat_ws(" ", sf.lit(operation), printable_name(sf.col("identity")))


def _some(column: str) -> Column:
    """Return a text, null where it is empty."""
    return sf.nullif(sf.col(column), sf.lit(""))
