"""The records of captures: their columns, and those that stand in the tables of messages and rejects."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_LONG, _TEXT = LongType(), StringType()

Described = tuple[str, DataType, str]
"""The name of a column, its type, and what it means."""

_RECORD: tuple[Described, ...] = (
    ("ts", TimestampType(), "time of the event, by the clock of the node that recorded it"),
    ("seq", _LONG, "number of the record on that node"),
    ("node", _TEXT, "node that recorded it"),
    ("node_uri", _TEXT, "address at which that node listens"),
    ("event", _TEXT, "what happened to the message: submitted, sent, received, delivered, …"),
    ("peer", _TEXT, "the other node, for sent and received"),
    ("receiver", _TEXT, "actor or hub on this node, for events inside the node"),
    ("receiver_name", _TEXT, "the class of that actor"),
    ("handler", _TEXT, "method of that actor that handled or submitted the message"),
    ("cause", _LONG, "seq of the record of the message that was being handled when this one was produced"),
    ("duration_us", _LONG, "handled: time in the handler; delivered: time in the mailbox"),
    ("reason", _TEXT, "why it failed or ended, for events that have a reason"),
    ("dropped", IntegerType(), "records that the node could not write just before this one"),
)

_FRAMES = ("frames", ArrayType(BinaryType()), "frames of the message, as they are or would be on the wire")

RECORDS = StructType(
    [StructField(name, kind, True, {"comment": meaning}) for name, kind, meaning in (*_RECORD, _FRAMES)]
)

# The record's columns as they stand in messages and rejects. Its `receiver` is renamed: the header has one too.
RECORD_COLUMNS: tuple[Described, ...] = (
    *(("local_receiver" if name == "receiver" else name, kind, meaning) for name, kind, meaning in _RECORD),
    ("segment", _TEXT, "file of the record, relative to the folder of the captures"),
)
