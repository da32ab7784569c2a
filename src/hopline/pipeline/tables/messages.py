"""One row per record that is a valid message: every header field."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, StructField, StructType

from hopline.datasource.records import RECORD_COLUMNS
from hopline.pipeline.tables.table import BYTES, DATE, FLAG, INT, LONG, TEXT, Table, columns

MESSAGE_KIND = StructType(
    [
        StructField("identity", TEXT),
        StructField("version", TEXT),
        StructField("partition", TEXT),
    ]
)
ROUTER = StructType([StructField("uri", TEXT), StructField("identity", TEXT)])

MESSAGES = columns(
    ("date", DATE, "day of ts, UTC; the partition"),
    *RECORD_COLUMNS,
    ("flow_id", TEXT, "the correlation id where it names a flow, else null"),
    ("service", FLAG, "one of the protocol's own messages"),
    ("wire_format", TEXT, "FIRST, V4, V5_INT32, V5 or V6"),
    ("identity", TEXT, "kind of message"),
    ("version", TEXT, "version of the kind; a number, except from the oldest writers"),
    ("partition", TEXT, "partition of the kind"),
    ("correlation_id", TEXT, "correlation id as it was on the wire"),
    ("receiver", TEXT, "actor or hub that it is addressed to, or empty"),
    ("receiver_node", TEXT, "node that it is addressed to, or empty"),
    ("callback_receiver", TEXT, "hub that waits for an answer"),
    ("callback_receiver_node", TEXT, "node of that hub"),
    ("callback_key", LONG, "number of the promise that waits, 0 for none"),
    ("callbacks", ArrayType(MESSAGE_KIND), "kinds of answers that the hub waits for"),
    ("routing", ArrayType(ROUTER), "routers that it passed, in order"),
    ("hops", INT, "how many times it was sent to another node"),
    ("distribution", INT, "0 unicast, 1 broadcast"),
    ("trace_options", LONG, "1 if its routing is recorded"),
    ("ttl_us", LONG, "remaining lifetime, 0 for no limit"),
    ("attempt", INT, "number of the attempt, of a request that was asked again; 1 for all other messages"),
    ("domain", TEXT, "security domain"),
    ("signature", BYTES, "keyed hash, or empty"),
    ("body_frames", INT, "number of body frames"),
    ("body_bytes", LONG, "bytes in the body frames"),
    ("bodies", ArrayType(BYTES), "the body frames, up to 64 KiB a message; null without --with-bodies"),
    ("frame_count", INT, "number of frames on the wire"),
    ("bytes", LONG, "bytes in all frames"),
    ("fingerprint", LONG, "hash of all frames: the same on both sides of a hop"),
    ("message_id", LONG, "hash of what does not change on the way: the same on every node"),
    (
        "verdict",
        TEXT,
        "result of checking the signature, for messages from other nodes (see security); null if unchecked",
    ),
)


TABLE = Table(
    name="messages",
    meaning="one row per record that is a valid message: every header field",
    schema=MESSAGES,
    shown_first=("ts", "node", "event", "peer", "identity", "flow_id"),
    looked_up_by=("flow_id", "correlation_id"),
)
