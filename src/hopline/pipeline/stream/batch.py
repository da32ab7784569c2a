"""One batch of a stream: from the segments that are new to what is written, and to the state for the next batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType
from pyspark.storagelevel import StorageLevel

from hopline.decoding.keys import Keyring
from hopline.pipeline.making import Making
from hopline.pipeline.spark_work import at_once
from hopline.pipeline.storage import PathTables, on_days
from hopline.pipeline.stream import closing, windows
from hopline.pipeline.stream.arrivals import Arrived, decode, repeats, with_lateness
from hopline.pipeline.stream.hadoop_files import HadoopFiles
from hopline.pipeline.stream.nodes import heard, horizon, passed, silent
from hopline.pipeline.stream.options import StreamOptions
from hopline.pipeline.stream.publication import Publication
from hopline.pipeline.stream.settling import days_over, end_of, micros, settle
from hopline.pipeline.stream.state import NodeState, State
from hopline.pipeline.stream.state_files import States
from hopline.pipeline.tables import audit, by_flow, security, skew
from hopline.pipeline.tables.late import LATE
from hopline.pipeline.tables.messages import MESSAGES
from hopline.pipeline.tables.table import PROVISIONAL
from hopline.pipeline.tables.transits import transits

_SECOND_US = 1_000_000
_BY_UNIT = (("hops", "callbacks", "incidents"), ("flows",), ("journeys",))
"""Tables with rows of their own for each unit; those of one group do not need each other."""
_WAITING = StructType([field for field in MESSAGES if field.name != "bodies"])


@dataclass(frozen=True, slots=True)
class Waiting:
    """The records of units that were not closed before this batch."""

    messages: DataFrame
    records: DataFrame  # the result of `by_flow`
    transits: DataFrame
    skew: DataFrame  # as it is known now
    participants: DataFrame


@dataclass(frozen=True, slots=True)
class Closed:
    """The units that this batch closes."""

    keys: DataFrame
    count: int
    open_units: int
    first_open_us: int | None  # the earliest record of what stays open


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
        with ExitStack() as kept:
            state = _Batch(self, before, number, now, kept).run(paths)
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

    def __init__(self, batches: Batches, before: State, number: int, now: float, kept: ExitStack) -> None:
        self._batches = batches
        self._spark = batches.spark
        self._states = batches.states
        self._publication = batches.publication
        self._window_s = batches.options.window_s
        self._before = before
        self._number = number
        self._now = now
        self._kept = kept

    def run(self, paths: Sequence[str]) -> State:
        """Do all steps, publish what they have written, and return the state that the batch leaves."""
        before, batches = self._before, self._batches
        arrived = decode(self._spark, paths, batches.options, batches.keyring, self._publication)
        fresh, late = self._apart(arrived.messages)
        waiting = self._waiting(fresh, arrived)
        nodes = self._nodes(arrived, waiting)
        silent = batches.silent(nodes, self._now)
        closed = self._close(waiting, nodes, silent)
        days = tuple(sorted({*before.days, *(day.isoformat() for day in arrived.days)}))
        horizon_us = self._horizon(nodes, silent, closed, days)
        flows, late_rows, pending_rows = at_once(
            [
                partial(self._write_tables, arrived, waiting, nodes, closed, days, horizon_us),
                partial(self._publication.write, "late", late),
                partial(self._write_pending, waiting, closed),
            ]
        )
        state = State(
            batch=self._number,
            first_batch_s=self._now if before.first_batch_s is None else before.first_batch_s,
            written_s=self._now,
            horizon_us=horizon_us,
            pending=pending_rows,
            pending_units=closed.open_units,
            nodes=nodes,
            silent=silent,
            days=days,
            settling=self._settling(days, horizon_us),
            closed=self._remembered(closed),
            totals=before.totals.plus(**arrived.counts, late=late_rows, flows=flows),
        )
        self._publication.publish(self._number, _dates(days))
        self._states.commit(state)
        return state

    def _apart(self, arrived: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Return the new messages that came in time, and those that came too late."""
        closed = self._states.read_closed(self._before) if self._before.closed else None
        messages = with_lateness(arrived, closed, self._before.horizon_us)
        is_late = sf.col("missed").isNotNull()
        return messages.where(~is_late).select(*_WAITING.names), messages.where(is_late).to(LATE)

    def _waiting(self, fresh: DataFrame, arrived: Arrived) -> Waiting:
        pending = self._states.read(self._before.batch, "pending", _WAITING)
        messages = self._keep(self._judged(pending.unionByName(fresh), arrived))
        records = self._keep(by_flow.by_flow(messages))
        matched, took_part = at_once(
            partial(self._keep, rows) for rows in (transits(records), closing.participants(records))
        )
        so_far = self._states.read(self._before.batch, "skew", skew.SKEW)
        estimate = self._keep(skew.merged(so_far.unionByName(skew.skew(matched))))
        return Waiting(messages, records, matched, estimate, took_part)

    def _judged(self, messages: DataFrame, arrived: Arrived) -> DataFrame:
        """Return messages with the verdict `replayed` where that is due.

        Those that wait are judged again: what arrives now may have been received before them.
        """
        if not self._batches.keyring or not arrived.times:
            return messages
        known = self._keep(repeats(arrived, self._batches.tables))
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
        units = self._keep(closing.units(waiting.records, waiting.participants, known, gap_s))
        keys = self._keep(closing.closed_keys(units, waiting.records, gap_s))
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

    def _write_tables(
        self,
        arrived: Arrived,
        waiting: Waiting,
        nodes: Mapping[str, NodeState],
        closed: Closed,
        days: Sequence[str],
        horizon_us: int | None,
    ) -> int:
        """Write all tables but that of late records, and return the number of flows."""
        added = {
            "counts": audit.counts(arrived.messages, arrived.rejects),
            "stretches": audit.stretches(arrived.messages, arrived.rejects),
        }
        flows = 0
        skew_so_far = self._states.read(self._before.batch, "skew", skew.SKEW)
        if closed.count:
            making = self._kept.enter_context(self._making(waiting, closed, arrived, nodes))
            flows = self._write_units(making)
            skew_so_far = skew.merged(skew_so_far.unionByName(skew.skew(making.transits)))
            added |= {"runs": making.runs, "crossings": making.crossings, "balances": making.balances}
            added["verdicts"] = security.security(making.judged, self._window_s)
        gathered = windows.gather(self._states, self._before, self._number, added)
        self._states.write(self._number, "skew", on_days(skew_so_far, _dates(days)))
        self._write_windows(gathered, horizon_us)
        return flows

    def _making(self, waiting: Waiting, closed: Closed, arrived: Arrived, nodes: Mapping[str, NodeState]) -> Making:
        """Return the tables in the making, of the units that are closed."""

        def of_closed(rows: DataFrame) -> DataFrame:
            return self._keep(rows.join(closed.keys, "flow_key", "left_semi"))

        keyed = waiting.messages.withColumn("flow_key", by_flow.flow_key())
        messages, records, matched = at_once(
            partial(of_closed, rows) for rows in (keyed, waiting.records, waiting.transits)
        )
        messages = messages.select(*_WAITING.names)
        last_seen = [(name, node.last_us) for name, node in nodes.items() if name and node.last_us is not None]
        return Making(
            messages,
            arrived.rejects,
            window_s=self._window_s,
            signed_identities=self._batches.keyring.signed_identities,
            is_provisional=True,
            given={
                "records": records,
                "transits": matched,
                "judged": messages,
                "skew": waiting.skew,
                "last_seen": self._spark.createDataFrame(last_seen, "last_node string, last_us long").select(
                    sf.col("last_node").alias("node"), sf.timestamp_micros("last_us").alias("last_ts")
                ),
            },
        )

    def _write_units(self, making: Making) -> int:
        """Write the tables that have rows of their own for a unit, and return the number of flows."""

        def write(name: str) -> int:
            rows = self._publication.write(name, making.make(name))
            making.written(name, self._publication.read(name))
            return rows

        rows: dict[str, int] = {}
        for group in _BY_UNIT:
            rows |= zip(group, at_once(partial(write, name) for name in group), strict=True)
        return rows["flows"]

    def _write_windows(self, gathered: Mapping[str, DataFrame], horizon_us: int | None) -> None:
        """Write the tables by window, and that of the clocks, which are provisional at least in part."""
        before_us = self._before.horizon_us

        def write(name: str, table: DataFrame) -> None:
            rows = self._keep(table)
            if horizon_us != before_us:
                self._publication.write(name, rows.where(~sf.col(PROVISIONAL)))
            self._publication.write_provisional(name, rows.where(PROVISIONAL))

        estimate = self._states.read(self._number, "skew", skew.SKEW).withColumn(PROVISIONAL, sf.lit(True))
        tables = windows.tables(gathered, self._window_s, before_us, horizon_us)
        at_once(
            [
                partial(self._publication.write_provisional, "skew", estimate),
                *(partial(write, name, table) for name, table in tables),
            ]
        )

    def _write_pending(self, waiting: Waiting, closed: Closed) -> int:
        """Leave what stays open to the next batch, and return how many rows that are."""
        keyed = waiting.messages.withColumn("flow_key", by_flow.flow_key())
        pending = keyed.join(closed.keys, "flow_key", "left_anti").select(*_WAITING.names)
        self._states.write(self._number, "pending", pending)
        return self._states.read(self._number, "pending", _WAITING).count()

    def _remembered(self, closed: Closed) -> dict[str, float]:
        """Remember which units are closed, and return the batches that did so, with the time of each."""
        if not closed.count:
            return self._before.closed
        return self._states.write_closed(self._before, self._number, closed.keys, self._now)

    def _keep(self, rows: DataFrame) -> DataFrame:
        """Compute rows, and forget how: what is made of them has a plan that is quick to analyse."""
        return rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)


def _largest_differences(estimate: DataFrame) -> dict[str, int]:
    """Return by how much, at most, each clock differs from another one that it was compared with."""
    largest: dict[str, int] = {}
    for row in estimate.where(sf.col("offset_us").isNotNull()).collect():
        for node in (row.node_a, row.node_b):
            largest[node] = max(largest.get(node, 0), abs(row.offset_us) + row.bound_us)
    return largest


def _dates(days: Sequence[str]) -> list[date]:
    return [date.fromisoformat(day) for day in days]
