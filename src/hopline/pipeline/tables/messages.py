"""One row per record that is a valid message: every header field."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, StructField, StructType

from hopline.pipeline.tables.recorded import RECORD_COLUMNS
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
    ("identity", TEXT, "the kind of message"),
    ("version", TEXT, "its version; a number but for the oldest writers"),
    ("partition", TEXT, "its partition"),
    ("correlation_id", TEXT, "as it was on the wire"),
    ("receiver", TEXT, "the one actor or hub that must get it, or empty"),
    ("receiver_node", TEXT, "the one node that must get it, or empty"),
    ("callback_receiver", TEXT, "hub that waits for a callback"),
    ("callback_receiver_node", TEXT, "node of that hub"),
    ("callback_key", LONG, "the waiting promise, 0 for none"),
    ("callbacks", ArrayType(MESSAGE_KIND), "the kinds that somebody waits for"),
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


TABLE = Table(
    name="messages",
    meaning="one row per record that is a valid message: every header field",
    schema=MESSAGES,
    shown_first=("ts", "node", "event", "peer", "identity", "flow_id"),
    looked_up_by=("flow_id", "correlation_id"),
)
