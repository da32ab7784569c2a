"""The tables: every column with its type and meaning. The functions that make a table end with its schema.

`docs/pipeline.md` explains how each is computed. Names off the wire (identities, nodes, partitions) are text, as
`hopline.capture.records.shown` writes them.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TEXT, LONG, INT, TIME, BYTES, FLAG = (
    StringType(),
    LongType(),
    IntegerType(),
    TimestampType(),
    BinaryType(),
    BooleanType(),
)


def _table(*columns: tuple[str, DataType, str]) -> StructType:
    return StructType([StructField(name, type_, True, {"comment": meaning}) for name, type_, meaning in columns])


KIND = StructType([StructField("identity", TEXT), StructField("version", TEXT), StructField("partition", TEXT)])
ROUTER = StructType([StructField("uri", TEXT), StructField("identity", TEXT)])
STAGE = StructType(
    [
        StructField("stage", TEXT),
        StructField("node", TEXT),
        StructField("identity", TEXT),
        StructField("us", LONG),
    ]
)

# -- what is read ------------------------------------------------------------------------------------------------------

RECORDS = _table(
    ("ts", TIME, "when, by the clock of the node that recorded it"),
    ("seq", LONG, "that node's own counter"),
    ("node", TEXT, "who recorded it"),
    ("node_uri", TEXT, "where that node listens"),
    ("event", TEXT, "what happened"),
    ("peer", TEXT, "the other node, for sent and received"),
    ("receiver", TEXT, "local actor or hub, for local events"),
    ("receiver_name", TEXT, "the actor's class"),
    ("handler", TEXT, "the actor's method that handles the message, or that submitted it"),
    ("cause", LONG, "seq of the record of the message that was being handled when this one was produced"),
    ("duration_us", LONG, "handled: time in the handler; delivered: time in the mailbox"),
    ("reason", TEXT, "for the outcomes that need one"),
    ("dropped", INT, "capture records lost just before this one"),
    ("frames", ArrayType(BYTES), "the message exactly as it is, or would be, on the wire"),
)

# The record's columns as they stand in messages and rejects. Its `receiver` is renamed: the header has one too.
_RECORD = (
    ("ts", TIME, "when, by the clock of the node that recorded it"),
    ("seq", LONG, "that node's own counter"),
    ("node", TEXT, "who recorded it"),
    ("node_uri", TEXT, "where that node listens"),
    ("event", TEXT, "what happened"),
    ("peer", TEXT, "the other node, for sent and received"),
    ("local_receiver", TEXT, "local actor or hub, for local events (the record's receiver)"),
    ("receiver_name", TEXT, "the class of that actor"),
    ("handler", TEXT, "its method that handles the message, or that submitted it"),
    ("cause", LONG, "seq of the record of the message that was being handled when this one was produced"),
    ("duration_us", LONG, "handled: time in the handler; delivered: time in the mailbox"),
    ("reason", TEXT, "for the outcomes that need one"),
    ("dropped", INT, "capture records lost just before this one"),
    ("segment", TEXT, "the file that the record lies in, below the captures"),
)

# -- what is written ---------------------------------------------------------------------------------------------------

MESSAGES = _table(
    ("date", DateType(), "day of ts, UTC; the partition"),
    *_RECORD,
    ("flow_id", TEXT, "the correlation id where it names a flow, else null"),
    ("service", FLAG, "one of the protocol's own messages"),
    ("wire_format", TEXT, "FIRST, V4, V5_INT32, V5 or V6"),
    ("identity", TEXT, "the kind of message"),
    ("version", TEXT, "its version; a number but for the oldest writers"),
    ("partition", TEXT, "its partition"),
    ("correlation_id", TEXT, "as it was on the wire"),
    ("receiver", TEXT, "the one actor or hub that must get it, or empty"),
    ("receiver_node", TEXT, "the one node that must get it, or empty"),
    ("callback_receiver", TEXT, "hub that waits for a callback"),
    ("callback_receiver_node", TEXT, "node of that hub"),
    ("callback_key", LONG, "the waiting promise, 0 for none"),
    ("callbacks", ArrayType(KIND), "the kinds that somebody waits for"),
    ("routing", ArrayType(ROUTER), "the routers it passed, in travel order"),
    ("hops", INT, "how often it was sent on to another node"),
    ("distribution", INT, "0 unicast, 1 broadcast"),
    ("trace_options", LONG, "1 records routing"),
    ("ttl_us", LONG, "remaining lifetime, 0 for no limit"),
    ("domain", TEXT, "security domain"),
    ("signature", BYTES, "keyed hash, or empty"),
    ("body_frames", INT, "number of body frames"),
    ("body_bytes", LONG, "bytes in them"),
    ("frame_count", INT, "frames on the wire"),
    ("bytes", LONG, "bytes in all frames"),
    ("fingerprint", LONG, "hash of all frames: the same bytes on both sides of a hop"),
    ("message_id", LONG, "hash of what does not change on the way: the same message at every tap"),
    ("verdict", TEXT, "what the keys say of a message from outside: see security; null where nobody asked"),
)

REJECTS = _table(
    ("date", DateType(), "day of ts, UTC; the partition"),
    *_RECORD,
    ("code", TEXT, "why it is no message: hopline.wire.Reason, or missing_frame where the record itself has none"),
    ("frame_index", INT, "the frame to blame, counted from 0; null when none is"),
    ("detail", TEXT, "what was expected and found"),
    ("frames", ArrayType(BYTES), "as recorded"),
)

HOPS = _table(
    ("date", DateType(), "day of the sending, or of the arrival where only that was seen"),
    ("from_node", TEXT, "who sent"),
    ("to_node", TEXT, "to whom"),
    ("flow_id", TEXT, "the flow, or null"),
    ("message_id", LONG, "the message"),
    ("fingerprint", LONG, "its bytes on this hop"),
    ("service", FLAG, "one of the protocol's own messages"),
    ("wire_format", TEXT, "the format on this hop"),
    ("identity", TEXT, "kind"),
    ("version", TEXT, "its version"),
    ("partition", TEXT, "its partition"),
    ("hops", INT, "the message's hop count on this hop"),
    ("bytes", LONG, "bytes in all frames"),
    ("sent_ts", TIME, "by the sender's clock; null when only the arrival was seen"),
    ("received_ts", TIME, "by the receiver's clock; null when it was not seen to arrive"),
    ("sent_seq", LONG, "the sender's record"),
    ("received_seq", LONG, "the receiver's record"),
    ("transit_us", LONG, "received_ts - sent_ts, by the two clocks as they are"),
    ("skew_us", LONG, "estimate of the receiver's clock minus the sender's"),
    ("skew_bound_us", LONG, "how far that estimate may be off"),
    ("lost", FLAG, "true: never arrived; null: nobody watched the other end, by its clock as estimated"),
    ("duplicate", FLAG, "arrived more often than it was sent"),
    ("rejected", FLAG, "the receiver recorded next that it rejected it"),
)

CALLBACKS = _table(
    ("date", DateType(), "day of asking"),
    ("flow_id", TEXT, "the flow"),
    ("asked_node", TEXT, "node of the one who waits"),
    ("asked_receiver", TEXT, "hub that waits"),
    ("callback_key", LONG, "its promise, 0 where the format has none"),
    ("identity", TEXT, "kind of the request"),
    ("version", TEXT, "its version"),
    ("partition", TEXT, "its partition"),
    ("asked_for", ArrayType(KIND), "the kinds that were awaited"),
    ("asked_ts", TIME, "when, by the asking node's clock"),
    ("ttl_us", LONG, "how long it wanted to wait, 0 for no limit"),
    ("answer_identity", TEXT, "kind of the answer that came first"),
    ("answer_version", TEXT, "its version"),
    ("answer_partition", TEXT, "its partition"),
    ("answered_by", TEXT, "node that sent it"),
    ("answered_ts", TIME, "when it came, by the asking node's clock"),
    ("latency_us", LONG, "answered_ts - asked_ts: one clock"),
    ("outcome", TEXT, "answered, exception, expired, unanswered or late"),
)

FLOWS = _table(
    ("date", DateType(), "day of the start"),
    ("flow_id", TEXT, "the correlation id"),
    ("start_ts", TIME, "first event, by its node's clock"),
    ("end_ts", TIME, "last event of the critical path, by its node's clock"),
    ("duration_us", LONG, "end_ts - start_ts, by the clocks as they are"),
    ("origin", TEXT, "node that began it; null for an orphan"),
    ("identity", TEXT, "kind of the first message"),
    ("messages", LONG, "messages, each counted once however many taps saw it"),
    ("records", LONG, "records of them"),
    ("hops", LONG, "transits between nodes"),
    ("nodes", LONG, "nodes that it touched"),
    ("bytes", LONG, "bytes of all messages, each counted once, as it was first seen"),
    ("depth", INT, "messages on the longest chain of causes"),
    ("outcome", TEXT, "complete, failed, unanswered, expired, truncated or orphan"),
    (
        "skew_us",
        LONG,
        "estimate, part of the duration: clock at the end minus that at the start; 0 for one clock",
    ),
    ("skew_bound_us", LONG, "sum of the bounds of the clocks that the duration compares; 0 for one clock"),
    ("critical_path", ArrayType(STAGE), "where the duration went: its parts sum to it"),
)

_TIMES = ("p50", "p95", "p99", "max")

HANDLERS = _table(
    ("date", DateType(), "day of the window"),
    ("window_start", TIME, "start of the window"),
    ("window_s", INT, "its length"),
    ("node", TEXT, "node"),
    ("actor", TEXT, "actor"),
    ("actor_name", TEXT, "its class; null where the capture does not say"),
    ("handler", TEXT, "its method; null where the capture does not say"),
    ("identity", TEXT, "kind handled"),
    ("version", TEXT, "its version"),
    ("partition", TEXT, "its partition"),
    ("count", LONG, "messages handled"),
    ("errors", LONG, "of them with a failure"),
    *((f"wait_{name}_us", LONG, f"time in the mailbox, {name}") for name in _TIMES),
    *((f"run_{name}_us", LONG, f"time in the handler, {name}") for name in _TIMES),
    ("busy_share", DoubleType(), "time in the handler of all of them, as a share of the window"),
)

EDGES = _table(
    ("date", DateType(), "day of the window"),
    ("window_start", TIME, "start of the window"),
    ("window_s", INT, "its length"),
    ("kind", TEXT, "physical: node to node; logical: handler to handler, callbacks included"),
    ("source_node", TEXT, "node that it comes from"),
    ("source", TEXT, "physical: the node; logical: the actor, or hub, that produced the messages"),
    ("source_name", TEXT, "class of that actor; null for nodes and hubs, and where the capture does not say"),
    ("target_node", TEXT, "node that it goes to"),
    ("target", TEXT, "physical: the node; logical: the actor, or hub, that got them"),
    ("target_name", TEXT, "class of that actor; null for nodes and hubs, and where the capture does not say"),
    ("identity", TEXT, "kind"),
    ("count", LONG, "messages"),
    ("bytes", LONG, "bytes of them"),
    ("errors", LONG, "physical: rejected on arrival; logical: the handler failed"),
    ("lost", LONG, "never arrived"),
    ("transit_p50_us", LONG, "median time from source to target, by the clocks as they are"),
    ("transit_p95_us", LONG, "95th percentile of it"),
    ("transit_p99_us", LONG, "99th percentile of it"),
)

VERDICTS = ("verified", "unsigned", "bad_signature", "wrong_domain", "unknown_domain", "replayed")

SECURITY = _table(
    ("date", DateType(), "day of the window"),
    ("window_start", TIME, "start of the window"),
    ("window_s", INT, "its length"),
    ("domain", TEXT, "as the messages were labelled"),
    ("node", TEXT, "who received them"),
    ("peer", TEXT, "from whom"),
    *((name, LONG, f"messages that are {name.replace('_', ' ')}") for name in VERDICTS),
    ("unchecked", LONG, "messages that no key was given for"),
)

INCIDENTS = _table(
    ("date", DateType(), "day"),
    ("ts", TIME, "when, by the receiving node's clock"),
    ("node", TEXT, "who received it"),
    ("seq", LONG, "its record"),
    ("peer", TEXT, "from whom"),
    ("offence", TEXT, "the verdict"),
    ("domain", TEXT, "as it was labelled"),
    ("flow_id", TEXT, "the flow that it claims, or null"),
    ("identity", TEXT, "kind"),
    ("version", TEXT, "its version"),
    ("partition", TEXT, "its partition"),
    ("message_id", LONG, "the message"),
    ("fingerprint", LONG, "its bytes"),
    ("signature", BYTES, "as it was signed"),
)

SKEW = _table(
    ("date", DateType(), "day"),
    ("node_a", TEXT, "a node"),
    ("node_b", TEXT, "another, behind it in the alphabet"),
    ("offset_us", LONG, "estimate of b's clock minus a's; null: only one direction was seen, or the bound is negative"),
    ("bound_us", LONG, "how far that may be off, half the way there and back; negative: they did not keep step"),
    ("min_transit_ab_us", LONG, "shortest transit from a to b, by the clocks as they are"),
    ("min_transit_ba_us", LONG, "shortest transit from b to a"),
    ("transits_ab", LONG, "transits seen from a to b"),
    ("transits_ba", LONG, "transits seen from b to a"),
)

AUDIT = _table(
    ("date", DateType(), "day"),
    ("node", TEXT, "node"),
    ("hour", TIME, "start of the hour"),
    ("records", LONG, "records, rejects included"),
    ("dropped", LONG, "capture records that the node says it lost"),
    ("missing", LONG, "gaps in seq that no dropped explains"),
    ("rejects", LONG, "records that are no valid message"),
    *(
        (event, LONG, f"messages {event}")
        for event in (
            "submitted",
            "received",
            "sent",
            "delivered",
            "handled",
            "resolved",
            "expired",
            "unroutable",
            "rejected",
            "overflow",
            "hop_limit",
            "failed",
        )
    ),
    ("copies", LONG, "copies that broadcasts made: their outcomes beyond the first"),
    ("balance", LONG, "submitted + received + copies - delivered - sent - endings: 0 when the books hold"),
    ("balanced", FLAG, "whether they do; null where only the wire was recorded"),
)

TABLES: dict[str, StructType] = {
    "messages": MESSAGES,
    "rejects": REJECTS,
    "hops": HOPS,
    "callbacks": CALLBACKS,
    "flows": FLOWS,
    "handlers": HANDLERS,
    "edges": EDGES,
    "security": SECURITY,
    "incidents": INCIDENTS,
    "skew": SKEW,
    "audit": AUDIT,
}
