"""The table of flows: what belongs together by its correlation id, how long it took, where, and how it ended."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from hopline.capture.records import ENDINGS, Event
from hopline.pipeline.schemas import FLOWS
from hopline.pipeline.tables import critical_path
from hopline.pipeline.tables.critical_path import FLOW_DETAIL_LIMIT
from hopline.pipeline.tables.flow_totals import TOTALS
from hopline.pipeline.tables.stitching import (
    RECEIPT,
    asks_for_receipt_only,
    comes_home,
    has_callback,
    is_from_waiting,
    is_offence,
    may_begin,
    trail,
)
from hopline.pipeline.windows import day

_FAILURES = tuple(ending for ending in ENDINGS if ending != Event.EXPIRED)
_MAX_BYTES_BITS = 40


def flows(messages: DataFrame, callbacks: DataFrame, hops: DataFrame, skew: DataFrame) -> DataFrame:
    """Give a row for each flow: exact totals, the outcome, and the critical path of its first records."""
    stitched = messages.where(sf.col("flow_id").isNotNull())
    asked = callbacks.groupBy("flow_id").agg(
        sf.lit(True).alias("is_asked"),
        *(
            sf.max(sf.col("outcome").isin(*outcomes)).alias(name)
            for name, outcomes in {
                "got_exception": ("exception",),
                "got_answer": ("answered", "exception", "late"),
                "waited_in_vain": ("expired", "late"),
                "is_unanswered": ("unanswered",),
            }.items()
        ),
    )
    lost = hops.where("lost and flow_id is not null").select("flow_id", "lost").distinct()
    names = TOTALS.names
    large = _totals(_large(stitched)).select("flow_id", *(sf.col(name).alias(f"large_{name}") for name in names))
    return (
        _paths(stitched, skew)
        .join(sf.broadcast(large), "flow_id", "left")
        .withColumns({name: sf.coalesce(f"large_{name}", name) for name in names})
        .join(asked, "flow_id", "left")
        .join(lost, "flow_id", "left")
        .withColumns(
            {
                "date": day(sf.timestamp_micros("start_us")),
                "start_ts": sf.timestamp_micros("start_us"),
                "end_ts": sf.timestamp_micros("end_us"),
                "duration_us": sf.col("end_us") - sf.col("start_us"),
                "outcome": _outcome(),
            }
        )
        .to(FLOWS)
    )


def _large(stitched: DataFrame) -> DataFrame:
    """Take the records of flows that are too large to be counted in one piece."""
    # By a number, which is cheaper: should two flows have the same, one more is counted here, and equally.
    numbered = stitched.withColumn("flow", sf.xxhash64("flow_id"))
    counted = numbered.groupBy("flow").agg(sf.count("*").alias("records"))
    return numbered.join(sf.broadcast(counted.where(sf.col("records") > FLOW_DETAIL_LIMIT)), "flow", "left_semi")


def _totals(stitched: DataFrame) -> DataFrame:
    """Count what is exact whatever the size of the flow, each message once: as `flow_totals`, with no limit."""
    event = sf.col("event")
    # Records are first counted where they tell the same: the message crossed between two nodes, or was refused.
    crossed = sf.xxhash64(
        sf.when(event == Event.SENT, sf.col("node")).otherwise(sf.col("peer")),
        sf.when(event == Event.SENT, sf.col("peer")).otherwise(sf.col("node")),
        "hops",
    )
    place = (
        sf.when((event == Event.REJECTED) | is_offence(), sf.xxhash64("node", "fingerprint"))
        .when(event.isin(Event.SENT, Event.RECEIVED), crossed)
        .otherwise(0)
    )
    # As long as nobody sent it on, a message has the size that it was made with.
    size = trail().cast("long") * (1 << _MAX_BYTES_BITS) + sf.col("bytes")
    by_place = (
        stitched.select(
            "flow_id",
            "message_id",
            place.alias("place"),
            _if(event == Event.SUBMITTED).alias("submitted"),
            _if(event == Event.SENT).alias("sent"),
            _if(event == Event.RECEIVED).alias("received"),
            size.alias("size"),
            is_offence().alias("is_offence"),
            sf.coalesce(event.isin(*_FAILURES), sf.lit(False)).alias("is_failed"),
            sf.coalesce(event == Event.EXPIRED, sf.lit(False)).alias("is_expired"),
        )
        .repartition(sf.col("flow_id"))
        .groupBy("flow_id", "message_id", "place")
        .agg(
            sf.count("*").alias("records"),
            sf.sum("submitted").alias("submitted"),
            sf.sum("sent").alias("sent"),
            # Of what was sent, whatever came more often is a duplicate.
            sf.when(sf.sum("sent") > 0, sf.sum("sent")).otherwise(sf.sum("received")).alias("hops"),
            sf.min("size").alias("size"),
            sf.max("is_offence").alias("is_offence"),
            sf.max("is_failed").alias("is_failed"),
            sf.max("is_expired").alias("is_expired"),
        )
        .where(~sf.col("is_offence"))
    )
    by_message = by_place.groupBy("flow_id", "message_id").agg(
        sf.sum("records").alias("records"),
        sf.sum("hops").alias("hops"),
        sf.when(sf.sum("submitted") > 0, sf.sum("submitted"))
        .otherwise(sf.greatest(sf.max("sent"), sf.lit(1)))
        .alias("messages"),
        sf.pmod(sf.min("size"), sf.lit(1 << _MAX_BYTES_BITS)).alias("bytes"),
        sf.max("is_failed").alias("is_failed"),
        sf.max("is_expired").alias("is_expired"),
    )
    return by_message.groupBy("flow_id").agg(
        sf.sum("records").alias("records"),
        sf.sum("hops").alias("hops"),
        sf.sum("messages").alias("messages"),
        sf.sum(sf.col("messages") * sf.col("bytes")).alias("bytes"),
        sf.max("is_failed").alias("is_failed"),
        sf.max("is_expired").alias("is_expired"),
    )


def _paths(stitched: DataFrame, skew: DataFrame) -> DataFrame:
    """Hand the records to the walk, sorted by flow and by the order inside it: what it needs of them and no more."""
    number = sf.array_position(sf.array(*(sf.lit(event) for event in Event)), sf.col("event"))
    ask = sf.xxhash64("callback_receiver_node", "callback_receiver", "callback_key")
    facts = sf.coalesce(number, sf.lit(0)) + _flags() + sf.shiftleft(trail().cast("long"), critical_path.TRAIL_SHIFT)
    bounds = skew.select("date", "node_a", "node_b", "bound_us")
    # What did not cross has no pair of clocks, and is not looked up.
    came = sf.col("event") == Event.RECEIVED
    return (
        stitched.select(
            "flow_id",
            "date",
            sf.unix_micros("ts").alias("ts_us"),
            "seq",
            "node",
            "peer",
            sf.when(came, sf.least("node", "peer")).alias("node_a"),
            sf.when(came, sf.greatest("node", "peer")).alias("node_b"),
            sf.xxhash64("local_receiver").alias("receiver_key"),
            "cause",
            "message_id",
            "fingerprint",
            sf.coalesce("hops", sf.lit(0)).alias("hops"),
            "bytes",
            facts.alias("facts"),
            sf.when(has_callback(), ask).otherwise(0).alias("ask"),
            "identity",
        )
        .join(sf.broadcast(bounds), ["date", "node_a", "node_b"], "left")
        .drop("date", "node_a", "node_b")
        .repartition(sf.col("flow_id"))
        .sortWithinPartitions("flow_id", sf.shiftright("facts", critical_path.TRAIL_SHIFT), "ts_us", "node", "seq")
        .mapInArrow(critical_path.paths, from_arrow_schema(critical_path.PATHS))
    )


def _if(flag: Column) -> Column:
    return sf.when(flag, sf.lit(1)).otherwise(0)


def _flags() -> Column:
    """Tell what an event may mean to its flow; other events mean nothing."""
    event = sf.col("event")
    of_beginnings = {
        critical_path.MAY_BEGIN: may_begin(),
        critical_path.FROM_WAITING: is_from_waiting(),
        critical_path.RECEIPT_ENOUGH: asks_for_receipt_only(),
    }
    of_answers = {critical_path.ANSWER: comes_home(), critical_path.IS_RECEIPT: sf.col("identity") == RECEIPT}
    return (
        sf.when(is_offence(), critical_path.OFFENCE)
        .when(event.isin(Event.SUBMITTED, Event.SENT), _bits(of_beginnings))
        .otherwise(_bits(of_answers))
    )


def _bits(flags: dict[int, Column]) -> Column:
    total = sf.lit(0)
    for bit, flag in flags.items():
        total = total + sf.when(flag, bit).otherwise(0)
    return total


def _outcome() -> Column:
    is_asked, got_answer = (sf.coalesce(name, sf.lit(False)) for name in ("is_asked", "got_answer"))
    return (
        sf.when(sf.col("records") > FLOW_DETAIL_LIMIT, "truncated")
        .when(~sf.col("has_root"), "orphan")
        .when(sf.col("got_exception") | (sf.col("is_failed") & ~got_answer), "failed")
        .when(~is_asked & sf.col("lost"), "failed")
        .when(sf.col("waited_in_vain") | (~is_asked & sf.col("is_expired")), "expired")
        .when(sf.col("is_unanswered"), "unanswered")
        .otherwise("complete")
    )
