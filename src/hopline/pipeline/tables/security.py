"""What the keys say of the messages that came from outside, counted by window."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.pipeline.tables.by_flow import text
from hopline.pipeline.tables.table import DATE, FLAG, INT, LONG, PROVISIONAL, TEXT, TIME, Table, columns
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
    (PROVISIONAL, FLAG, "true while a stream waits for more of the window"),
)
_KEYS = ("date", "window_start", "window_s", "domain", "node", "peer")


def from_outside() -> Column:
    """Return whether a message came from another node, or was seen on the wire by another tool."""
    return sf.col("event").isNull() | (sf.col("event") == Event.RECEIVED.value)


def repeats(messages: DataFrame) -> DataFrame:
    """Return the verified bytes that a node received more than once, with the first record of them.

    Nearly always there are few: `with_replays` can look them up, where a window would sort all messages.
    """
    return (
        messages.where(sf.col("verdict") == "verified")
        .groupBy(text("node").alias("node"), "fingerprint")
        .agg(sf.min(_order()).alias("first"), sf.count("*").alias("count"))
        .where(sf.col("count") > 1)
        .select("node", "fingerprint", "first")
    )


def with_replays(messages: DataFrame, repeats: DataFrame) -> DataFrame:
    """Replace the verdict `verified` by `replayed` where the same node had received the same bytes before.

    Args:
        messages: The table of messages.
        repeats: The result of `repeats`.
    """
    known = repeats.select(sf.col("node").alias("first_node"), sf.col("fingerprint").alias("first_bytes"), "first")
    same_bytes = (text("node") == sf.col("first_node")) & (sf.col("fingerprint") == sf.col("first_bytes"))
    is_replayed = (sf.col("verdict") == "verified") & (_order() > sf.col("first"))
    verdict = sf.when(is_replayed, "replayed").otherwise(sf.col("verdict"))
    return messages.join(known, same_bytes, "left").withColumn("verdict", verdict).select(*messages.columns)


def _order() -> Column:
    return sf.struct("seq", "ts", "segment")


def security(judged: DataFrame, window_s: int = WINDOW_S) -> DataFrame:
    """Return one row a window, domain, node and peer, with the number of messages of each verdict.

    Args:
        judged: Messages with their verdicts, replays included; what did not come from outside does not count.
        window_s: The length of a window in seconds.
    """
    verdict = sf.col("verdict")
    return (
        judged.where(from_outside())
        .groupBy(window_start(sf.col("ts"), window_s).alias("window_start"), "domain", "node", "peer")
        .agg(
            *(sf.count_if(verdict == name).alias(name) for name in VERDICTS),
            sf.count_if(verdict.isNull()).alias("unchecked"),
        )
        .withColumns({"date": day(sf.col("window_start")), "window_s": sf.lit(window_s)})
        .to(SECURITY)
    )


def summed(parts: DataFrame) -> DataFrame:
    """Return one table of security made of several, each of which counted some of the messages."""
    counts = (*VERDICTS, "unchecked")
    return parts.groupBy(*_KEYS).agg(*(sf.sum(name).alias(name) for name in counts)).to(SECURITY)


TABLE = Table(
    name="security",
    meaning="per window, domain, node and peer: messages by the verdict on their signatures",
    schema=SECURITY,
    shown_first=("window_start", "node", "peer", "verified", "unsigned", "bad_signature", "replayed"),
    function=security,
)
