"""By how much the clocks of two nodes differ, from the shortest transits in both directions.

A message from a to b takes, by the two clocks, its true time plus the offset; one from b to a its true time less the
offset. Half the difference of the two is the offset, but for what one way takes longer than the other, which is at most
half their sum. True times are not negative, so neither is that sum, unless the offset was not the same at both times:
the clocks did not keep step. Then there is no offset to be estimated, and a negative bound says why.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.schemas import SKEW


def skew(transits: DataFrame) -> DataFrame:
    """Return the estimated offset of each pair of clocks by day, with the bound that it is surely within."""
    forwards = sf.col("from_node") < sf.col("to_node")
    transit = sf.col("transit_us")
    there, back = sf.col("min_transit_ab_us"), sf.col("min_transit_ba_us")
    return (
        transits.where(transit.isNotNull() & (sf.col("from_node") != sf.col("to_node")))
        .groupBy(
            "date",
            sf.least("from_node", "to_node").alias("node_a"),
            sf.greatest("from_node", "to_node").alias("node_b"),
        )
        .agg(
            sf.min(sf.when(forwards, transit)).alias("min_transit_ab_us"),
            sf.min(sf.when(~forwards, transit)).alias("min_transit_ba_us"),
            sf.count(sf.when(forwards, transit)).alias("transits_ab"),
            sf.count(sf.when(~forwards, transit)).alias("transits_ba"),
        )
        # Halves are rounded up: half a microsecond that the estimate gains, the bound gains as well.
        .withColumn("bound_us", sf.shiftright(there + back + 1, 1))
        .withColumn("offset_us", sf.when(sf.col("bound_us") >= 0, sf.shiftright(there - back + 1, 1)))
        .to(SKEW)
    )
