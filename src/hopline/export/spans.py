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
    records: DataFrame,
    flows: DataFrame,
    journeys: DataFrame,
    hops: DataFrame,
    callbacks: DataFrame,
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
    span_events = events(traced, first_spans, hops)
    producers = _producers(traced, span_events, flows, journeys, callbacks)
    consumers = _consumers(traced, hops)
    return producers.unionByName(consumers)


def _producers(
    traced: DataFrame,
    span_events: DataFrame,
    flows: DataFrame,
    journeys: DataFrame,
    callbacks: DataFrame,
) -> DataFrame:
    made = traced.where(is_producer())
    rows = (
        _with_flow(made, flows, journeys)
        .join(_callers(made, callbacks), ["flow_id", "callback_id"], "left")
        .join(_causes(traced), [*_SPAN], "left")
        .join(_predecessors(traced), [*_SPAN], "left")
        .join(span_events, [*_SPAN], "left")
    )
    request_id = sf.col("request_id")
    is_request = flag(sf.col("span_id") == request_id)
    callback_outcome = sf.when(is_request, sf.col("callback_outcome"))
    rows = rows.withColumn("callback_outcome", callback_outcome)
    latency_us = sf.when(is_request, sf.col("latency_us"))
    ttl_us = sf.nullif(sf.col("ttl_us"), sf.lit(0))
    error_type = sf.coalesce("failure", _failed_callback(), _failed_flow())
    is_answer = sf.col("is_reply") & ~is_request
    answered_request = sf.when(is_answer, request_id)
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
            at.name("hopline.first_event", "event"),  # of a damaged capture it may be anything
            at.number("hopline.ttl_us", ttl_us),
            at.word("hopline.flow.outcome", "flow_outcome"),
            at.number("hopline.flow.duration_us", "flow_duration_us"),
            at.number("hopline.flow.skew_us", "flow_skew_us"),
            at.number("hopline.flow.messages", "flow_messages"),
            at.name("hopline.journey.id", "journey_id"),
            at.word("hopline.journey.outcome", "journey_outcome"),
            at.number("hopline.journey.flows", "journey_flows"),
            at.number("hopline.journey.dropped_records", "journey_dropped_records"),
            at.word("hopline.callback.outcome", "callback_outcome"),
            at.number("hopline.callback.latency_us", latency_us),
            at.word("error.type", error_type),
        ).alias("attributes"),
        sf.coalesce("events", _no_events()).alias("events"),
        sf.coalesce("dropped_events", sf.lit(0)).alias("dropped_events"),
        _links(answered_request, "request").alias("links"),
        _producer_status().alias("status"),
        _failures().alias("status_text"),
    ).to(at.SPANS)


def _consumers(traced: DataFrame, hops: DataFrame) -> DataFrame:
    zero = sf.lit(0)
    reason = sf.col("reason")
    run_us = sf.col("run_us")
    before_run_us = sf.col("handled_us") - run_us
    began_us = sf.coalesce("delivered_us", before_run_us, "handled_us", "resolved_us")
    after_run_us = began_us + run_us
    ended_us = sf.coalesce(after_run_us, "handled_us", "resolved_us", zero)
    known_start_us = sf.coalesce(began_us, zero)
    start_us = sf.greatest(known_start_us, zero)
    consumed = _consumed(traced)
    skews = _skews(hops)
    return (
        consumed.join(skews, [*MESSAGE, "peer", "node"], "left")
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
                at.number("hopline.wait_us", "wait_us"),
                at.number("hopline.run_us", "run_us"),
                at.name("hopline.peer", "peer"),
                at.number("hopline.skew_us", "skew_us"),
                at.number("hopline.skew_bound_us", "skew_bound_us"),
                at.name("error.type", _error_type(reason)),
            ).alias("attributes"),
            _no_events().alias("events"),
            sf.lit(0).alias("dropped_events"),
            _links(sf.col("producer_id"), "message").alias("links"),
            sf.when(reason.isNotNull(), at.ERROR).alias("status"),
            printable_text(reason).alias("status_text"),
        )
        .to(at.SPANS)
    )


