"""The first of the two ways, as a whole: one pass over the records, without Python."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.decoding.expressions import plain
from hopline.pipeline.schemas import MESSAGES


def decoded(records: DataFrame) -> DataFrame:
    """Read records (as `records` gives them): the columns of `messages`, `odd`, and the `frames` of what is odd.

    Where `odd` is true only the record's own columns mean anything: `careful` reads it.
    """
    frames = sf.when(sf.col("odd"), sf.col("frames")).alias("frames")
    return plain(records).select(*MESSAGES.names, "odd", frames)
