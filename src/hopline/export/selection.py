"""Which journeys are exported: all, those that began on some days, or one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from hopline.message import HoplineError
from hopline.pipeline.days import Days

LISTED_JOURNEYS = 5
LOOKED_UP_FLOWS = 1_000
"""So many flows are named to Parquet, whose bloom filters then skip nearly everything else."""
DAYS_AROUND = timedelta(days=1)
"""Records of so much before and after the chosen days are read, for journeys that go on after midnight."""


class NoJourneyError(HoplineError):
    """An id stands for no journey, or for several."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The flows of the chosen journeys, and what is known about where their rows are."""

    flows: DataFrame
    days: Days
    flow_ids: tuple[str, ...] = ()  # all of them, where they are few; none: unknown

    def of(self, table: DataFrame) -> DataFrame:
        """Return the rows of a table that may belong to the chosen flows, without comparing each."""
        flow_id = sf.col("flow_id")
        date = sf.col("date")
        is_near = flow_id.isNotNull()
        if self.flow_ids:
            is_near &= flow_id.isin(*self.flow_ids)
        if self.days.first is not None:
            earliest = self.days.first - DAYS_AROUND
            is_near &= date >= earliest
        if self.days.last is not None:
            latest = self.days.last + DAYS_AROUND
            is_near &= date <= latest
        return table.where(is_near)


def select(flows: DataFrame, days: Days, journey: str | None) -> Selection:
    """Return the flows of the journeys that began on some days, or of the one that an id names.

    Args:
        flows: The table of flows.
        days: The days on which the first flow of a journey began.
        journey: The id of a journey or of one of its flows, or the beginning of such an id; None for all journeys.

    Raises:
        NoJourneyError: No journey, or more than one, is meant by the id.
    """
    if not days.is_all:
        flows = _begun_on(flows, days)
    if journey is None:
        return Selection(flows, days)
    journey_id = _one_journey(flows, journey)
    members = flows.where(sf.col("journey_id") == journey_id)
    first_rows = members.select("flow_id").limit(LOOKED_UP_FLOWS + 1).collect()
    if len(first_rows) > LOOKED_UP_FLOWS:
        return Selection(members, days)
    flow_ids = [row.flow_id for row in first_rows]
    return Selection(members, days, tuple(flow_ids))


def _begun_on(flows: DataFrame, days: Days) -> DataFrame:
    first_date = sf.min("date").alias("begun")
    journeys = flows.groupBy("journey_id").agg(first_date)
    begun = sf.col("begun")
    is_chosen = sf.lit(True)
    if days.first is not None:
        is_chosen &= begun >= days.first
    if days.last is not None:
        is_chosen &= begun <= days.last
    chosen = journeys.where(is_chosen)
    return flows.join(chosen, "journey_id", "left_semi")


def _one_journey(flows: DataFrame, beginning: str) -> str:
    journey_id = sf.col("journey_id")
    flow_id = sf.col("flow_id")
    is_meant = journey_id.startswith(beginning) | flow_id.startswith(beginning)
    is_exact = (journey_id == beginning) | (flow_id == beginning)
    candidates = (
        flows.where(is_meant)
        .groupBy("journey_id")
        .agg(sf.max(is_exact).alias("is_exact"))
        .orderBy(sf.desc("is_exact"), "journey_id")
        .limit(LISTED_JOURNEYS + 1)
        .collect()
    )
    if not candidates:
        raise NoJourneyError(f"no journey, and no flow of one, begins with {beginning!r}")
    exact = [row for row in candidates if row.is_exact]
    if len(candidates) == 1 or len(exact) == 1:
        return str(candidates[0].journey_id)
    ids = [row.journey_id for row in candidates]
    listed = ", ".join(ids[:LISTED_JOURNEYS])
    more = ", …" if len(ids) > LISTED_JOURNEYS else ""
    raise NoJourneyError(f"several journeys begin with {beginning!r}: {listed}{more}; give more of the id")
