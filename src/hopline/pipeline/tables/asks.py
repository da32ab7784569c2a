"""Flows that a handler waited for while it ran, and their place in the critical path of its own flow.

Theory of operation
-------------------
A handler that asks others sends requests, each of which begins a flow, and waits for the answers. In its own flow all
that is one stage, `run`. Here such a stage is divided: an `ask` for each time that it waited, with the flow that it
waited for, and a `run` before, between and after them. What the handler waited for is found from the end of the run
backwards. The answer that came last is what it went on with; what else it waited for at the same time cost nothing,
and the next to look for is the last answer before that request was sent.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from hopline.pipeline.paths.walk import FLOW_DETAIL_LIMIT
from hopline.pipeline.tables.by_flow import KIND
from hopline.pipeline.tables.table import LONG, TEXT

STAGE = StructType(
    [
        StructField("stage", TEXT),
        StructField("node", TEXT),
        StructField("identity", TEXT),
        StructField("us", LONG),
        StructField("handler", TEXT),
        StructField("flow_id", TEXT),
    ]
)


def asks(nesting: DataFrame, callbacks: DataFrame) -> DataFrame:
    """Return one row a flow whose handlers asked others: `asks`, the first ones, the last answer first.

    A request that was not answered in time was waited for until its time was over. One that was asked again was waited
    for until its last attempt ended.

    Args:
        nesting: The result of `hopline.pipeline.tables.nesting.nesting`.
        callbacks: The table of callbacks.
    """
    asked_us, ttl_us = sf.unix_micros("asked_ts"), sf.col("ttl_us")
    until_us = sf.when(sf.col("outcome").isin("answered", "exception"), sf.unix_micros("answered_ts")).when(
        sf.col("outcome").isin("late", "expired") & (ttl_us > 0), asked_us + ttl_us
    )
    first = Window.partitionBy("parent_flow_id").orderBy("start_us", "flow_id")
    is_first = asked_us == sf.col("start_us")
    last = sf.max_by(sf.struct(until_us.alias("us")), sf.struct("attempt", "callback_key"))
    waited = (
        nesting.join(callbacks, "flow_id")
        .where((sf.col("asked_node") == sf.col("node")) & (is_first | (sf.col("attempt") > 1)))
        .groupBy("flow_id", "parent_flow_id", "node", "cause", "start_us", "asked_receiver", *KIND)
        .agg(sf.max(is_first).alias("is_first"), last["us"].alias("until_us"))
        .where("is_first and until_us is not null")
        .withColumn("nth", sf.row_number().over(first))
        .where(sf.col("nth") <= FLOW_DETAIL_LIMIT)
    )
    ask = sf.struct("until_us", sf.col("start_us").alias("asked_us"), "flow_id", "node", "cause")
    return waited.groupBy(sf.col("parent_flow_id").alias("flow_id")).agg(
        sf.sort_array(sf.collect_list(ask), asc=False).alias("asks")
    )


def with_asks() -> Column:
    """Return the critical path with its runs divided where their handlers waited for other flows.

    It is made of the columns `critical_path`, `began_seq` and `began_us`, and `asks`, which most flows have none of.
    """
    steps = sf.arrays_zip("critical_path", "began_seq", "began_us")
    divided = sf.flatten(
        sf.transform(
            steps,
            lambda step: sf.when(step["critical_path"]["stage"] == "run", _divided(step)).otherwise(
                sf.array(step["critical_path"])
            ),
        )
    )
    return sf.when(sf.col("asks").isNull(), sf.col("critical_path")).otherwise(divided)


def _divided(step: Column) -> Column:
    """Return the parts of a run, from its last answer backwards."""
    run, start = step["critical_path"], step["began_us"]
    end = start + run["us"]

    def part(stage: str, us: Column, flow_id: Column) -> Column:
        fields = {name: run[name] for name in STAGE.names} | {"stage": sf.lit(stage), "us": us, "flow_id": flow_id}
        return sf.struct(*(fields[name].alias(name) for name in STAGE.names))

    def before(later: Column, ask: Column) -> Column:
        waited = part("ask", ask["until_us"] - ask["asked_us"], ask["flow_id"])
        went_on = part("run", later["since_us"] - ask["until_us"], sf.lit(None).cast("string"))
        parts = sf.concat(sf.array(waited, went_on), later["parts"])
        was_waited_for = ask["until_us"] <= later["since_us"]
        return sf.when(was_waited_for, sf.struct(ask["asked_us"].alias("since_us"), parts.alias("parts"))).otherwise(
            later
        )

    def is_inside(ask: Column) -> Column:
        is_its_own = (ask["node"] == run["node"]) & (ask["cause"] == step["began_seq"])
        return is_its_own & (ask["asked_us"] >= start) & (ask["until_us"] <= end)

    none = sf.slice(sf.array(run), 1, 0)
    return sf.aggregate(
        sf.filter("asks", is_inside),
        sf.struct(end.alias("since_us"), none.alias("parts")),
        before,
        lambda found: sf.concat(
            sf.array(part("run", found["since_us"] - start, sf.lit(None).cast("string"))), found["parts"]
        ),
    )
