"""What the keys say of the messages that came from outside, counted by window."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.pipeline.tables.table import DATE, INT, LONG, TEXT, TIME, Table, columns
from hopline.pipeline.windows import WINDOW_S, day, window_start

VERDICTS = ("verified", "unsigned", "bad_signature", "wrong_domain", "unknown_domain", "replayed")

SECURITY = columns(
    ("date", DATE, "day of the window"),
    ("window_start", TIME, "start of the window"),
    ("window_s", INT, "length of the window in seconds"),
    ("domain", TEXT, "domain label of the messages"),
    ("node", TEXT, "node that received them"),
    ("peer", TEXT, "node on the other side of the link"),
    *((name, LONG, f"messages with the verdict {name}") for name in VERDICTS),
    ("unchecked", LONG, "signed messages that no keys were given to check"),
)


def from_outside() -> Column:
    """Return whether a message came from another node, or was seen on the wire by another tool."""
    return sf.col("event").isNull() | (sf.col("event") == Event.RECEIVED.value)


def with_replays(messages: DataFrame, *partitioned_by: str) -> DataFrame:
    """Replace the verdict `verified` by `replayed` where the same node had received the same bytes before.

    Args:
        messages: Rows with the columns of `messages`.
        partitioned_by: Columns that the rows are partitioned by already, and that the same bytes agree in.
    """
    again = Window.partitionBy(*partitioned_by, "node", "fingerprint", "verdict").orderBy("seq", "ts")
    is_repeated = (sf.col("verdict") == "verified") & (sf.row_number().over(again) > 1)
    return messages.withColumn("verdict", sf.when(is_repeated, "replayed").otherwise(sf.col("verdict")))


def security(arrivals: DataFrame, window_s: int = WINDOW_S) -> DataFrame:
    """Return one row a window, domain, node and peer, with the number of messages of each verdict.

    Args:
        arrivals: Messages with their verdicts, replays included; what did not come from outside does not count.
        window_s: The length of a window in seconds.
    """
    verdict = sf.col("verdict")
    return (
        arrivals.where(from_outside())
        .groupBy(window_start(sf.col("ts"), window_s).alias("window_start"), "domain", "node", "peer")
        .agg(
            *(sf.count_if(verdict == name).alias(name) for name in VERDICTS),
            sf.count_if(verdict.isNull()).alias("unchecked"),
        )
        .withColumns({"date": day(sf.col("window_start")), "window_s": sf.lit(window_s)})
        .to(SECURITY)
    )


TABLE = Table(
    name="security",
    meaning="per window, domain, node and peer: messages by the verdict on their signatures",
    schema=SECURITY,
    shown_first=("window_start", "node", "peer", "verified", "unsigned", "bad_signature", "replayed"),
    function=security,
)
