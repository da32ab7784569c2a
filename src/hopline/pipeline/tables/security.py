"""What the keys say of the messages that came from outside, counted; and each offence by itself."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from hopline.capture.events import Event
from hopline.pipeline.schemas import INCIDENTS, SECURITY, VERDICTS
from hopline.pipeline.traces.columns import OFFENCES
from hopline.pipeline.windows import WINDOW_S, day, window_start


def from_outside() -> Column:
    """Tell the records of messages that arrived: from another node, or seen on the wire by another tool."""
    return sf.col("event").isNull() | (sf.col("event") == Event.RECEIVED.value)


def with_replays(checked: DataFrame) -> DataFrame:
    """Take what was verified for `replayed` where the same node had received the same bytes before."""
    again = Window.partitionBy("node", "fingerprint", "verdict").orderBy("seq", "ts")
    nth = sf.when(sf.col("verdict") == "verified", sf.row_number().over(again))
    return checked.withColumn("verdict", sf.when(nth > 1, "replayed").otherwise(sf.col("verdict")))


def security(messages: DataFrame, window_s: int = WINDOW_S) -> DataFrame:
    """Count the verdicts by window, domain, node and peer."""
    start = window_start(sf.col("ts"), window_s)
    verdict = sf.col("verdict")
    counted = (
        messages.where(from_outside())
        .groupBy(start.alias("window_start"), "domain", "node", "peer")
        .agg(
            *(sf.count_if(verdict == name).alias(name) for name in VERDICTS),
            sf.count_if(verdict.isNull()).alias("unchecked"),
        )
    )
    return (
        counted.withColumn("date", day(sf.col("window_start")))
        .withColumn("window_s", sf.lit(window_s))
        .select(*SECURITY.names)
        .to(SECURITY)
    )


def incidents(messages: DataFrame, signed_identities: Iterable[str] = ()) -> DataFrame:
    """Give every offence; a message without a signature is one where its identity is signed."""
    verdict = sf.col("verdict")
    is_naked = (verdict == "unsigned") & sf.col("identity").isin(list(signed_identities))
    return (
        messages.where(from_outside() & (verdict.isin(*OFFENCES) | is_naked))
        .withColumn("offence", verdict)
        .select(*INCIDENTS.names)
        .to(INCIDENTS)
    )