def _consumed(traced: DataFrame) -> DataFrame:
    """Return one row a consumer span: what its records, of a delivery, a handler and a promise, have together."""
    is_delivered, is_handled, is_resolved = [is_event(event) for event in CONSUMED]
    time_us = sf.unix_micros("ts")
    duration_us = sf.col("duration_us")
    delivery_producer = sf.max(sf.when(is_delivered, sf.col("producer_id")))
    any_producer = sf.max("producer_id")
    of_message = [sf.max(name).alias(name) for name in _OF_MESSAGE]
    return (
        traced.where(is_event(*CONSUMED))
        .groupBy(*_SPAN, *MESSAGE, "node")
        .agg(
            sf.min(sf.when(is_delivered, time_us)).alias("delivered_us"),
            sf.max(sf.when(is_delivered, duration_us)).alias("wait_us"),
            sf.max(sf.when(is_handled, time_us)).alias("handled_us"),
            sf.max(sf.when(is_handled, duration_us)).alias("run_us"),
            sf.max(sf.when(is_handled, sf.col("reason"))).alias("reason"),
            sf.max(sf.when(is_resolved, time_us)).alias("resolved_us"),
            sf.coalesce(delivery_producer, any_producer).alias("producer_id"),
            sf.min("seq").alias("seq"),
            sf.max("arrival.peer").alias("peer"),
            *of_message,
        )
    )


def _skews(hops: DataFrame) -> DataFrame:
    """Return how far the clocks of sender and receiver are apart, for each message and pair of nodes."""
    sender = sf.col("from_node").alias("peer")
    receiver = sf.col("to_node").alias("node")
    return hops.groupBy(*MESSAGE, sender, receiver).agg(
        sf.max("skew_us").alias("skew_us"),
        sf.max("skew_bound_us").alias("skew_bound_us"),
    )


def _with_flow(made: DataFrame, flows: DataFrame, journeys: DataFrame) -> DataFrame:
    """Add what is known of the flow to the span that begins it, and of the journey to the span that begins that."""
    whole = journeys.select(
        sf.col("journey_id").alias("flow_id"),
        sf.col("outcome").alias("journey_outcome"),
        sf.col("flows").alias("journey_flows"),
    )
    of_flow = [sf.col(name).alias(f"flow_{name}") for name in ("outcome", "duration_us", "skew_us", "messages")]
    about = flows.select(
        "flow_id",
        "origin",
        "start_ts",
        "journey_id",
        sf.col("dropped_records").alias("journey_dropped_records"),
        *of_flow,
    ).join(whole, "flow_id", "left")
    is_on_origin = sf.col("node") == sf.col("origin")
    is_at_start = sf.col("ts") == sf.col("start_ts")
    is_start = flag(is_on_origin & is_at_start)
    start_first = sf.desc(is_start)
    in_order = Window.partitionBy("flow_id").orderBy(start_first, "trail", "ts", "node", "seq")
    nth_of_flow = sf.row_number().over(in_order)
    is_first_flow = sf.col("journey_id") == sf.col("flow_id")
    begins_flow = sf.col("nth_of_flow") == 1
    begins_journey = begins_flow & is_first_flow
    limited: dict[str, Column] = {}
    for name in about.columns:
        if name == "flow_id":
            continue
        if name.startswith("flow_"):
            limited[name] = sf.when(begins_flow, sf.col(name))
        elif name.startswith("journey_"):
            limited[name] = sf.when(begins_journey, sf.col(name))
    return made.join(about, "flow_id").withColumn("nth_of_flow", nth_of_flow).withColumns(limited)


