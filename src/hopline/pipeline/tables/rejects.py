"""The table of rejects: every record that is no valid message, with the reason."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.decoding import careful, decoded
from hopline.pipeline.schemas import REJECTS


def rejects(records: DataFrame) -> DataFrame:
    """Find the records (as `decoding.records` gives them) that cannot be read."""
    return careful_rejects(careful(decoded(records).where("odd")))


def careful_rejects(read: DataFrame) -> DataFrame:
    """Take the rejects out of what `careful` gave."""
    return read.where(sf.col("code").isNotNull()).select(*REJECTS.names).to(REJECTS)
