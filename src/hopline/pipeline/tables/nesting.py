"""Flows that were begun by a handler of another flow: their parents, and the journeys that they belong to.

Theory of operation
-------------------
A request that a handler sends begins a flow of its own. The record of its submission names its cause, the delivery of
the message that was being handled: a record of the same node, in another flow, the parent. Following parents leads to
the flow that all began with, and everything that began with it is one journey.

Only flows whose first record has a cause take part, so that the usual flow costs nothing. Their causes are looked up
among the deliveries of all flows; one that is not there was lost from the capture, and proves nothing. Journeys are
then found by pointer doubling: each flow points to its parent, and in every round to where the one that it points to
points, so that n rounds follow 2^(n-1) parents. Flows whose parents form a cycle, which only inconsistent captures
contain, are never done. As every round but those finishes some flow, a round without progress shows that only they
are left; each is a journey of its own.

Every round refers to the one before it twice. Persisting it would not do: the plan of a persisted table stays part of
all that is made of it, so that plans, and their descriptions, would double every time. A local checkpoint forgets how
its rows were made.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from hopline.capture.events import Event
from hopline.pipeline.tables.by_flow import is_event, is_offence

BROADCAST_LIMIT = 200_000
"""As many nested flows are sent to every task, instead of shuffling all deliveries."""
ROUNDS_LIMIT = 20
"""Rounds of pointer doubling: parents are followed half a million deep."""


def parents(walked: DataFrame, records: DataFrame) -> DataFrame:
    """Return one row a flow that was begun by a handler of another: `parent_flow_id`, and the delivery that it handled.

    Args:
        walked: The result of `hopline.pipeline.tables.flows.walked`.
        records: The result of `by_flow`.
    """
    begun = walked.where(sf.col("root_cause").isNotNull()).select(
        "flow_id", "is_assumed", "start_us", sf.col("origin").alias("node"), sf.col("root_cause").alias("cause")
    )
    if begun.limit(BROADCAST_LIMIT + 1).count() <= BROADCAST_LIMIT:
        begun = sf.broadcast(begun)
    deliveries = records.where(
        is_event(Event.DELIVERED) & sf.col("flow_id").isNotNull() & sf.col("node").isNotNull() & ~is_offence()
    ).select("node", sf.col("seq").alias("cause"), "ts", sf.col("flow_id").alias("parent_flow_id"))
    return (
        deliveries.join(begun, ["node", "cause"])
        .where(sf.col("parent_flow_id") != sf.col("flow_id"))
        .groupBy("flow_id", "is_assumed", "start_us", "node", "cause")
        # A node that counted from the beginning again has several deliveries of one number.
        .agg(sf.min(sf.struct("ts", "parent_flow_id"))["parent_flow_id"].alias("parent_flow_id"))
    )


def nesting(walked: DataFrame, records: DataFrame) -> DataFrame:
    """Return `parents` with `journey_id`, the flow that all began with, and `level`, how many flows lie above it.

    The rows are computed at once, and kept as long as the result is.

    Args:
        walked: The result of `hopline.pipeline.tables.flows.walked`.
        records: The result of `by_flow`.
    """
    found = _checkpoint(parents(walked, records))
    pointers = found.select(
        "flow_id", sf.col("parent_flow_id").alias("ancestor"), sf.lit(1).alias("level"), sf.lit(False).alias("done")
    )
    is_undone = ~sf.col("done")
    undone = pointers.where(is_undone).count()
    for _ in range(ROUNDS_LIMIT):
        if not undone:
            break
        pointers = _checkpoint(_doubled(pointers))
        before, undone = undone, pointers.where(is_undone).count()
        if undone == before:
            break
    journeys = pointers.select(
        "flow_id",
        sf.when(sf.col("done"), sf.col("ancestor")).otherwise(sf.col("flow_id")).alias("journey_id"),
        sf.when(sf.col("done"), sf.col("level")).otherwise(0).alias("level"),
    )
    return _checkpoint(found.join(journeys, "flow_id"))


def _checkpoint(table: DataFrame) -> DataFrame:
    return table.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)


def _doubled(pointers: DataFrame) -> DataFrame:
    """Let each flow point to where the one that it points to points; it is done where that one has no parent."""
    further = pointers.select(
        sf.col("flow_id").alias("ancestor"),
        sf.col("ancestor").alias("farther"),
        sf.col("level").alias("levels"),
    )
    is_last = sf.col("farther").isNull()
    return pointers.join(further, "ancestor", "left").select(
        "flow_id",
        sf.coalesce("farther", "ancestor").alias("ancestor"),
        (sf.col("level") + sf.coalesce("levels", sf.lit(0))).alias("level"),
        is_last.alias("done"),
    )