def _callers(made: DataFrame, callbacks: DataFrame) -> DataFrame:
    """Return one row a callback: the span of the request, and how it ended."""
    is_received = is_event(Event.RECEIVED)
    sender = sf.when(is_received, sf.col("peer")).otherwise(sf.col("node"))
    asked_node = sf.coalesce(_some("home"), sender)
    asked_receiver = sf.col("callback_receiver").alias("asked_receiver")
    request = sf.struct(
        "request_rank",
        "trail",
        "ts",
        "node",
        "seq",
        "span_id",
        asked_node.alias("asked_node"),
    )
    first_request = sf.min(request)
    has_callback = sf.col("callback_id").isNotNull()
    is_request = sf.col("request_rank").isNotNull()
    callback_key = sf.coalesce("callback_key", sf.lit(0))
    requests = (
        made.where(has_callback & is_request)
        .withColumn("callback_key", callback_key)
        .groupBy("flow_id", "callback_id", asked_receiver, "callback_key")
        .agg(first_request.alias("request"))
        .withColumn("request_id", sf.col("request.span_id"))
        .withColumn("asked_node", sf.col("request.asked_node"))
        .drop("request")
    )
    keys = ["flow_id", "asked_node", "asked_receiver", "callback_key"]
    outcome = sf.col("outcome").alias("callback_outcome")
    answered = callbacks.select(*keys, outcome, "latency_us")
    # A callback has one row; more than one would only be there in inconsistent tables, and double the spans.
    return (
        requests.join(answered, keys, "left")
        .dropDuplicates(["flow_id", "callback_id"])
        .select("flow_id", "callback_id", "request_id", "callback_outcome", "latency_us")
    )


def _causes(traced: DataFrame) -> DataFrame:
    """Return the span of the record that each submission names as its cause, where the trace has it."""
    has_earlier_cause = sf.col("cause") < sf.col("seq")
    is_caused = is_event(Event.SUBMITTED) & has_earlier_cause
    is_effect = is_producer() & is_caused
    effects = traced.where(is_effect).select(*_SPAN, "node", "ts", "cause")
    may_be_cause = is_event(Event.DELIVERED, Event.RECEIVED, Event.SUBMITTED)
    causes = traced.where(may_be_cause).select(
        "trace_id",
        "node",
        sf.col("seq").alias("cause"),
        sf.col("ts").alias("cause_ts"),
        sf.col("span_id").alias("cause_id"),
    )
    # A node that counted from the beginning again has several records of one number: the nearest in time is meant.
    after_us = sf.unix_micros("ts") - sf.unix_micros("cause_ts")
    apart_us = sf.abs(after_us).alias("apart_us")
    nearest = sf.min(sf.struct(apart_us, "cause_id"))
    is_other_span = sf.col("cause_id") != sf.col("span_id")
    return (
        effects.join(causes, ["trace_id", "node", "cause"])
        .where(is_other_span)
        .groupBy(*_SPAN)
        .agg(nearest["cause_id"].alias("cause_id"))
    )


def _predecessors(traced: DataFrame) -> DataFrame:
    """Return for submissions that name no cause what their node had received or delivered of the flow last."""
    is_report = flag(sf.col("identity").isin(EXCEPTION, RECEIPT))
    is_submitted_report = is_event(Event.SUBMITTED) & is_report
    has_no_cause = sf.col("cause").isNull()
    is_unexplained = has_no_cause & (is_event(Event.SENT) | is_submitted_report)
    is_arrival = is_event(Event.RECEIVED, Event.DELIVERED)
    arrival = sf.when(is_arrival, sf.struct("message_id", "span_id"))
    before = (
        Window.partitionBy("flow_id", "node")
        .orderBy("seq", "ts")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    )
    last_arrival = sf.last("arrived", ignorenulls=True).over(before)
    is_other_message = sf.col("last.message_id") != sf.col("message_id")
    return (
        traced.select(
            *_SPAN,
            *MESSAGE,
            "node",
            "seq",
            "ts",
            arrival.alias("arrived"),
            (is_producer() & is_unexplained).alias("is_unexplained"),
        )
        .withColumn("last", last_arrival)
        .where(sf.col("is_unexplained") & is_other_message)
        .select(*_SPAN, sf.col("last.span_id").alias("predecessor_id"))
    )


