"""How many messages get lost between nodes, minute by minute, while the captures are still being written.

A job of your own on Structured Streaming: the data source `hopline` decodes each segment as it appears, what one node
sent is joined with what the other received, and a sending without an arrival is a loss. A minute is complete when all
nodes are two minutes past it.

    python examples/losses.py CAPTURES

follows the captures of a running network until Ctrl-C; a table of your lake could be its sink. Without CAPTURES they
are generated, and the query is stopped when it has read all of them.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.generator import Options, generate
from hopline.pipeline.session import spark_session

home = Path(tempfile.mkdtemp(prefix="hopline-losses-"))
is_live = len(sys.argv) > 1
captures = Path(sys.argv[1]) if is_live else home / "captures"
if not is_live:
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


def show(minutes: DataFrame, _batch: int) -> None:
    """Print the minutes that a batch has completed."""
    at = sf.date_format("start", "HH:mm").alias("at")
    for row in minutes.orderBy("start").select(at, "sent", "lost").collect():
        print(f"{row.at}  {row.sent:>6,} sent  {row.lost:>4,} lost", flush=True)


print(f"losses in {captures}, a line for each complete minute (UTC):", flush=True)
with spark_session("local[2]", memory="1g", config={"spark.sql.shuffle.partitions": "2"}) as spark:
    messages = spark.readStream.format("hopline").option("table", "messages").load(str(captures))
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
        .writeStream.foreachBatch(show)
        .option("checkpointLocation", str(home / "state"))
        .start()
    )
    if is_live:
        with suppress(KeyboardInterrupt):
            query.awaitTermination()
    else:
        query.processAllAvailable()
    query.stop()
