"""The records of captures: what is read, and the columns of it that stand in messages and rejects."""

from __future__ import annotations

from pyspark.sql.types import ArrayType

from hopline.pipeline.tables.table import BYTES, INT, LONG, TEXT, TIME, columns

_RECORD = (
    ("ts", TIME, "time of the event, by the clock of the node that recorded it"),
    ("seq", LONG, "number of the record on that node"),
    ("node", TEXT, "node that recorded it"),
    ("node_uri", TEXT, "address at which that node listens"),
    ("event", TEXT, "what happened to the message: submitted, sent, received, delivered, …"),
    ("peer", TEXT, "the other node, for sent and received"),
    ("receiver", TEXT, "actor or hub on this node, for events inside the node"),
    ("receiver_name", TEXT, "the class of that actor"),
    ("handler", TEXT, "method of that actor that handled or submitted the message"),
    ("cause", LONG, "seq of the record of the message that was being handled when this one was produced"),
    ("duration_us", LONG, "handled: time in the handler; delivered: time in the mailbox"),
    ("reason", TEXT, "why it failed or ended, for events that have a reason"),
    ("dropped", INT, "records that the node could not write just before this one"),
)

RECORDS = columns(
    *_RECORD,
    ("frames", ArrayType(BYTES), "frames of the message, as they are or would be on the wire"),
)

# The record's columns as they stand in messages and rejects. Its `receiver` is renamed: the header has one too.
RECORD_COLUMNS = (
    *(("local_receiver" if name == "receiver" else name, type_, meaning) for name, type_, meaning in _RECORD),
    ("segment", TEXT, "file of the record, relative to the folder of the captures"),
)
