"""What a batch writes: tables, of the units that it closes and of the records that are new, and what stays open.

Most batches have few rows, and planning a query takes longer than running it. So queries that do not need each other
run at the same time, in two steps: first what is made of records alone, then what is made of tables as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from functools import partial

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from hopline.pipeline.making import Making
from hopline.pipeline.spark_work import at_once, checkpointed
from hopline.pipeline.storage import on_days
from hopline.pipeline.stream.arrivals import Arrived
from hopline.pipeline.stream.publication import Publication
from hopline.pipeline.stream.state import NodeState, State
from hopline.pipeline.stream.state_files import States
from hopline.pipeline.stream.windows import Windows
from hopline.pipeline.tables import audit, by_flow, security, skew
from hopline.pipeline.tables.messages import MESSAGES
from hopline.pipeline.tables.table import PROVISIONAL

WAITING = StructType([field for field in MESSAGES if field.name != "bodies"])
"""The columns of messages that wait until their units are closed."""


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


@dataclass(frozen=True, slots=True)
class Contents:
    """What a batch has to write tables of."""

    arrived: Arrived
    late: DataFrame
    waiting: Waiting
    closed: Closed
    nodes: Mapping[str, NodeState]
    days: Sequence[date]
    horizon_us: int | None  # up to when windows are final


class Writing:
    """The tables of a batch, and what it leaves to the next one but for the document of its state.

    Args:
        contents: What the batch has.
        states: The states of the stream.
        publication: Where tables are written to.
        before: The state of the batch before.
        number: The number of the batch.
        window_s: The length of a window in seconds.
        signed_identities: The kinds of messages that must be signed.
    """

    def __init__(
        self,
        contents: Contents,
        states: States,
        publication: Publication,
        before: State,
        number: int,
        *,
        window_s: int,
        signed_identities: Sequence[str],
    ) -> None:
        self._contents = contents
        self._states = states
        self._publication = publication
        self._before = before
        self._number = number
        self._window_s = window_s
        self._signed_identities = signed_identities
        self._windows = Windows(states, before, number, window_s, contents.horizon_us)

    def write(self) -> dict[str, int]:
        """Write everything, and return how many rows there are of each."""
        of_records: dict[str, Callable[[], int]] = {
            "late": partial(self._publication.write, "late", self._contents.late),
            "pending": self._write_pending,
        }
        if not self._contents.closed.count:
            no_units = {name: partial(self._write_window, name) for name in ("handlers", "edges", "security")}
            return _all_at_once({**of_records, **no_units, "skew": self._write_skew, "audit": self._write_audit})
        with ExitStack() as kept:
            return self._write_units(kept.enter_context(self._making()), of_records)

    def _write_units(self, making: Making, others: Mapping[str, Callable[[], int]]) -> dict[str, int]:
        """Write what closed units have rows in, and other things beside it."""
        by_unit = {name: partial(self._write_table, making, name) for name in ("callbacks", "hops", "incidents")}
        rows = _all_at_once(
            {
                "parents": partial(_find_parents, making),  # first, for they are searched round by round
                **by_unit,
                **others,
                "skew": partial(self._write_skew, making.transits),
            }
        )
        return rows | _all_at_once(
            {
                "flows": partial(self._write_flows, making),
                "edges": partial(self._write_window, "edges", crossings=making.crossings),
                "audit": partial(self._write_audit, balances=making.balances),
                "handlers": partial(self._write_window, "handlers", runs=making.runs),
                "security": partial(
                    self._write_window, "security", verdicts=security.security(making.judged, self._window_s)
                ),
            }
        )

    def _making(self) -> Making:
        """Return the tables in the making, of the units that are closed."""
        waiting, nodes = self._contents.waiting, self._contents.nodes

        def of_closed(rows: DataFrame) -> DataFrame:
            return checkpointed(rows.join(self._contents.closed.keys, "flow_key", "left_semi"))

        keyed = waiting.messages.withColumn("flow_key", by_flow.flow_key())
        messages, records, matched = at_once(
            partial(of_closed, rows) for rows in (keyed, waiting.records, waiting.transits)
        )
        messages = messages.select(*WAITING.names)
        last_seen = [(name, node.last_us) for name, node in nodes.items() if name and node.last_us is not None]
        return Making(
            messages,
            self._contents.arrived.rejects,
            window_s=self._window_s,
            signed_identities=self._signed_identities,
            is_provisional=True,
            given={
                "records": records,
                "transits": matched,
                "judged": messages,
                "skew": waiting.skew,
                "last_seen": messages.sparkSession.createDataFrame(last_seen, "last_node string, last_us long").select(
                    sf.col("last_node").alias("node"), sf.timestamp_micros("last_us").alias("last_ts")
                ),
            },
        )

    def _write_table(self, making: Making, name: str) -> int:
        """Write a table that has rows of its own for each unit."""
        rows = self._publication.write(name, making.make(name))
        making.written(name, self._publication.read(name))
        return rows

    def _write_flows(self, making: Making) -> int:
        """Write the tables of flows and of journeys, and return the number of flows."""
        flows = self._write_table(making, "flows")
        self._write_table(making, "journeys")
        return flows

    def _write_window(self, name: str, **added: DataFrame) -> int:
        """Write a table by window, with what the batch adds to its parts."""
        return self._publication.write_by_mark(name, self._windows.table(name, added))

    def _write_audit(self, **added: DataFrame) -> int:
        arrived = self._contents.arrived
        counts = audit.counts(arrived.messages, arrived.rejects)
        stretches = audit.stretches(arrived.messages, arrived.rejects)
        return self._write_window("audit", counts=counts, stretches=stretches, **added)

    def _write_skew(self, transits: DataFrame | None = None) -> int:
        """Write the estimate of the clocks, with what the transits of closed units tell of them."""
        estimate = self._states.read(self._before.batch, "skew", skew.SKEW)
        if transits is not None:
            estimate = skew.merged(estimate.unionByName(skew.skew(transits)))
        self._states.write(self._number, "skew", on_days(estimate, self._contents.days))
        written = self._states.read(self._number, "skew", skew.SKEW)
        return self._publication.write_by_mark("skew", written.withColumn(PROVISIONAL, sf.lit(True)))

    def _write_pending(self) -> int:
        """Leave what stays open to the next batch."""
        keyed = self._contents.waiting.messages.withColumn("flow_key", by_flow.flow_key())
        pending = keyed.join(self._contents.closed.keys, "flow_key", "left_anti").select(*WAITING.names)
        seen = Observation()
        self._states.write(self._number, "pending", pending.observe(seen, sf.count("*").alias("rows")))
        return int(seen.get["rows"])


def _find_parents(making: Making) -> int:
    """Find the parents of flows, before the tables that need them, and return how many flows have one."""
    return making.nesting.count()


def _all_at_once(queries: Mapping[str, Callable[[], int]]) -> dict[str, int]:
    """Run queries at the same time, and return the number of rows of each."""
    return dict(zip(queries, at_once(queries.values()), strict=True))
