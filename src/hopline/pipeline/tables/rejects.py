"""The table of rejects: every record that is no valid message, with the reason."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hopline.pipeline.decoding.decoder import decoded


def rejects(records: DataFrame) -> DataFrame:
    """Find the records (as `decoding.records` gives them) that cannot be read."""
    return decoded(records, "rejects")
