"""One batch of a stream: from the segments that are new to what is written, and to the state for the next batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hopline.decoding.keys import Keyring
from hopline.pipeline.few_rows import settings_for
from hopline.pipeline.spark_work import at_once, checkpointed, with_settings
from hopline.pipeline.storage import PathTables
from hopline.pipeline.stream import closing
from hopline.pipeline.stream.arrivals import Arrived, decode, repeats, with_lateness
from hopline.pipeline.stream.hadoop_files import HadoopFiles
from hopline.pipeline.stream.nodes import heard, horizon, passed, silent
from hopline.pipeline.stream.options import StreamOptions
from hopline.pipeline.stream.publication import Publication
from hopline.pipeline.stream.settling import days_over, end_of, micros, settle
from hopline.pipeline.stream.state import NodeState, State
from hopline.pipeline.stream.state_files import States
from hopline.pipeline.stream.writing import WAITING, Closed, Contents, Waiting, Writing
from hopline.pipeline.tables import by_flow, security, skew
from hopline.pipeline.tables.late import LATE
from hopline.pipeline.tables.transits import transits

_SECOND_US = 1_000_000


class Batches:
    """The batches of a stream.

    Args:
        options: What the stream was told.
        keyring: The keys that signatures are checked with.
        spark: The session.
        clock: The time, in seconds since 1970.
    """

    def __init__(
        self, options: StreamOptions, keyring: Keyring, spark: SparkSession, clock: Callable[[], float] = time.time
    ) -> None:
        self.options = options
        self.keyring = keyring
        self.spark = spark
        self.clock = clock
        self.is_final = False  # nothing more will come
        files = HadoopFiles(spark, str(options.out))
        self.states = States(spark, files)
        self.tables = PathTables(spark, str(options.out), "parquet")
        self.publication = Publication(spark, files, self.tables)
        self._is_interrupted = True  # the last batch, as far as is known: in a process that was killed

    def run(self, paths: Sequence[str], number: int) -> State:
        """Do a batch, and return the state that it leaves.

        Args:
            paths: The segments that are new.
            number: The number of the batch. The same number again replaces what it wrote before, unless it was done.
        """
        done = self.states.of(number)
        if done is not None:
            return self._settled(done)
        now = self.clock()
        if self._is_interrupted:
            self.publication.begin(number, self.publication.days_with_rows())
            self.publication.make_missing_tables(datetime.fromtimestamp(now, UTC).date())
            self._is_interrupted = False
        before = self.states.before(number)
        if not paths and not self._has_work(before, now):
            return before
        self.states.keep_only(before)
        self._is_interrupted = True
        state = _Batch(self, before, number, now).run(paths)
        self._is_interrupted = False
        return self._settled(state)

    def silent(self, nodes: Mapping[str, NodeState], now: float) -> tuple[str, ...]:
        """Return the nodes that are not waited for."""
        return tuple(nodes) if self.is_final else silent(nodes, now, self.options.idle_s)

    def knows_all_nodes(self, before: State, now: float) -> bool:
        """Return whether the stream is old enough to have heard of every node: until then no window is final."""
        return before.first_batch_s is not None and now - before.first_batch_s >= self.options.idle_s

    def _has_work(self, before: State, now: float) -> bool:
        """Return whether there is something to do although nothing is new: something waited for a time that is over."""
        if self.is_final:
            return bool(before.pending or before.days)
        knew_all_nodes = self.knows_all_nodes(before, before.written_s)
        has_waited = (
            self.silent(before.nodes, now) != before.silent or self.knows_all_nodes(before, now) > knew_all_nodes
        )
        return has_waited and (before.pending > 0 or before.has_open_windows)

    def _settled(self, state: State) -> State:
        """Settle the days that a state says are over; who is killed meanwhile begins again."""
        for day in state.settling:
            settle(self.tables, date.fromisoformat(day), self.keyring, self.options.window_s)
            state = state.settled(day)
            self.states.commit(state)
        return state


class _Batch:
    """One batch."""

    def __init__(self, batches: Batches, before: State, number: int, now: float) -> None:
        self._batches = batches
        self._spark = batches.spark
        self._states = batches.states
        self._publication = batches.publication
        self._window_s = batches.options.window_s
        self._before = before
        self._number = number
        self._now = now

    def run(self, paths: Sequence[str]) -> State:
        """Do all steps, publish what they have written, and return the state that the batch leaves."""
        options = self._batches.options
        arrived = decode(self._spark, paths, options, self._batches.keyring, self._publication)
        rows = self._before.pending + arrived.counts.get("messages", 0)
        with with_settings(self._spark, settings_for(rows, options.conf)):
            return self._follow(arrived)

    def _follow(self, arrived: Arrived) -> State:
        """Do what follows when the records have been decoded and written."""
        before, batches = self._before, self._batches
        fresh, late = self._apart(arrived.messages)
        waiting = self._waiting(fresh, arrived)
        nodes = self._nodes(arrived, waiting)
        silent = batches.silent(nodes, self._now)
        closed = self._close(waiting, nodes, silent)
        days = tuple(sorted({*before.days, *(day.isoformat() for day in arrived.days)}))
        horizon_us = self._horizon(nodes, silent, closed, days)
        rows = Writing(
            Contents(arrived, late, waiting, closed, nodes, _dates(days), horizon_us),
            self._states,
            self._publication,
            before,
            self._number,
            window_s=self._window_s,
            signed_identities=batches.keyring.signed_identities,
        ).write()
        state = State(
            batch=self._number,
            first_batch_s=self._now if before.first_batch_s is None else before.first_batch_s,
            written_s=self._now,
            horizon_us=horizon_us,
            pending=rows["pending"],
            pending_units=closed.open_units,
            nodes=nodes,
            silent=silent,
            days=days,
            settling=self._settling(days, horizon_us),
            closed=self._remembered(closed),
            totals=before.totals.plus(**arrived.counts, late=rows["late"], flows=rows.get("flows", 0)),
        )
        self._publication.publish(self._number, _dates(days))
        self._states.commit(state)
        return state

    def _apart(self, arrived: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Return the new messages that came in time, and those that came too late."""
        closed = self._states.read_closed(self._before) if self._before.closed else None
        messages = with_lateness(arrived, closed, self._before.horizon_us)
        is_late = sf.col("missed").isNotNull()
        return messages.where(~is_late).select(*WAITING.names), messages.where(is_late).to(LATE)

    def _waiting(self, fresh: DataFrame, arrived: Arrived) -> Waiting:
        pending = self._states.read(self._before.batch, "pending", WAITING)
        messages = checkpointed(self._judged(pending.unionByName(fresh), arrived))
        records = checkpointed(by_flow.by_flow(messages))
        matched, took_part = at_once(
            partial(checkpointed, rows) for rows in (transits(records), closing.participants(records))
        )
        so_far = self._states.read(self._before.batch, "skew", skew.SKEW)
        estimate = checkpointed(skew.merged(so_far.unionByName(skew.skew(matched))))
        return Waiting(messages, records, matched, estimate, took_part)

    def _judged(self, messages: DataFrame, arrived: Arrived) -> DataFrame:
        """Return messages with the verdict `replayed` where that is due.

        Those that wait are judged again: what arrives now may have been received before them.
        """
        if not self._batches.keyring or not arrived.times:
            return messages
        known = checkpointed(repeats(arrived, self._batches.tables))
        return security.with_replays(messages, known)

    def _nodes(self, arrived: Arrived, waiting: Waiting) -> dict[str, NodeState]:
        """Return what is known of each node now."""
        mentioned = waiting.participants.groupBy("node").agg(sf.min("first_us").alias("first_us"))
        first_us = {row.node: row.first_us for row in mentioned.where(sf.col("first_us").isNotNull()).collect()}
        return heard(self._before.nodes, arrived.times, first_us, self._now)

    def _close(self, waiting: Waiting, nodes: Mapping[str, NodeState], silent: Sequence[str]) -> Closed:
        """Find the units that are closed now."""
        gap_s = self._batches.options.gap_s
        known = closing.passed_by(self._spark, passed(nodes, silent, _largest_differences(waiting.skew)))
        units = checkpointed(closing.units(waiting.records, waiting.participants, known, gap_s))
        keys = checkpointed(closing.closed_keys(units, waiting.records, gap_s))
        is_open = sf.col("is_closing").isNull()
        totals = (
            units.join(keys.withColumn("is_closing", sf.lit(True)), "flow_key", "left")
            .agg(
                sf.count_if(~is_open).alias("closed"),
                sf.count_if(is_open).alias("open"),
                sf.min(sf.when(is_open, sf.col("first_us"))).alias("first_open_us"),
            )
            .first()
        )
        if totals is None:
            raise LookupError("an aggregate without a row")
        return Closed(keys, totals.closed, totals.open, totals.first_open_us)

    def _horizon(
        self, nodes: Mapping[str, NodeState], silent: Sequence[str], closed: Closed, days: Sequence[str]
    ) -> int | None:
        """Return up to when windows are final."""
        before_us = self._before.horizon_us
        if self._batches.is_final:
            ends = [micros(end_of(day)) for day in _dates(days)]
            return max(ends, default=before_us)
        if not self._batches.knows_all_nodes(self._before, self._now):
            return before_us
        horizon_us = horizon(nodes, silent, closed.first_open_us, self._window_s * _SECOND_US)
        return horizon_us if before_us is None else max(before_us, horizon_us)

    def _settling(self, days: tuple[str, ...], horizon_us: int | None) -> tuple[str, ...]:
        """Return the days that are over."""
        if self._batches.is_final:
            return days
        return tuple(day.isoformat() for day in days_over(_dates(days), horizon_us))

    def _remembered(self, closed: Closed) -> dict[str, float]:
        """Remember which units are closed, and return the batches that did so, with the time of each."""
        if not closed.count:
            return self._before.closed
        return self._states.write_closed(self._before, self._number, closed.keys, self._now)


def _largest_differences(estimate: DataFrame) -> dict[str, int]:
    """Return by how much, at most, each clock differs from another one that it was compared with."""
    largest: dict[str, int] = {}
    for row in estimate.where(sf.col("offset_us").isNotNull()).collect():
        for node in (row.node_a, row.node_b):
            largest[node] = max(largest.get(node, 0), abs(row.offset_us) + row.bound_us)
    return largest


def _dates(days: Sequence[str]) -> list[date]:
    return [date.fromisoformat(day) for day in days]
