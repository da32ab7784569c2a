"""Records that came too late for a stream: they are in `messages`, but were not part of what the other tables say."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.tables.findings import Finding, Seen, number, short
from hopline.pipeline.tables.table import DATE, LONG, TEXT, TIME, Table, columns

FLOW, WINDOW = "flow", "window"

LATE = columns(
    ("date", DATE, "day of ts"),
    ("ts", TIME, "time of the record, by the clock of node"),
    ("node", TEXT, "node that recorded it"),
    ("seq", LONG, "seq of the record"),
    ("event", TEXT, "what was recorded"),
    ("peer", TEXT, "node on the other side of the link"),
    ("flow_id", TEXT, "flow, or null"),
    ("identity", TEXT, "kind of message"),
    ("version", TEXT, "version of the kind"),
    ("partition", TEXT, "partition of the kind"),
    ("segment", TEXT, "file that the record lies in, below the folder of the captures"),
    ("missed", TEXT, "flow: its flow had been written; window: its flow had not, but its window was final"),
)


def late(messages: DataFrame) -> DataFrame:
    """Return no rows: nothing comes too late for a run, which reads all records before it writes.

    Args:
        messages: The table of messages.
    """
    return messages.where(sf.lit(False)).withColumn("missed", sf.lit(FLOW)).to(LATE)


def _late_by_node(seen: Seen) -> Finding:
    counts = seen.counts("node", "missed")
    rows = tuple((short(node), missed, number(count)) for (node, missed), count in counts)
    title = f"Records that came too late: {number(sum(count for _, count in counts))}"
    return Finding(title, ("node", "missed", "records"), rows, seen.command(), is_trouble=True)


TABLE = Table(
    name="late",
    meaning="one row per record that came too late for a stream; none once its day is settled",
    schema=LATE,
    shown_first=("ts", "node", "event", "identity", "flow_id", "missed"),
    function=late,
    findings=(_late_by_node,),
)
