"""By how much the clocks of two nodes differ, from the shortest transits in both directions."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.schemas import SKEW


def skew(transits: DataFrame) -> DataFrame:
    """Estimate the offset of each pair of clocks by day, with the bound that it is surely within."""
    forwards = sf.col("from_node") < sf.col("to_node")
    backwards = sf.col("from_node") > sf.col("to_node")
    transit = sf.col("transit_us")
    there, back = sf.col("min_transit_ab_us"), sf.col("min_transit_ba_us")
    return (
        transits.filter(transit.isNotNull() & (forwards | backwards))
        .groupBy(
            "date",
            sf.least("from_node", "to_node").alias("node_a"),
            sf.greatest("from_node", "to_node").alias("node_b"),
        )
        .agg(
            sf.min(sf.when(forwards, transit)).alias("min_transit_ab_us"),
            sf.min(sf.when(backwards, transit)).alias("min_transit_ba_us"),
            sf.count(sf.when(forwards, transit)).alias("transits_ab"),
            sf.count(sf.when(backwards, transit)).alias("transits_ba"),
        )
        # Halves are rounded up: half a microsecond that the estimate gains, the bound gains as well.
        .withColumn("offset_us", sf.shiftright(there - back + 1, 1))
        .withColumn("bound_us", sf.shiftright(there + back + 1, 1))
        .to(SKEW)
    )
