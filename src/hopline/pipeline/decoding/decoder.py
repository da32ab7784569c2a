"""The first of the two ways, as a whole: one pass over the records, without Python."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.decoding.expressions import plain
from hopline.pipeline.keys import Keyring
from hopline.pipeline.schemas import MESSAGES
from hopline.pipeline.tables.security import from_outside


def decoded(records: DataFrame, keyring: Keyring | None = None) -> DataFrame:
    """Read records (as `records` gives them): the columns of `messages`, `odd`, and the `frames` of what is odd.

    Where `odd` is true only the record's own columns mean anything: `careful` reads it. With keys, what is signed and
    came from outside is odd too: Python judges it.
    """
    read = plain(records)
    is_signed = sf.octet_length("signature") > 0
    if keyring:
        read = read.withColumn("odd", sf.col("odd") | (from_outside() & is_signed))
    verdict = sf.when(from_outside() & ~is_signed, "unsigned")
    frames = sf.when(sf.col("odd"), sf.col("frames")).alias("frames")
    return read.withColumn("verdict", verdict).select(*MESSAGES.names, "odd", frames)