_OF_MESSAGE = (
    "identity",
    "version",
    "partition",
    "wire_format",
    "hops",
    "distribution",
    "body_bytes",
    "domain",
    "local_receiver",
    "handler",
)


def _message_attributes(operation: str) -> list[Column]:
    """Return what OpenTelemetry's messaging conventions ask for, and what Hopline has besides."""
    digits = sf.hex("message_id")
    message_id = sf.lower(sf.lpad(digits, 16, "0"))
    is_broadcast = sf.col("distribution") == 1
    return [
        at.word("messaging.system", sf.lit(SYSTEM)),
        at.word("messaging.operation.name", sf.lit(operation)),
        at.word("messaging.operation.type", sf.lit(operation)),
        at.name("messaging.destination.name", "identity"),
        at.name("messaging.destination.partition.id", _some("partition")),
        at.word("messaging.message.id", message_id),
        at.name("messaging.message.conversation_id", "flow_id"),
        at.number("messaging.message.body.size", "body_bytes"),
        at.name("messaging.client.id", "node"),
        at.name("code.function.name", "handler"),
        at.name("hopline.actor", _some("local_receiver")),
        at.name("hopline.version", "version"),
        at.name("hopline.domain", _some("domain")),
        at.word("hopline.wire_format", "wire_format"),
        at.number("hopline.hops", "hops"),
        at.flag("hopline.broadcast", is_broadcast),
        at.number("hopline.seq", "seq"),
    ]


def _links(span_id: Column, meaning: str) -> Column:
    """Return a list of one link to a span, empty where the span is null."""
    attribute = at.word("hopline.link", sf.lit(meaning))
    link = sf.struct(
        span_id.alias("span_id"),
        at.attributes(attribute).alias("attributes"),
    )
    return sf.filter(sf.array(link), _has_span)


def _has_span(link: Column) -> Column:
    return link["span_id"].isNotNull()


def _no_events() -> Column:
    event_type = at.EVENT.simpleString()
    return sf.array().cast(f"array<{event_type}>")


def _producer_status() -> Column:
    is_failed = _failures().isNotNull()
    is_complete = sf.col("flow_outcome") == "complete"
    return sf.when(is_failed, at.ERROR).when(is_complete, at.OK)


def _failures() -> Column:
    """Return what went wrong with a message, and with the flow and the callback that it began; null if nothing did."""
    flow_text = sf.concat(sf.lit("flow "), _failed_flow())
    callback_text = sf.concat(sf.lit("callback "), _failed_callback())
    failures = sf.concat_ws("; ", flow_text, callback_text, "failure_text")
    return sf.nullif(failures, sf.lit(""))


def _failed_flow() -> Column:
    outcome = sf.col("flow_outcome")
    is_failed = outcome.isin(*FAILED_FLOWS)
    return sf.when(is_failed, outcome)


def _failed_callback() -> Column:
    outcome = sf.col("callback_outcome")
    is_failed = outcome.isin(*FAILED_CALLBACKS)
    return sf.when(is_failed, outcome)


def _error_type(reason: Column) -> Column:
    """Return the type of the error that a handler ended with; null if it ended well."""
    type_name = sf.regexp_extract(reason, "^([^:]*)", 1)
    is_unknown = type_name == ""
    return sf.when(is_unknown, sf.lit(UNKNOWN_ERROR)).otherwise(type_name)


def _name(operation: str) -> Column:
    identity = printable_name(sf.col("identity"))
    return sf.concat_ws(" ", sf.lit(operation), identity)


def _some(column: str) -> Column:
    """Return a text, null where it is empty."""
    return sf.nullif(sf.col(column), sf.lit(""))
