"""The records of captures: what is read, and the columns of it that stand in messages and rejects."""

from __future__ import annotations

from pyspark.sql.types import ArrayType

from hopline.pipeline.tables.table import BYTES, INT, LONG, TEXT, TIME, columns

RECORDS = columns(
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
RECORD_COLUMNS = (
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
