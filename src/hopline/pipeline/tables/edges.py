"""Who talks to whom, by window: from node to node, and from the handler that made a message to the one that got it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.pipeline.tables.by_flow import is_event, text
from hopline.pipeline.tables.percentiles import percentile
from hopline.pipeline.tables.table import DATE, FLAG, INT, LONG, PROVISIONAL, TEXT, TIME, Table, columns
from hopline.pipeline.windows import WINDOW_S, day, us_between, window_start

EDGES = columns(
    ("date", DATE, "day of the window"),
    ("window_start", TIME, "start of the window"),
    ("window_s", INT, "length of the window in seconds"),
    ("kind", TEXT, "physical: node to node; logical: actor to actor, answers included"),
    ("source_node", TEXT, "node that the messages come from"),
    ("source", TEXT, "physical: the node; logical: the actor or hub that sent the messages"),
    ("source_name", TEXT, "class of that actor; null for nodes and hubs, and if the capture does not say"),
    ("target_node", TEXT, "node that the messages go to"),
    ("target", TEXT, "physical: the node; logical: the actor or hub that received them"),
    ("target_name", TEXT, "class of that actor; null for nodes and hubs, and if the capture does not say"),
    ("identity", TEXT, "kind of message"),
    ("count", LONG, "number of messages"),
    ("bytes", LONG, "bytes of these messages"),
    ("errors", LONG, "messages that failed; physical: rejected on arrival; logical: the handler failed"),
    ("lost", LONG, "messages that never arrived"),
    ("transit_p50_us", LONG, "median time from source to target, not corrected for the clocks"),
    ("transit_p95_us", LONG, "95th percentile of that time"),
    ("transit_p99_us", LONG, "99th percentile of that time"),
    (PROVISIONAL, FLAG, "true while a stream waits for more of the window"),
)

_ENDS = ("kind", "source_node", "source", "source_name", "target_node", "target", "target_name", "identity")
_COUNTS = ("count", "bytes", "errors", "lost")
_PERCENTILES = (50, 95, 99)


def crossings(hops: DataFrame, records: DataFrame) -> DataFrame:
    """Return what each message adds to the edges that it crossed, at the time of its start.

    Args:
        hops: The table of hops: what goes from node to node.
        records: The result of `by_flow`: what goes from handler to handler.
    """
    shown = ("ts", *_ENDS, *_COUNTS, "transit_us")
    return _physical(hops).select(*shown).unionByName(deliveries(records).select(*shown))


def edges(crossings: DataFrame, window_s: int = WINDOW_S) -> DataFrame:
    """Return one row a window, source, target and kind of message.

    Args:
        crossings: The result of `crossings`.
        window_s: The length of a window in seconds.
    """
    return (
        crossings.withColumn("window_start", window_start(sf.col("ts"), window_s))
        .groupBy("window_start", *_ENDS)
        .agg(
            *(sf.sum(name).alias(name) for name in _COUNTS),
            *(percentile("transit_us", percent).alias(f"transit_p{percent}_us") for percent in _PERCENTILES),
        )
        .withColumns({"date": day(sf.col("window_start")), "window_s": sf.lit(window_s)})
        .to(EDGES)
    )


def _physical(hops: DataFrame) -> DataFrame:
    return hops.select(
        sf.coalesce("sent_ts", "received_ts").alias("ts"),
        sf.lit("physical").alias("kind"),
        sf.col("from_node").alias("source_node"),
        sf.col("from_node").alias("source"),
        sf.lit(None).cast("string").alias("source_name"),
        sf.col("to_node").alias("target_node"),
        sf.col("to_node").alias("target"),
        sf.lit(None).cast("string").alias("target_name"),
        "identity",
        sf.lit(1).alias("count"),
        "bytes",
        sf.col("rejected").cast("int").alias("errors"),
        sf.coalesce(sf.col("lost").cast("int"), sf.lit(0)).alias("lost"),
        "transit_us",
    )


def deliveries(records: DataFrame) -> DataFrame:
    """Return each delivery of a message, and each failure of its handler, with the submission that it comes from.

    The source is the receiver that was handling the cause of the submission; where that is not known, whoever
    submitted it; where no capture saw the submission, nobody.

    Args:
        records: The result of `by_flow`.
    """
    is_submitted, is_delivered = is_event(Event.SUBMITTED), is_event(Event.DELIVERED)
    has_failed = is_event(Event.HANDLED) & sf.col("reason").isNotNull()
    relevant = records.where(sf.col("node").isNotNull() & (is_submitted | is_delivered | has_failed))
    numbered = _numbered(relevant.withColumn("target", sf.when(~is_submitted, text("local_receiver"))))
    nth = Window.partitionBy("flow_key", "message_id", "nth").orderBy(~is_submitted)
    so_far = nth.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    submission = sf.first(
        sf.when(
            is_submitted, sf.struct("node", text("local_receiver").alias("receiver"), "receiver_name", "cause", "ts")
        ),
        ignorenulls=True,
    )
    delivered = (
        numbered.withColumn("submission", submission.over(so_far))
        .where(~is_submitted & sf.col("at").isNotNull())
        .select(
            sf.col("at").alias("ts"),
            sf.lit("logical").alias("kind"),
            sf.coalesce("submission.node", sf.lit("")).alias("source_node"),
            sf.struct(
                sf.coalesce("submission.receiver", sf.lit("")).alias("receiver"),
                sf.col("submission.receiver_name").alias("receiver_name"),
            ).alias("submitter"),
            sf.col("submission.cause").alias("cause"),
            sf.col("node").alias("target_node"),
            "target",
            sf.col("receiver_name").alias("target_name"),
            "identity",
            is_delivered.cast("int").alias("count"),
            sf.when(is_delivered, sf.col("bytes")).otherwise(0).alias("bytes"),
            (~is_delivered).cast("int").alias("errors"),
            sf.lit(0).alias("lost"),
            # Messages that nothing tells apart are counted, but nobody knows which took how long.
            sf.when(
                is_delivered & (sf.col("submissions") == 1), us_between(sf.col("submission.ts"), sf.col("at"))
            ).alias("transit_us"),
        )
    )
    return _with_source(delivered, records)


def _numbered(relevant: DataFrame) -> DataFrame:
    """Add which submission each delivery to a target belongs to, and leave out what was delivered once more."""
    is_submitted, is_delivered = is_event(Event.SUBMITTED), is_event(Event.DELIVERED)
    at_target = Window.partitionBy("flow_key", "message_id", "target_node", "target").orderBy("ts", "node", "seq")
    of_message = Window.partitionBy("flow_key", "message_id")
    so_far = at_target.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        relevant.withColumn("target_node", sf.when(~is_submitted, sf.col("node")))
        .withColumn("nth", sf.count(sf.when(is_submitted | is_delivered, True)).over(so_far))
        .withColumn("at", sf.last(sf.when(is_delivered, sf.col("ts")), ignorenulls=True).over(so_far))
        .withColumn("submissions", sf.count(sf.when(is_submitted, True)).over(of_message))
        .where(is_submitted | (sf.col("submissions") == 0) | (sf.col("nth") <= sf.col("submissions")))
    )


def _with_source(delivered: DataFrame, records: DataFrame) -> DataFrame:
    """Add who was handling the cause of the submission, which may lie in another flow, or else who submitted it."""
    receiver = sf.struct(sf.col("local_receiver").alias("receiver"), "receiver_name")
    handling = (
        records.where(is_event(Event.DELIVERED) & sf.col("local_receiver").isNotNull())
        .groupBy(sf.col("node").alias("source_node"), sf.col("seq").alias("cause"))
        .agg(sf.min_by(receiver, "ts").alias("handling"))
    )
    source = sf.coalesce("handling", "submitter")
    return delivered.join(handling, ["source_node", "cause"], "left").withColumns(
        {"source": source["receiver"], "source_name": source["receiver_name"]}
    )


TABLE = Table(
    name="edges",
    meaning="per window, from, to and identity: count, bytes, errors, lost, transit time",
    schema=EDGES,
    shown_first=("window_start", "source", "source_name", "target", "target_name", "identity", "count"),
    function=edges,
)
