"""Exact percentiles of groups of any size: by the rank of each value in its sorted group, which may spill to disk.

Spark's own aggregates hold every distinct value of a group in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

GROUP = "group"  # a number for each group: to compare many texts, row by row, is most of the work of a sort


def ranked(rows: DataFrame, keys: Sequence[str], *values: str) -> DataFrame:
    """Add what `percentile` needs: the rank of each value in its group, from 1, and how many values the group has.

    Group by `GROUP` and the keys then: the rows of a group are together already.
    """
    rows = rows.withColumn(GROUP, sf.xxhash64(*keys))
    for value in values:
        order = Window.partitionBy(GROUP).orderBy(sf.col(value).asc_nulls_last())
        group = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        rows = rows.withColumns(
            {_rank(value): sf.row_number().over(order), _values(value): sf.count(value).over(group)}
        )
    return rows


def percentile(value: str, percent: int) -> Column:
    """Aggregate to the smallest value such that so many percent of all, or more, are not above it; null is no value."""
    # Whole numbers only: a product of fractions may end just above the rank that is meant.
    rank = sf.floor((sf.col(_values(value)) * percent + 99) / 100)
    return sf.max(sf.when(sf.col(_rank(value)) == rank, sf.col(value)))


def _rank(value: str) -> str:
    return f"{value}_rank"


def _values(value: str) -> str:
    return f"{value}_values"
