"""The decoder as Spark sees it: records in, in Arrow batches, and messages or rejects out."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from hopline.pipeline.decoding.arrow import RECORD_COLUMNS
from hopline.pipeline.decoding.batches import Read, read_batch
from hopline.pipeline.keys import Keyring
from hopline.pipeline.tables.messages import MESSAGES
from hopline.pipeline.tables.rejects import REJECTS


def decoded(records: DataFrame, table: str, keyring: Keyring | None = None) -> DataFrame:
    """Read records (as `records` gives them): the table of `messages` or of `rejects`.

    With keys, what is signed and came from outside is judged, but for replays: `tables.security.with_replays`.
    """
    ring, at = keyring or Keyring(), Read._fields.index(table)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from read_batch(batch, ring)[at].to_batches()

    named = records.withColumnRenamed("receiver", "local_receiver").select(*RECORD_COLUMNS, "frames")
    return named.mapInArrow(read, MESSAGES if table == "messages" else REJECTS)
