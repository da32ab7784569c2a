"""The records of journeys, each with the span that it belongs to.

Theory of operation
-------------------
A message has a producer span for each of its submissions, and a consumer span for each of its deliveries. All records
of a message carry the same `message_id`, also those of equal messages that were submitted several times: two workers
that return the same result to one flow have made "the same" message. So for every record it has to be decided which
submission it comes from:

* the last submission of the message on the same node before it, by number, unless the message arrived there later;
* else a submission on the node that it arrived from;
* else, as for messages that several nodes sent on, the first submission of the message.

Of a message without a submission in the captures (level `wire` has none) the first record takes that place: where it
was sent first, else where it was first received, by hop count, time, node and number.

Everything here is a window or an aggregate over the records of one message, which come together in one exchange.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.export.ids import consumer_id, producer_id, trace_id
from hopline.export.limits import is_within_limit
from hopline.pipeline.tables.by_flow import (
    callback_id,
    has_callback,
    is_event,
    is_offence,
    is_reply,
    name_of_handler,
    request_rank,
    text,
    trail,
)

MESSAGE = ("flow_id", "message_id")
CONSUMED = (Event.DELIVERED, Event.HANDLED, Event.RESOLVED)

_CARRIED = (
    *("ts", "seq", "node", "event", "peer", "local_receiver", "cause", "duration_us", "reason"),
    *("identity", "version", "partition", "wire_format", "hops", "distribution", "body_bytes", "domain", "ttl_us"),
    *("callback_receiver", "callback_key"),
)
_OF_JOURNEY = ("journey_id", "origin", "start_ts", "last")


def is_usable() -> Column:
    """Return whether spans are made of a row of the table of messages: it is authentic and has an event."""
    has_node = sf.col("node").isNotNull()
    has_event = sf.col("event").isNotNull()
    return has_node & has_event & ~is_offence()


def records(messages: DataFrame, flows: DataFrame) -> DataFrame:
    """Return the records of some flows, without forged ones, with what each means to its message.

    All spans are made of the result: persist it rather than compute it again.

    Args:
        messages: The table of messages.
        flows: The rows of the table of flows whose records are returned, with the columns of `with_cuts`.
    """
    trace = trace_id(sf.col("journey_id")).alias("trace_id")
    traces = flows.select("flow_id", *_OF_JOURNEY, trace)
    usable = messages.where(is_usable()).select(
        *MESSAGE,
        *_CARRIED,
        name_of_handler().alias("handler"),
        trail().alias("trail"),
        text("callback_receiver_node").alias("home"),
        sf.when(has_callback(), callback_id()).alias("callback_id"),
        request_rank().alias("request_rank"),
        is_reply().alias("is_reply"),
    )
    traced = usable.join(traces, "flow_id").where(is_within_limit()).drop(*_OF_JOURNEY)
    is_received = is_event(Event.RECEIVED)
    arrival = sf.struct("seq", "peer")
    of_message = Window.partitionBy(*MESSAGE)
    return traced.withColumns(
        {
            "submission_seq": _last(is_submission(), sf.col("seq"), "node"),
            "arrival": _last(is_received, arrival, "node"),
            "delivery_seq": _delivery_seq(),
            "is_first": _is_first(),
            # Which record of a message shows that it is a request does not matter here.
            "request_rank": sf.min("request_rank").over(of_message),
        }
    )


def is_submission() -> Column:
    """Return whether a record is the submission of a message; one with a reason was returned by a link."""
    return is_event(Event.SUBMITTED) & sf.col("reason").isNull()


def is_producer() -> Column:
    """Return whether a producer span begins with a record."""
    return is_submission() | sf.col("is_first")


def origins(records: DataFrame) -> DataFrame:
    """Return one row a message: its first producer span (`first_id`), and that of each node with one (`by_node`)."""
    span_id = producer_id(sf.col("seq"))
    span = sf.struct("trail", "ts", "seq", span_id.alias("span_id"))
    first_span = sf.min(span)
    first_id = sf.when(sf.col("is_first"), span_id)
    by_node = (
        records.where(is_producer())
        .groupBy("trace_id", *MESSAGE, "node")
        .agg(
            first_span["span_id"].alias("span_id"),
            sf.max(first_id).alias("first_id"),
        )
    )
    pairs = sf.collect_list(sf.struct("node", "span_id"))
    return by_node.groupBy("trace_id", *MESSAGE).agg(
        sf.map_from_entries(pairs).alias("by_node"),
        sf.max("first_id").alias("first_id"),
    )


def with_spans(records: DataFrame, origins: DataFrame) -> DataFrame:
    """Add `producer_id`, the producer span that a record comes from, and `span_id`, the span that it is part of."""
    submission_seq = sf.col("submission_seq")
    is_arrival_later = sf.col("arrival.seq") > submission_seq
    arrived_later = sf.coalesce(is_arrival_later, sf.lit(False))
    is_own = submission_seq.isNotNull() & ~arrived_later
    own_producer = producer_id(submission_seq)
    peer_producer = producer_of(sf.col("arrival.peer"))
    producer = sf.when(is_own, own_producer).otherwise(peer_producer)
    consumer = sf.when(is_event(*CONSUMED), consumer_id(sf.col("delivery_seq")))
    return (
        records.join(origins.drop("trace_id"), [*MESSAGE])
        .withColumn("producer_id", producer)
        .withColumn("span_id", sf.coalesce(consumer, "producer_id"))
        .drop("by_node", "first_id")
    )


def producer_of(node: Column) -> Column:
    """Return the producer span of a message on a node, by the columns of `origins`; its first one if there is none."""
    of_node = sf.try_element_at("by_node", node)
    return sf.coalesce(of_node, sf.col("first_id"))


def _last(condition: Column, value: Column, *place: str) -> Column:
    """Return a value of the last record of the same message and place, up to this one, that fulfils a condition."""
    in_order = Window.partitionBy(*MESSAGE, *place).orderBy("seq", "ts")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    value_or_null = sf.when(condition, value)
    return sf.last(value_or_null, ignorenulls=True).over(so_far)


def _delivery_seq() -> Column:
    """Return the number of the delivery that a record is about; its own, where that delivery was not recorded."""
    is_delivered = is_event(Event.DELIVERED)
    named = sf.when(~is_delivered, sf.col("cause"))  # null in older captures
    last = _last(is_delivered, sf.col("seq"), "node", "local_receiver")
    return sf.when(is_event(*CONSUMED), sf.coalesce(named, last, "seq"))


def _is_first() -> Column:
    """Return whether a record is the first submission of its message, or stands for it where there is none."""
    rank = (
        sf.when(is_submission(), 0)
        .when(is_event(Event.SUBMITTED), 1)
        .when(is_event(Event.SENT), 2)
        .when(is_event(Event.RECEIVED), 3)
        .otherwise(4)
    )
    earliest = Window.partitionBy(*MESSAGE).orderBy(rank, "trail", "ts", "node", "seq")
    return sf.row_number().over(earliest) == 1
