"""By how much the clocks of two nodes differ, from the shortest transits in both directions.

A message from a to b takes, by the two clocks, its true time plus the offset; one from b to a its true time less the
offset. Half the difference of the two is the offset, but for what one way takes longer than the other, which is at most
half their sum. True times are not negative, so neither is that sum, unless the offset was not the same at both times:
the clocks did not keep step. Then there is no offset to be estimated, and a negative bound says why.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.schemas import SKEW
from hopline.pipeline.tables.matching import MATCHED_BY, crosses, matched
from hopline.pipeline.traces import Kernel, Traces, TracesOfMessages
from hopline.pipeline.traces.arrays import DAY_US, groups_of, order_of, starts_of

SHORTEST = pa.schema(
    [
        ("date", pa.date32()),
        ("from_node", pa.string()),
        ("to_node", pa.string()),
        ("transit_us", pa.int64()),
        ("transits", pa.int64()),
    ]
)


def skew(messages: DataFrame, traces: Traces | None = None) -> DataFrame:
    """Estimate the offset of each pair of clocks by day, with the bound that it is surely within."""
    return estimated((traces or TracesOfMessages(messages)).made_by(TIMING))


def estimated(shortest: DataFrame) -> DataFrame:
    """Estimate it from the shortest transits, and how many there are, each of some of them."""
    forwards = sf.col("from_node") < sf.col("to_node")
    transit, transits = sf.col("transit_us"), sf.col("transits")
    there, back = sf.col("min_transit_ab_us"), sf.col("min_transit_ba_us")
    return (
        shortest.groupBy(
            "date",
            sf.least("from_node", "to_node").alias("node_a"),
            sf.greatest("from_node", "to_node").alias("node_b"),
        )
        .agg(
            sf.min(sf.when(forwards, transit)).alias("min_transit_ab_us"),
            sf.min(sf.when(~forwards, transit)).alias("min_transit_ba_us"),
            sf.sum(sf.when(forwards, transits).otherwise(0)).alias("transits_ab"),
            sf.sum(sf.when(forwards, 0).otherwise(transits)).alias("transits_ba"),
        )
        # Halves are rounded up: half a microsecond that the estimate gains, the bound gains as well.
        .withColumn("bound_us", sf.shiftright(there + back + 1, 1))
        .withColumn("offset_us", sf.when(sf.col("bound_us") >= 0, sf.shiftright(there - back + 1, 1)))
        .to(SKEW)
    )


def _shortest(rows: pa.Table) -> pa.Table:
    """Find the shortest transit of each day from each node to each other, among these."""
    ways = matched(rows)
    found = np.flatnonzero(ways.is_timed & (ways.source != ways.target))
    day, source, target = ways.sent_us[found] // DAY_US, ways.source[found], ways.target[found]
    transit = (ways.received_us - ways.sent_us)[found]
    order = order_of(day, source, target, transit)
    starts = starts_of(day[order], source[order], target[order])
    first, nodes = order[starts], pa.array(ways.names, pa.string())
    return pa.table(
        {
            "date": pa.array(day[first].astype(np.int32)).cast(pa.date32()),
            "from_node": nodes.take(pa.array(source[first])),
            "to_node": nodes.take(pa.array(target[first])),
            "transit_us": transit[first],
            "transits": np.bincount(groups_of(starts), minlength=len(first)),
        }
    )


TIMING = Kernel(columns=MATCHED_BY, schema=SHORTEST, work=_shortest, keep=crosses)
