"""The one exchange that brings the records of a flow together, and what the tables about flows read off each record.

Theory of operation
-------------------
Hops, callbacks, flows and logical edges all compare records of one flow with each other. So the columns that they need
are shuffled once, by `flow_key`, and kept; every window and aggregate over them has `flow_key` as its first key, which
Spark serves without another exchange. Records without a flow (service messages, above all) are spread by message, so
that no partition has all of them.

What a record means to its flow is decided here, record by record, before the exchange: whether it may be a request,
whether it is an answer that reached the one who waits, how often the flow was sent on so far. The lists that tell it
(callback points, routing trace) then need not travel.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.message import EXCEPTION as EXCEPTION_KIND
from hopline.message import RECEIPT as RECEIPT_KIND

EXCEPTION, RECEIPT = (kind.identity.decode() for kind in (EXCEPTION_KIND, RECEIPT_KIND))
OFFENCES = ("bad_signature", "wrong_domain", "unknown_domain", "replayed")
"""Verdicts on messages that carry the correlation id of a flow without being part of it."""

KIND = ("identity", "version", "partition")
_CARRIED = (
    *("flow_id", "message_id", "fingerprint", "date", "ts", "seq", "node", "event", "peer", "local_receiver"),
    *(
        "receiver_name",
        "handler",
        "cause",
        "duration_us",
        "reason",
        "service",
        "wire_format",
        *KIND,
        "hops",
        "bytes",
        "distribution",
    ),
    *("callback_receiver", "callback_key", "ttl_us", "verdict"),
)


def by_flow(messages: DataFrame) -> DataFrame:
    """Return the records of `messages` partitioned by flow, with what each means to its flow.

    Several tables are made of the result: persist it rather than compute it again.
    """
    is_request = request_rank().isNotNull()
    return messages.select(
        flow_key().alias("flow_key"),
        *_CARRIED,
        sf.coalesce("attempt", sf.lit(1)).alias("attempt"),
        text("callback_receiver_node").alias("home"),
        trail().alias("trail"),
        sf.when(sf.col("flow_id").isNotNull() & has_callback(), callback_id()).alias("callback_id"),
        request_rank().alias("request_rank"),
        sf.when(is_request, request_id()).alias("request_id"),
        sf.when(is_request, sf.col("callbacks")).alias("asked_for"),
        (is_request & asks_for_receipt_only()).alias("is_receipt_enough"),
        comes_home().alias("is_answer"),
        sf.when(comes_home(), _answering_node()).alias("answered_by"),
        (sf.col("identity") == RECEIPT).alias("is_receipt"),
        may_begin().alias("may_begin"),
        is_from_waiting().alias("is_from_waiting"),
    ).repartition("flow_key")


def flow_key() -> Column:
    """Return the number of a record's flow, or that of the message where it belongs to none."""
    # Not by coalesce: the hash of null is a number, too, and all messages without a flow would share it.
    return sf.when(sf.col("flow_id").isNotNull(), sf.xxhash64("flow_id")).otherwise(sf.col("message_id"))


def text(name: str) -> Column:
    """Return a text column in which "not set" is the empty text, however the format says it."""
    return sf.coalesce(sf.col(name), sf.lit(""))


def flag(condition: Column) -> Column:
    """Return a condition that is false where SQL would say null."""
    return sf.coalesce(condition, sf.lit(False))


def name_of_handler() -> Column:
    """Return the class of a record's actor and its method, such as `Stock.reserve`; null where neither is known."""
    return sf.nullif(sf.concat_ws(".", "receiver_name", "handler"), sf.lit(""))


def is_event(*events: Event) -> Column:
    """Return whether a record is one of these events."""
    return flag(sf.col("event").isin(*(event.value for event in events)))


def is_offence() -> Column:
    """Return whether the keys say that a message was forged, or sent again."""
    return flag(sf.col("verdict").isin(*OFFENCES))


def trail() -> Column:
    """Return how often the flow was sent on: a result starts with no hops, but keeps the trace of what it answers."""
    return sf.greatest(sf.coalesce("hops", sf.lit(0)), sf.coalesce(sf.size("routing"), sf.lit(0)))


def has_callback() -> Column:
    """Return whether somebody waits for an answer to the message."""
    return (text("callback_receiver") != "") & (sf.coalesce(sf.size("callbacks"), sf.lit(0)) > 0)


def is_reply() -> Column:
    """Return whether the message is what somebody waits for: the protocol makes the one who waits its receiver."""
    # Nearly all messages have no receiver: that is asked first, and the list of kinds last.
    return flag(
        (text("receiver") != "")
        & (text("receiver") == text("callback_receiver"))
        & (text("receiver_node") == text("callback_receiver_node"))
        & sf.array_contains("callbacks", sf.struct(*KIND))
    )


def is_home() -> Column:
    """Return whether this is the node of the one who waits; any may be where the format does not name it."""
    home = text("callback_receiver_node")
    return (home == "") | flag(sf.col("node") == home)


def comes_home() -> Column:
    """Return whether the record shows that a reply reached the one who waits."""
    return is_event(Event.RECEIVED, Event.DELIVERED, Event.RESOLVED) & is_home() & is_reply()


def asks_for_receipt_only() -> Column:
    """Return whether a receipt is the answer that is waited for."""
    wanted = sf.col("callbacks.identity")
    others = sf.array_except(wanted, sf.array(sf.lit(RECEIPT), sf.lit(EXCEPTION)))
    return flag(sf.array_contains(wanted, RECEIPT) & (sf.size(others) == 0))


def may_begin() -> Column:
    """Return whether a flow may begin with the message: receipts, exceptions and replies begin nothing."""
    is_report = flag(sf.col("identity").isin(EXCEPTION, RECEIPT))
    return ~is_report & (is_event(Event.SUBMITTED) | ~is_reply())


def is_from_waiting() -> Column:
    """Return whether the one who waits submitted it, perhaps inside a handler of another flow."""
    return has_callback() & (text("local_receiver") == text("callback_receiver"))


def callback_id() -> Column:
    """Return the number of what waits for an answer: the same in the request and in its answers."""
    home = text("callback_receiver_node")
    return sf.xxhash64("flow_id", home, "callback_receiver", sf.coalesce("callback_key", sf.lit(0)))


def request_id() -> Column:
    """Return the number of a request: the same for all its attempts, which wait with a promise each."""
    return sf.xxhash64("flow_id", text("callback_receiver_node"), "callback_receiver", *KIND)


def request_rank() -> Column:
    """Return which of the request's own records it may be: 0 as it was submitted, 1 as it left, 2 as it arrived."""
    is_submitted, is_sent, is_received = (is_event(one) for one in (Event.SUBMITTED, Event.SENT, Event.RECEIVED))
    is_first = sf.when(is_submitted, sf.col("cause").isNull() | is_from_waiting()).otherwise(trail() <= 1)
    rank = sf.when(is_submitted & is_home(), 0).when(is_sent & is_home(), 1).when(is_received, 2)
    return sf.when(has_callback() & is_first & may_begin(), rank)


def _answering_node() -> Column:
    """Return who sent an answer: the peer that it came from, the last router, or this very node."""
    sender = sf.when(is_event(Event.RECEIVED), sf.col("peer"))
    last_router = sf.when(sf.col("hops") > 0, sf.try_element_at("routing", sf.lit(-1))["identity"])
    return sf.coalesce(sender, last_router, sf.col("node"))
