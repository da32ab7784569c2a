"""How many messages get lost between nodes, minute by minute, while the captures are still being written.

A job of your own on Structured Streaming: the data source `hopline` decodes each segment as it appears, what one node
sent is joined with what the other received, and a sending without an arrival is a loss. A minute is complete when all
nodes are two minutes past it. Here the captures are generated, and the query is stopped when it has read all of them;
on those of a running network it goes on, and a table of your lake would be its sink.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.generator import Options, generate
from hopline.pipeline.session import spark_session

home = Path(tempfile.mkdtemp(prefix="hopline-losses-"))
generate(home, Options(messages=20_000, seed=11))


def on_the_wire(messages: DataFrame, event: str, sender: str, receiver: str) -> DataFrame:
    """Return the messages that were sent, or those that were received, with both nodes and the time."""
    chosen = messages.where(sf.col("event") == event)
    return chosen.select(
        sf.col("fingerprint").alias(f"{event}_bytes"),
        sf.col(sender).alias(f"{event}_from"),
        sf.col(receiver).alias(f"{event}_to"),
        sf.col("ts").alias(f"{event}_ts"),
    ).withWatermark(f"{event}_ts", "2 minutes")


with spark_session("local[2]", memory="1g", config={"spark.sql.shuffle.partitions": "2"}) as spark:
    messages = spark.readStream.format("hopline").option("table", "messages").load(str(home / "captures"))
    sent = on_the_wire(messages, "sent", sender="node", receiver="peer")
    arrivals = on_the_wire(messages, "received", sender="peer", receiver="node")
    received = arrivals.dropDuplicatesWithinWatermark(["received_bytes", "received_from", "received_to"])
    is_arrival = sf.expr("""
        sent_bytes = received_bytes and sent_from = received_from and sent_to = received_to
        and received_ts between sent_ts - interval 1 minute and sent_ts + interval 1 minute
    """)
    matched = sent.join(received, is_arrival, "leftOuter")
    minute = sf.window("sent_ts", "1 minute").alias("minute")
    minutes = matched.groupBy(minute).agg(
        sf.count("*").alias("sent"),
        sf.count_if(sf.col("received_ts").isNull()).alias("lost"),
    )
    query = (
        minutes.select("minute.start", "sent", "lost")
        .writeStream.format("memory")
        .queryName("losses")
        .option("checkpointLocation", str(home / "state"))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    for row in spark.table("losses").orderBy("start").collect():
        print(f"{row['start']:%H:%M}  {row['sent']:>6,} sent  {row['lost']:>4,} lost")
