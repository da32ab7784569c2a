"""What the keys say of the messages that came from outside, counted; and each offence by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from hopline.pipeline import schemas
from hopline.pipeline.tables.verdicts import JUDGED, VERDICTS, from_outside, incidents_of, verdicts_of
from hopline.pipeline.windows import WINDOW_S, day


def with_replays(checked: DataFrame) -> DataFrame:
    """Take what was verified for `replayed` where the same node had received the same bytes before."""
    again = Window.partitionBy("node", "fingerprint", "verdict").orderBy("seq", "ts")
    nth = sf.when(sf.col("verdict") == "verified", sf.row_number().over(again))
    return checked.withColumn("verdict", sf.when(nth > 1, "replayed").otherwise(sf.col("verdict")))


def security(messages: DataFrame, window_s: int = WINDOW_S, verdicts: DataFrame | None = None) -> DataFrame:
    """Count the verdicts by window, domain, node and peer.

    `verdicts` are those of the same messages, where they were counted before.
    """
    if verdicts is None:
        counted = partial(_verdicts, window_s)
        verdicts = messages.select(*JUDGED).mapInArrow(counted, from_arrow_schema(VERDICTS))
    verdict, count = sf.col("verdict"), sf.col("messages")
    return (
        verdicts.groupBy("window_start", "domain", "node", "peer")
        .agg(
            *(sf.sum(sf.when(verdict == name, count).otherwise(0)).alias(name) for name in schemas.VERDICTS),
            sf.sum(sf.when(verdict.isNull(), count).otherwise(0)).alias("unchecked"),
        )
        .withColumns({"date": day(sf.col("window_start")), "window_s": sf.lit(window_s)})
        .to(schemas.SECURITY)
    )


def incidents(messages: DataFrame, signed_identities: Sequence[str] = ()) -> DataFrame:
    """Give every offence; a message without a signature is one where its identity is signed."""
    found = partial(_incidents, signed_identities)
    return messages.select(*JUDGED).mapInArrow(found, schemas.INCIDENTS).to(schemas.INCIDENTS)


def _verdicts(window_s: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from verdicts_of(from_outside(pa.Table.from_batches([batch])), window_s).to_batches()


def _incidents(signed_identities: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from incidents_of(from_outside(pa.Table.from_batches([batch])), signed_identities).to_batches()
