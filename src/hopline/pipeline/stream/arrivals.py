"""What a batch reads: new segments, decoded; replays among their messages; and what comes too late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hopline.decoding.keys import Keyring
from hopline.message import get_logger
from hopline.pipeline.captures import inspect_segments, plain_path
from hopline.pipeline.days import Days
from hopline.pipeline.failures import BadCapturesError, UnbalancedError
from hopline.pipeline.spark_work import ONE_FILE_A_BATCH, at_once, with_settings
from hopline.pipeline.storage import PathTables, on_days
from hopline.pipeline.stream.hadoop_files import existing
from hopline.pipeline.stream.options import StreamOptions
from hopline.pipeline.stream.publication import Publication
from hopline.pipeline.tables import by_flow, security
from hopline.pipeline.tables.late import FLOW, WINDOW
from hopline.pipeline.tables.messages import MESSAGES
from hopline.pipeline.tables.rejects import REJECTS

REPLAYS_WITHIN_S = 3600
"""A replay is found among the messages of so much time before it; settling a day finds all of them."""
_SECOND_US = 1_000_000
_ONE_DAY = timedelta(days=1)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Arrived:
    """What the new segments hold."""

    messages: DataFrame
    rejects: DataFrame
    days: tuple[date, ...] = ()  # on which there are records
    times: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # each node's first and last message
    counts: Mapping[str, int] = field(default_factory=dict)  # as `Totals.plus` takes them

    @property
    def first_us(self) -> int | None:
        """Return the time of the first message."""
        return min((first for first, _ in self.times.values()), default=None)


def decode(
    spark: SparkSession, paths: Sequence[str], options: StreamOptions, keyring: Keyring, publication: Publication
) -> Arrived:
    """Decode segments, and write their messages and rejects.

    Segments that were deleted before they were read are skipped, counted and logged: retention deletes the oldest ones,
    and a stream that was down for long finds them in its list no more.

    Raises:
        BadCapturesError: Some of them cannot be read, and the options do not say to skip these.
        UnbalancedError: There are more or fewer rows than records.
    """
    there, gone = _there_and_gone(spark, paths)
    if not there:
        return Arrived(_no_rows(spark, MESSAGES), _no_rows(spark, REJECTS), counts={"skipped": len(gone)})
    with with_settings(spark, ONE_FILE_A_BATCH), closing(inspect_segments(spark, there, Days())) as captures:
        if captures.bad and not options.skip_bad_files:
            raise BadCapturesError(captures.bad, others=len(captures.segments))
        if not captures.segments:
            counts = {"skipped": len(captures.bad) + len(gone)}
            return Arrived(_no_rows(spark, MESSAGES), _no_rows(spark, REJECTS), counts=counts)
        decoded = captures.messages(keyring, with_bodies=options.with_bodies)
        messages, rejects = at_once(
            [
                partial(publication.write, "messages", decoded),
                partial(publication.write, "rejects", captures.rejects()),
            ]
        )
        records = captures.records_of_days
        if messages + rejects != records:
            raise UnbalancedError(records, messages, rejects)
        counts = {
            "segments": len(captures.segments),
            "skipped": len(captures.bad) + len(gone),
            "records": records,
            "messages": messages,
            "rejects": rejects,
        }
        days = tuple(day for day in captures.days if day is not None)
    written = publication.read("messages")
    return Arrived(written, publication.read("rejects"), days, _times(written), counts)


def _there_and_gone(spark: SparkSession, paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the segments that can be read, and those that were deleted since they were listed."""
    there = existing(spark, paths)
    gone = sorted(set(paths) - set(there))
    for path in gone:
        _log.warning("segment %s was deleted before it was read: its records are in no table", plain_path(path))
    return there, gone


def _no_rows(spark: SparkSession, schema: object) -> DataFrame:
    return spark.createDataFrame([], schema)  # type: ignore[call-overload,no-any-return]


def _times(messages: DataFrame) -> dict[str, tuple[int, int]]:
    us = sf.unix_micros("ts")
    rows = messages.groupBy(by_flow.text("node").alias("node")).agg(sf.min(us).alias("first"), sf.max(us).alias("last"))
    return {
        row.node: (row.first, row.last) for row in rows.select("node", "first", "last").collect() if row[1] is not None
    }


def repeats(arrived: Arrived, tables: PathTables) -> DataFrame:
    """Return the verified bytes among new messages that their node has received before.

    Args:
        arrived: What is new.
        tables: Where the messages are that came before.
    """
    columns = ("node", "fingerprint", "seq", "ts", "segment", "verdict")
    is_verified = sf.col("verdict") == "verified"
    new = arrived.messages.where(is_verified).select(*columns)
    if arrived.first_us is None:
        return security.repeats(new)
    since = sf.timestamp_micros(sf.lit(arrived.first_us - REPLAYS_WITHIN_S * _SECOND_US))
    days = {day - back for day in arrived.days for back in (timedelta(), _ONE_DAY)}
    known = on_days(tables.read("messages"), days).where(is_verified & (sf.col("ts") >= since)).select(*columns)
    bytes_of_new = new.select("node", "fingerprint").distinct()
    same_bytes = known["node"].eqNullSafe(bytes_of_new["node"]) & (known["fingerprint"] == bytes_of_new["fingerprint"])
    return security.repeats(known.join(bytes_of_new, same_bytes, "left_semi").union(new))


def with_lateness(messages: DataFrame, closed: DataFrame | None, horizon_us: int | None) -> DataFrame:
    """Add to new messages what each came too late for, in `missed`: null for nearly all of them.

    Args:
        messages: New messages.
        closed: The keys of the flows that are closed, if there are any.
        horizon_us: Windows that end up to then are final.
    """
    missed = sf.when(sf.unix_micros("ts") < horizon_us, WINDOW) if horizon_us is not None else sf.lit(None)
    if closed is None:
        return messages.withColumn("missed", missed.cast("string"))
    keyed = messages.withColumn("flow_key", by_flow.flow_key())
    # The same message without a flow may be sent again at any time: that it was closed says nothing.
    new_keys = keyed.where(sf.col("flow_id").isNotNull()).select("flow_key").distinct()
    found = (
        closed.join(sf.broadcast(new_keys), "flow_key", "left_semi")
        .select("flow_key", sf.lit(True).alias("is_closed"))
        .distinct()
    )
    return (
        keyed.join(sf.broadcast(found), "flow_key", "left")
        .withColumn("missed", sf.when(sf.col("is_closed"), FLOW).otherwise(missed).cast("string"))
        .select(*messages.columns, "missed")
    )
