"""Exact percentiles as SQL has them: the smallest value such that so many percent of all, or more, are not above it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf


def percentile(value: str, percent: int) -> Column:
    """Return the aggregate of a column of whole numbers; null is no value."""
    return sf.expr(f"percentile_disc({percent / 100}) within group (order by {value})").cast("long")
