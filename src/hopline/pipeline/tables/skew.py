"""By how much the clocks of two nodes differ, from the shortest transits in both directions.

A message from a to b takes, by the two clocks, its true time plus the offset; one from b to a its true time less the
offset. Half the difference of the two is the offset, but for what one way takes longer than the other, which is at most
half their sum. True times are not negative, so neither is that sum, unless the offset was not the same at both times:
the clocks did not keep step. Then there is no offset to be estimated, and a negative bound says why.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.pipeline.tables.findings import Finding, Seen, duration, short
from hopline.pipeline.tables.table import DATE, FLAG, LONG, PROVISIONAL, TEXT, Table, columns

SKEW = columns(
    ("date", DATE, "day"),
    ("node_a", TEXT, "first node of the pair, in alphabetical order"),
    ("node_b", TEXT, "second node of the pair"),
    ("offset_us", LONG, "estimated difference of the clocks, node_b minus node_a; null if one direction was not seen"),
    ("bound_us", LONG, "largest possible error of that estimate; negative if the difference changed during the day"),
    ("min_transit_ab_us", LONG, "shortest transit from node_a to node_b, not corrected for the clocks"),
    ("min_transit_ba_us", LONG, "shortest transit from node_b to node_a, not corrected for the clocks"),
    ("transits_ab", LONG, "number of transits from node_a to node_b"),
    ("transits_ba", LONG, "number of transits from node_b to node_a"),
    (PROVISIONAL, FLAG, "true while a stream waits for the end of the day"),
)
_KEYS = ("date", "node_a", "node_b")


def skew(transits: DataFrame) -> DataFrame:
    """Return the estimated offset of each pair of clocks by day, with the bound that it is surely within."""
    forwards = sf.col("from_node") < sf.col("to_node")
    transit = sf.col("transit_us")
    pairs = (
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
    )
    return _estimated(pairs)


def merged(parts: DataFrame) -> DataFrame:
    """Return one table of skew made of several, each of which knew some of the transits."""
    pairs = parts.groupBy(*_KEYS).agg(
        *(sf.min(name).alias(name) for name in ("min_transit_ab_us", "min_transit_ba_us")),
        *(sf.sum(name).alias(name) for name in ("transits_ab", "transits_ba")),
    )
    return _estimated(pairs)


def _estimated(pairs: DataFrame) -> DataFrame:
    there, back = sf.col("min_transit_ab_us"), sf.col("min_transit_ba_us")
    return (
        # Halves are rounded up: half a microsecond that the estimate gains, the bound gains as well.
        pairs.withColumn("bound_us", sf.shiftright(there + back + 1, 1))
        .withColumn("offset_us", sf.when(sf.col("bound_us") >= 0, sf.shiftright(there - back + 1, 1)))
        .to(SKEW)
    )


def _clocks_that_differ(seen: Seen) -> Finding:
    surely = seen.rows(
        "date, node_a, node_b, offset_us, bound_us",
        "bound_us >= 0 and abs(offset_us) > bound_us",
        then="order by abs(offset_us) desc, node_a, node_b, date",
    )
    return Finding(
        "Clock differences",
        ("day", "node", "compared with", "offset", "max error"),
        tuple(
            (
                str(row["date"]),
                short(row["node_b"]),
                short(row["node_a"]),
                duration(row["offset_us"]),
                duration(row["bound_us"]),
            )
            for row in surely
        ),
        seen.command(order_by="offset_us" if surely and surely[0]["offset_us"] < 0 else "offset_us desc"),
        is_trouble=True,
    )


def _clocks_out_of_step(seen: Seen) -> Finding:
    """Return the clocks of which no offset can be told: messages took less than no time there and back."""
    rows = seen.rows(
        "date, node_a, node_b, min_transit_ab_us, min_transit_ba_us",
        "bound_us < 0",
        then="order by bound_us, node_a, node_b, date",
    )
    return Finding(
        "Clocks whose difference changed during the day",
        ("day", "node", "compared with", "shortest transit there", "shortest transit back"),
        tuple(
            (
                str(row["date"]),
                short(row["node_a"]),
                short(row["node_b"]),
                duration(row["min_transit_ab_us"]),
                duration(row["min_transit_ba_us"]),
            )
            for row in rows
        ),
        seen.command("bound_us < 0", "bound_us"),
        is_trouble=True,
    )


TABLE = Table(
    name="skew",
    meaning="per day and pair of nodes: by how much their clocks differ",
    schema=SKEW,
    shown_first=("date", "node_a", "node_b", "offset_us", "bound_us", "transits_ab", "transits_ba"),
    function=skew,
    findings=(
        _clocks_that_differ,
        _clocks_out_of_step,
    ),
)
